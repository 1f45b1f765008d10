//! Events for stores without events: polls the lines, and returns the changes.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::event::{Cursor, Event, EventBatch, EventKind, Scope};
use crate::line::change::changes;
use crate::line::snapshot::{Lines, snapshot};
use crate::{Engine, Key, Place, Result, Runtime, Ticket, TicketId, Time};

/// Maximum watchers that are remembered. A watcher that comes back later gets a gap.
const ONLOOKERS_MAX: usize = 64;

/// The pause after a snapshot, as a multiple of the time that it kept the store busy. Watchers
/// therefore use at most a twentieth of the store's time.
const COOLDOWN_TIMES: u64 = 19;
/// Maximum pause if the engine does not measure the cost of a snapshot, because an answer can be
/// late for other reasons.
const COOLDOWN_MAX: Duration = Duration::from_secs(30);

/// Polls lines for watchers, and remembers the last snapshot of each. A change that is undone
/// between two snapshots is not seen.
///
/// ```
/// use std::time::Duration;
///
/// use tenure::{Locks, event::Scope, event::EventKind, engine::{Memory, BackgroundRuntime, Sampler}};
///
/// # tenure::blocking::block_on(async {
/// let (engine, host) = (Memory::new(), BackgroundRuntime::for_timers());
/// let sampler = Sampler::new(Duration::from_millis(10));
/// let everything = Scope::Prefix(String::new());
/// let begin = sampler.events(&engine, &host, &everything, None).await?.cursor;
/// let guard = Locks::new(engine.clone()).mutex("a").lock().await?;
/// let news = sampler.events(&engine, &host, &everything, Some(begin)).await?;
/// assert_eq!(news.events[0].kind, EventKind::Joined);
/// # drop(guard);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub struct Sampler {
    pause: Duration,
    seen: Mutex<Snapshots>,
    /// The pauses of the watchers of one key, or of all keys.
    peace: Mutex<HashMap<Option<Key>, Cooldown>>,
    cost: Option<Arc<Cost>>,
}

/// The time for which snapshots have kept the store busy, as the engine measures it.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use tenure::engine::{Cost, Sampler};
///
/// let cost = Arc::new(Cost::default());
/// let sampler = Sampler::new(Duration::from_millis(250)).at_cost(cost.clone());
/// // After each snapshot:
/// cost.add(Duration::from_millis(3));
/// # drop(sampler);
/// ```
#[derive(Debug, Default)]
pub struct Cost(AtomicU64);

impl Cost {
    /// Adds the time of one request.
    pub fn add(&self, busy: Duration) {
        let nanos = u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }

    fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy, Default)]
struct Cooldown {
    /// The end of the pause, by the runtime's clock.
    until: u64,
    /// The time of the last snapshot, in nanoseconds.
    took: Option<u64>,
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
/// use tenure::{Key, Result, TicketId};
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
        Self { pause, seen: Mutex::default(), peace: Mutex::default(), cost: None }
    }

    /// Uses the cost that the engine measures, instead of the duration of a snapshot.
    #[must_use]
    pub fn at_cost(self, cost: Arc<Cost>) -> Self {
        Self { cost: Some(cost), ..self }
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
        host: &dyn Runtime,
        scope: &Scope,
        after: Option<Cursor>,
    ) -> Result<EventBatch> {
        self.events_of(engine, &NoBreaks, host, scope, after).await
    }

    /// The same for an engine that remembers which tickets were broken.
    ///
    /// # Errors
    ///
    /// A snapshot failed.
    pub async fn events_with_breaks(
        &self,
        engine: &(impl Engine + Breaks),
        host: &dyn Runtime,
        scope: &Scope,
        after: Option<Cursor>,
    ) -> Result<EventBatch> {
        self.events_of(engine, engine, host, scope, after).await
    }

    async fn events_of(
        &self,
        engine: &impl Engine,
        breaks: &(impl Breaks + Sync),
        host: &dyn Runtime,
        scope: &Scope,
        after: Option<Cursor>,
    ) -> Result<EventBatch> {
        host.ready()?;
        let known = after.and_then(|cursor| self.seen().recall(cursor));
        let Some(before) = known else {
            let now = self.look(engine, host, scope, None).await?;
            let cursor = self.seen().remember(now);
            return Ok(EventBatch { events: Vec::new(), cursor, missed: after.is_some() });
        };
        loop {
            self.leave_in_peace(host, scope).await;
            let now = self.look(engine, host, scope, Some(&before.look)).await?;
            let broken = broken_between(&before.look, &now.look, breaks).await?;
            let events = all_changes(&before, &now.look, &broken, host);
            if !events.is_empty() {
                let cursor = self.seen().remember(now);
                return Ok(EventBatch { events, cursor, missed: false });
            }
            host.sleep(self.pause).await;
        }
    }

    async fn look(
        &self,
        engine: &impl Engine,
        host: &dyn Runtime,
        scope: &Scope,
        last: Option<&Lines>,
    ) -> Result<Snapshot> {
        let (at, before) = (host.now(), self.cost.as_ref().map(|cost| cost.ns()));
        let look = snapshot(engine, scope, last).await?;
        let now = host.now().boot_ns;
        let took = now.saturating_sub(at.boot_ns);
        let mut all = self.peace();
        if all.len() >= ONLOOKERS_MAX {
            all.retain(|_, peace| peace.until > now);
        }
        let peace = all.entry(part(scope)).or_default();
        let quiet = if let (Some(cost), Some(before)) = (&self.cost, before) {
            (cost.ns() - before).saturating_mul(COOLDOWN_TIMES)
        } else {
            // A snapshot that waited through an outage took long but cost the store little.
            let busy = peace.took.map_or(took, |last| last.min(took));
            let max = u64::try_from(COOLDOWN_MAX.as_nanos()).unwrap_or(u64::MAX);
            busy.saturating_mul(COOLDOWN_TIMES).min(max)
        };
        let until = now.max(peace.until).saturating_add(quiet);
        *peace = Cooldown { until, took: Some(took) };
        Ok(Snapshot { at, look })
    }

    async fn leave_in_peace(&self, host: &dyn Runtime, scope: &Scope) {
        loop {
            let until = self.peace().get(&part(scope)).map_or(0, |peace| peace.until);
            let left = until.saturating_sub(host.now().boot_ns);
            if left == 0 {
                return;
            }
            host.sleep(Duration::from_nanos(left)).await;
        }
    }

    fn peace(&self) -> MutexGuard<'_, HashMap<Option<Key>, Cooldown>> {
        self.peace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Snapshots> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
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
    host: &dyn Runtime,
) -> Vec<Event> {
    let nobody = Vec::new();
    let (at, at_us) = (host.now(), host.wall_us());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::fake_runtime::FakeRuntime;
    use crate::layers::{Layer, Operation};
    use crate::{Clock as _, Memory, Share, WaitMode};

    /// A store with scripted delays. Each answer has a cost.
    struct Slow {
        memory: Memory,
        host: Arc<FakeRuntime>,
        answers: Mutex<VecDeque<Duration>>,
        cost: Arc<Cost>,
    }

    impl Slow {
        fn new(answers: &[u64]) -> Self {
            let answers = answers.iter().map(|ms| Duration::from_millis(*ms)).collect();
            let (memory, host, cost) = Default::default();
            Self { memory, host, answers: Mutex::new(answers), cost }
        }

        /// The pause of a watcher after a snapshot in this scope.
        async fn rests(&self, sampler: &Sampler, scope: &Scope) -> Duration {
            let began = self.host.now();
            sampler.leave_in_peace(&*self.host, scope).await;
            began.until(self.host.now())
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
                let took = self.answers.lock().unwrap().pop_front();
                self.host.sleep(took.unwrap_or_default()).await;
                self.cost.add(Duration::from_millis(5));
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
        let (host, scope, pause) = (&*store.host, Scope::Key(key()), Duration::from_secs(60));
        crate::blocking::block_on(async {
            let mut cursor = None;
            for _ in answers {
                host.sleep(pause).await;
                let news = sampler.events(&store, host, &scope, None).await.unwrap();
                cursor = Some(news.cursor);
            }
            join(&store.memory).await;
            let began = host.now();
            let news = sampler.events(&store, host, &scope, cursor).await.unwrap();
            assert!(!news.events.is_empty());
            began.until(host.now())
        })
    }

    #[test]
    fn a_look_that_comes_through_an_outage_makes_nobody_blind_and_a_slow_store_is_left_in_peace() {
        assert!(blind_after(&[10, 9_000]) < Duration::from_secs(1));
        assert_eq!(blind_after(&[100, 100]), Duration::from_millis(1_900));
    }

    #[test]
    fn the_store_is_left_in_peace_for_what_a_look_costs_it_where_that_is_measured() {
        let store = Slow::new(&[9_000, 9_000]);
        let sampler = Sampler::new(Duration::from_millis(250)).at_cost(store.cost.clone());
        // The cost of other requests does not count.
        store.cost.add(Duration::from_secs(60));
        crate::blocking::block_on(async {
            let (one, all) = (Scope::Key(key()), Scope::Prefix(String::new()));
            sampler.look(&store, &*store.host, &one, None).await.unwrap();
            assert_eq!(store.rests(&sampler, &all).await, Duration::ZERO, "for others");
            assert_eq!(store.rests(&sampler, &one).await, Duration::from_millis(5 * 19));
            // A look at keys of which there are none costs it nothing.
            sampler.look(&store, &*store.host, &all, None).await.unwrap();
            assert_eq!(store.rests(&sampler, &all).await, Duration::ZERO);
        });
    }

    #[test]
    fn so_many_onlookers_are_followed_each_from_where_it_was() {
        let (store, sampler) = (Slow::new(&[]), Sampler::new(Duration::from_millis(250)));
        let scope = Scope::Key(key());
        let events = async |after| {
            let news = sampler.events(&store, &*store.host, &scope, after).await.unwrap();
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
