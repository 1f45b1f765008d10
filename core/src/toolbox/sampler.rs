//! Events for stores without events: polls the lines, and returns the changes.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::MutexGuard;
use std::time::Duration;

use crate::event::{Cursor, Event, EventBatch, EventKind, Scope};
use crate::line::change::changes;
use crate::sync::Mutex;
use crate::toolbox::snapshot::{Lines, snapshot};
use crate::{Engine, Key, Place, Result, Runtime, Ticket, TicketId, Time};

/// Maximum watchers that are remembered. A watcher that comes back later gets a gap.
const ONLOOKERS_MAX: usize = 64;

/// The pause after a snapshot, as a multiple of the time that it took. Watchers therefore use at
/// most a twentieth of the store's time.
const COOLDOWN_TIMES: u64 = 19;
/// Maximum pause after a snapshot that took long: an answer can be late for other reasons than the
/// work for it.
const COOLDOWN_MAX: Duration = Duration::from_secs(30);

/// Polls lines for watchers, and remembers the last snapshot of each. A change that is undone
/// between two snapshots is not seen.
///
/// ```
/// use std::time::Duration;
///
/// use tenure::engine::{BackgroundRuntime, Memory, Sampler};
/// use tenure::inspect::{EventKind, Scope};
/// use tenure::Locks;
///
/// # tenure::blocking::block_on(async {
/// let (engine, runtime) = (Memory::new(), BackgroundRuntime::for_timers());
/// let sampler = Sampler::new(Duration::from_millis(10));
/// let everything = Scope::Prefix(String::new());
/// let begin = sampler.events(&engine, &runtime, &everything, None).await?.cursor;
/// let guard = Locks::new(engine.clone()).mutex("a").lock().await?;
/// let news = sampler.events(&engine, &runtime, &everything, Some(begin)).await?;
/// assert_eq!(news.events[0].kind, EventKind::Joined);
/// # drop(guard);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub struct Sampler {
    pause: Duration,
    seen: Mutex<Snapshots>,
    /// The pauses of the watchers of one key, or of all keys.
    peace: Mutex<HashMap<Option<Key>, Cooldown>>,
}

#[derive(Clone, Copy, Default)]
struct Cooldown {
    /// The end of the pause, by the runtime's clock.
    until: u64,
    /// The time that the last snapshot took, in nanoseconds.
    took: Option<u64>,
    /// The part of it that counted as work of the store.
    busy: u64,
    /// The end of the last snapshot, by the runtime's clock.
    ended: Option<u64>,
}

#[derive(Default)]
struct Snapshots {
    last: u64,
    looks: VecDeque<(Cursor, Snapshot)>,
}

/// A snapshot, and when it was requested.
#[derive(Clone)]
struct Snapshot {
    at: Time,
    look: Lines,
}

/// A store that remembers for a while which tickets were broken. For
/// [`Sampler::events_with_breaks`].
///
/// ```
/// use tenure::engine::Breaks;
/// use tenure::inspect::TicketId;
/// use tenure::{Key, Result};
///
/// /// A store in which every ticket that is gone was broken.
/// struct AllBroken;
///
/// impl Breaks for AllBroken {
///     async fn broken(&self, _: &Key, gone: &[TicketId]) -> Result<Vec<TicketId>> {
///         Ok(gone.to_vec())
///     }
/// }
/// ```
pub trait Breaks {
    /// Returns those of the `gone` tickets that were broken: asked to leave, or removed by another
    /// client.
    fn broken(
        &self,
        key: &Key,
        gone: &[TicketId],
    ) -> impl Future<Output = Result<Vec<TicketId>>> + Send;
}

/// A store that does not remember breaks.
struct NoBreaks;

impl Breaks for NoBreaks {
    async fn broken(&self, _: &Key, _: &[TicketId]) -> Result<Vec<TicketId>> {
        Ok(Vec::new())
    }
}

impl Sampler {
    /// A sampler with this pause between two snapshots.
    pub fn new(pause: Duration) -> Self {
        Self { pause, seen: Mutex::default(), peace: Mutex::default() }
    }

    /// The answer of [`Engine::events`], from snapshots of `engine`.
    ///
    /// A ticket that is gone has expired if its last seen ttl is over, and has left otherwise.
    ///
    /// # Errors
    ///
    /// A snapshot failed.
    pub async fn events(
        &self,
        engine: &impl Engine,
        runtime: &dyn Runtime,
        scope: &Scope,
        after: Option<Cursor>,
    ) -> Result<EventBatch> {
        self.events_of(engine, &NoBreaks, runtime, scope, after).await
    }

    /// The same for an engine that remembers which tickets were broken.
    ///
    /// # Errors
    ///
    /// A snapshot failed.
    pub async fn events_with_breaks(
        &self,
        engine: &(impl Engine + Breaks),
        runtime: &dyn Runtime,
        scope: &Scope,
        after: Option<Cursor>,
    ) -> Result<EventBatch> {
        self.events_of(engine, engine, runtime, scope, after).await
    }

    async fn events_of(
        &self,
        engine: &impl Engine,
        breaks: &(impl Breaks + Sync),
        runtime: &dyn Runtime,
        scope: &Scope,
        after: Option<Cursor>,
    ) -> Result<EventBatch> {
        runtime.ready()?;
        let known = after.and_then(|cursor| self.seen().recall(cursor));
        let Some(before) = known else {
            let now = self.look(engine, runtime, scope, None).await?;
            let cursor = self.seen().remember(now);
            return Ok(EventBatch { events: Vec::new(), cursor, missed: after.is_some() });
        };
        loop {
            self.leave_in_peace(runtime, scope).await;
            let now = self.look(engine, runtime, scope, Some(&before.look)).await?;
            let broken = broken_between(&before.look, &now.look, breaks).await?;
            let events = all_changes(&before, &now.look, &broken, runtime);
            if !events.is_empty() {
                let cursor = self.seen().remember(now);
                return Ok(EventBatch { events, cursor, missed: false });
            }
            runtime.sleep(self.pause).await;
        }
    }

    async fn look(
        &self,
        engine: &impl Engine,
        runtime: &dyn Runtime,
        scope: &Scope,
        last: Option<&Lines>,
    ) -> Result<Snapshot> {
        let at = runtime.now();
        let look = snapshot(engine, scope, last).await?;
        let now = runtime.now().boot_ns;
        let took = now.saturating_sub(at.boot_ns);
        let mut all = self.peace();
        if all.len() >= ONLOOKERS_MAX {
            all.retain(|_, peace| peace.until > now);
        }
        let peace = all.entry(part(scope)).or_default();
        // A snapshot that waited through an outage took long but cost the store little. All that
        // were under way together waited through the same one.
        let together = peace.ended.is_some_and(|ended| at.boot_ns <= ended);
        let last = if together { Some(peace.busy) } else { peace.took };
        let busy = last.map_or(took, |last| last.min(took));
        let max = u64::try_from(COOLDOWN_MAX.as_nanos()).unwrap_or(u64::MAX);
        let pause = busy.saturating_mul(COOLDOWN_TIMES);
        let until = now.max(peace.until).saturating_add(pause).min(now.saturating_add(max));
        *peace = Cooldown { until, took: Some(took), busy, ended: Some(now) };
        Ok(Snapshot { at, look })
    }

    async fn leave_in_peace(&self, runtime: &dyn Runtime, scope: &Scope) {
        loop {
            let until = self.peace().get(&part(scope)).map_or(0, |peace| peace.until);
            let left = until.saturating_sub(runtime.now().boot_ns);
            if left == 0 {
                return;
            }
            runtime.sleep(Duration::from_nanos(left)).await;
        }
    }

    fn peace(&self) -> MutexGuard<'_, HashMap<Option<Key>, Cooldown>> {
        self.peace.lock()
    }

    fn seen(&self) -> MutexGuard<'_, Snapshots> {
        self.seen.lock()
    }
}

impl Snapshots {
    fn remember(&mut self, look: Snapshot) -> Cursor {
        self.last += 1;
        if self.looks.len() == ONLOOKERS_MAX {
            self.looks.pop_front();
        }
        self.looks.push_back((Cursor(self.last), look));
        Cursor(self.last)
    }

    fn recall(&self, cursor: Cursor) -> Option<Snapshot> {
        self.looks.iter().find(|(known, _)| *known == cursor).map(|(_, look)| look.clone())
    }
}

/// The lines that a snapshot reads: one, or all for any prefix.
fn part(scope: &Scope) -> Option<Key> {
    match scope {
        Scope::Key(key) => Some(key.clone()),
        Scope::Prefix(_) => None,
    }
}

/// The tickets that were broken between two snapshots and are gone.
async fn broken_between(
    before: &Lines,
    now: &Lines,
    breaks: &impl Breaks,
) -> Result<HashSet<TicketId>> {
    let mut broken = HashSet::new();
    for (key, line) in before {
        let here: HashSet<TicketId> =
            now.get(key).into_iter().flatten().map(|(ticket, _)| ticket.id).collect();
        // The break of a leaving ticket has been reported.
        let gone = line.iter().filter(|(_, place)| !place.leaving).map(|(ticket, _)| ticket.id);
        let gone: Vec<TicketId> = gone.filter(|id| !here.contains(id)).collect();
        if !gone.is_empty() {
            broken.extend(breaks.broken(key, &gone).await?);
        }
    }
    Ok(broken)
}

fn all_changes(
    before: &Snapshot,
    now: &Lines,
    broken: &HashSet<TicketId>,
    runtime: &dyn Runtime,
) -> Vec<Event> {
    let nobody = Vec::new();
    let (at, at_us) = (runtime.now(), runtime.wall_us());
    let gone = |ticket: &Ticket, place: &Place| match place.life {
        _ if broken.contains(&ticket.id) => EventKind::Broken,
        Some(life) if at.has_reached(before.at.plus(life)) => EventKind::Expired,
        _ => EventKind::Left,
    };
    let lines: BTreeSet<&Key> = before.look.keys().chain(now.keys()).collect();
    let of_one = |key| {
        let before = before.look.get(key).unwrap_or(&nobody);
        changes(before, now.get(key).unwrap_or(&nobody), at_us, gone)
    };
    lines.into_iter().flat_map(of_one).collect()
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::background::fake_runtime::FakeRuntime;
    use crate::layers::{Layer, Operation};
    use crate::{Clock as _, Memory, Share, WaitMode};

    /// A store with scripted delays.
    struct Slow {
        memory: Memory,
        runtime: Arc<FakeRuntime>,
        answers: Mutex<VecDeque<Duration>>,
    }

    impl Slow {
        fn new(answers: &[u64]) -> Self {
            let answers = answers.iter().map(|ms| Duration::from_millis(*ms)).collect();
            let (memory, runtime) = Default::default();
            Self { memory, runtime, answers: Mutex::new(answers) }
        }

        /// The pause of a watcher after a snapshot in this scope.
        async fn rests(&self, sampler: &Sampler, scope: &Scope) -> Duration {
            let began = self.runtime.now();
            sampler.leave_in_peace(&*self.runtime, scope).await;
            began.until(self.runtime.now())
        }
    }

    impl Layer for Slow {
        type Inner = Memory;

        fn inner(&self) -> &Memory {
            &self.memory
        }

        async fn intercept<T: Send>(
            &self,
            question: Operation<'_>,
            ask: impl Future<Output = Result<T>> + Send,
        ) -> Result<T> {
            if matches!(question, Operation::Line(_)) {
                let took = self.answers.lock().pop_front();
                self.runtime.sleep(took.unwrap_or_default()).await;
            }
            ask.await
        }
    }

    fn key() -> Key {
        Key::new("k").unwrap()
    }

    async fn join(memory: &Memory) {
        memory.join(&Ticket::new(key(), Share::WHOLE), WaitMode::Wait).await.unwrap();
    }

    /// How long after its last answer a snapshot reports the changes.
    fn blind_after(answers: &[u64]) -> Duration {
        let (store, sampler) = (Slow::new(answers), Sampler::new(Duration::from_millis(250)));
        let (runtime, scope, pause) = (&*store.runtime, Scope::Key(key()), Duration::from_secs(60));
        crate::blocking::block_on(async {
            let mut cursor = None;
            for _ in answers {
                runtime.sleep(pause).await;
                let news = sampler.events(&store, runtime, &scope, None).await.unwrap();
                cursor = Some(news.cursor);
            }
            join(&store.memory).await;
            let began = runtime.now();
            let news = sampler.events(&store, runtime, &scope, cursor).await.unwrap();
            assert!(!news.events.is_empty());
            began.until(runtime.now())
        })
    }

    #[test]
    fn a_look_that_comes_through_an_outage_makes_nobody_blind_and_a_slow_store_is_left_in_peace() {
        assert!(blind_after(&[10, 9_000]) < Duration::from_secs(1));
        assert_eq!(blind_after(&[100, 100]), Duration::from_millis(1_900));
    }

    #[test]
    fn a_slow_look_at_one_key_delays_no_look_at_others() {
        let store = Slow::new(&[5, 9_000]);
        let sampler = Sampler::new(Duration::from_millis(250));
        crate::blocking::block_on(async {
            let (one, all) = (Scope::Key(key()), Scope::Prefix(String::new()));
            sampler.look(&store, &*store.runtime, &one, None).await.unwrap();
            assert_eq!(store.rests(&sampler, &all).await, Duration::ZERO, "for others");
            assert_eq!(store.rests(&sampler, &one).await, Duration::from_millis(5 * 19));
            // A look at keys of which there are none takes no time.
            sampler.look(&store, &*store.runtime, &all, None).await.unwrap();
            assert_eq!(store.rests(&sampler, &all).await, Duration::ZERO);
        });
    }

    #[test]
    fn an_outage_of_many_looks_at_once_makes_no_watcher_blind() {
        let looks = 10;
        let store = Slow::new(&[&[5; 1][..], &[1_500; 10]].concat());
        let (sampler, scope) = (Sampler::new(Duration::from_millis(250)), Scope::Key(key()));
        crate::blocking::block_on(async {
            let look = || sampler.look(&store, &*store.runtime, &scope, None);
            look().await.unwrap();
            let all = futures_util::future::join_all((0..looks).map(|_| look())).await;
            assert!(all.iter().all(Result::is_ok));
            let rests = store.rests(&sampler, &scope).await;
            assert!(rests <= Duration::from_millis(5 * 19 * looks), "{rests:?}");
        });
    }

    #[test]
    fn so_many_onlookers_are_followed_each_from_where_it_was() {
        let (store, sampler) = (Slow::new(&[]), Sampler::new(Duration::from_millis(250)));
        let scope = Scope::Key(key());
        let events = async |after| {
            let news = sampler.events(&store, &*store.runtime, &scope, after).await.unwrap();
            (news.events.len(), news.cursor, news.missed)
        };
        crate::blocking::block_on(async {
            let (_, first, missed) = events(None).await;
            assert!(!missed, "it has just begun");
            join(&store.memory).await;
            let (_, second, _) = events(None).await;
            join(&store.memory).await;
            // A holder that joins is served at once, which is an event as well.
            assert_eq!(events(Some(first)).await.0, 3);
            assert_eq!(events(Some(second)).await.0, 1);
            for _ in 0..ONLOOKERS_MAX {
                events(None).await;
            }
            let (told, begins, missed) = events(Some(second)).await;
            assert_eq!((told, missed), (0, true), "too many came after it");
            join(&store.memory).await;
            let (told, _, missed) = events(Some(begins)).await;
            assert_eq!((told, missed), (1, false), "it begins anew");
        });
    }
}
