//! Locks while their store is in trouble: outages, refusals, silence and panics.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{join, select};
use tenure_conformance::fault::{Mood, Moody, Verb};
use tenure_conformance::sim::{SimHost, World};
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::layers::Layer;
use tenure_core::*;

const TTL: Duration = Duration::from_secs(9);

/// One client of a memory store, whose treatment of requests a test changes.
struct Stage {
    host: Arc<SimHost>,
    memory: Memory,
    locks: Locks,
    moods: Arc<Mutex<Vec<(Verb, Mood)>>>,
    asked: Arc<AtomicUsize>,
}

impl Stage {
    fn new(world: &World) -> Self {
        let (host, memory) = (world.process(), Memory::with_clock((*world.store()).clone()));
        let moods: Arc<Mutex<Vec<(Verb, Mood)>>> = Arc::default();
        let (asked, own) = (Arc::<AtomicUsize>::default(), moods.clone());
        let counted = asked.clone();
        let engine = Moody::new(memory.clone(), move |asked| {
            counted.fetch_add(1, Ordering::Relaxed);
            let moods = own.lock().unwrap();
            let mood = moods.iter().find(|(verb, _)| *verb == asked.verb);
            mood.map_or(Mood::Well, |(_, mood)| *mood)
        });
        let locks = Locks::on(engine, host.clone());
        Self { host, memory, locks, moods, asked }
    }

    fn feels(&self, moods: impl IntoIterator<Item = (Verb, Mood)>) {
        *self.moods.lock().unwrap() = moods.into_iter().collect();
    }

    /// The locks of a client without faults.
    fn others(&self) -> Locks {
        Locks::on(self.memory.clone(), self.host.clone())
    }

    fn mutex(&self, key: &str) -> tenure_core::Mutex {
        self.locks.mutex(key).ttl(TTL)
    }

    /// The requests during `work`.
    async fn asked_by<T>(&self, work: impl Future<Output = T>) -> (usize, T) {
        let before = self.asked.load(Ordering::Relaxed);
        let done = work.await;
        (self.asked.load(Ordering::Relaxed) - before, done)
    }
}

fn play<F: Future<Output = ()>>(story: impl FnOnce(Stage) -> F) {
    World::run(1, |world| story(Stage::new(&world)));
}

#[test]
fn a_store_that_never_answers_is_not_busy() {
    play(|stage| async move {
        for mood in [Mood::Silent, Mood::Well] {
            stage.feels([(Verb::Join, mood)]);
            let _guard = stage.others().mutex("k").lock().await.unwrap();
            let waited = stage.mutex("k").try_lock_for(TTL / 10).await;
            match mood {
                Mood::Well => assert!(waited.unwrap().is_none(), "the lock is held"),
                _ => assert_eq!(waited.unwrap_err().kind(), ErrorKind::Unavailable),
            }
        }
    });
}

#[test]
fn a_store_that_fell_silent_during_a_wait_is_not_busy() {
    play(|stage| async move {
        let _guard = stage.others().mutex("k").lock().await.unwrap();
        let mutex = stage.mutex("k");
        let mut waiting = pin!(mutex.try_lock_for(TTL / 2));
        assert!(waiting.as_mut().now_or_never().is_none());
        stage.feels([(Verb::Renew, Mood::Unreachable)]);
        assert_eq!(waiting.await.unwrap_err().kind(), ErrorKind::Unavailable);
    });
}

#[test]
fn a_watch_and_an_observer_leave_a_store_in_trouble_alone() {
    play(|stage| async move {
        let mut watch = stage.locks.watch_prefix("").await.unwrap();
        let mut leaders = stage.locks.election("k").observe().await.unwrap();
        assert_eq!(leaders.next().await.unwrap(), None);
        stage.feels([(Verb::Events, Mood::Unreachable), (Verb::Line, Mood::Unreachable)]);
        let hour = Duration::from_secs(3600);
        let (asked, ()) = stage
            .asked_by(async {
                let spin = async { while watch.next().await.is_err() {} };
                let observe = async { while leaders.next().await.is_err() {} };
                let both = Box::pin(join(spin, observe));
                select(both, stage.host.sleep(hour)).await;
            })
            .await;
        assert!(asked > 600, "the client stopped asking: {asked}");
        assert!(asked < 2 * 3600 / 5 + 40, "asked {asked} times in an hour");
        stage.feels([]);
        let guard = stage.locks.mutex("k").lock().await.unwrap();
        assert!(watch.next().await.is_ok(), "the watch continues when the store answers again");
        assert_eq!(leaders.next().await.unwrap().unwrap().term, guard.token());
    });
}

/// Memory whose events have one gap.
struct Gap(Memory, Arc<Mutex<bool>>);

#[test]
fn a_gap_is_looked_into_even_if_the_first_look_fails() {
    play(|stage| async move {
        let gap = Arc::new(Mutex::new(false));
        let (own, fails) = (gap.clone(), Arc::new(Mutex::new(false)));
        let failing = fails.clone();
        let engine = Moody::new(Gap(stage.memory.clone(), own), move |asked| {
            let fails = asked.verb == Verb::Line && *failing.lock().unwrap();
            if fails { Mood::Unreachable } else { Mood::Well }
        });
        let locks = Locks::on(engine, stage.host.clone());
        let mut leaders = locks.election("k").observe().await.unwrap();
        assert_eq!(leaders.next().await.unwrap(), None);
        let guard = stage.others().mutex("k").lock().await.unwrap();
        (*gap.lock().unwrap(), *fails.lock().unwrap()) = (true, true);
        assert!(leaders.next().await.is_err(), "the read after the gap fails");
        *fails.lock().unwrap() = false;
        let leader = leaders.next().await.unwrap().expect("there is a leader");
        assert_eq!(leader.term, guard.token());
    });
}

#[test]
fn a_panicking_engine_ends_no_other_renewal() {
    play(|stage| async move {
        let (unlucky, lucky) = (Arc::new(Mutex::new(None)), stage.memory.clone());
        let id = unlucky.clone();
        let engine = Moody::new(lucky, move |asked| {
            let hit = asked.verb == Verb::Renew
                && asked.id().is_some()
                && asked.id() == *id.lock().unwrap();
            if hit { Mood::Panics } else { Mood::Well }
        });
        let locks = Locks::on(engine, stage.host.clone());
        let one = locks.mutex("one").ttl(TTL).lock().await.unwrap();
        let other = locks.mutex("other").ttl(TTL).lock().await.unwrap();
        *unlucky.lock().unwrap() = Some(one.id());
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        stage.host.sleep(TTL * 5).await;
        std::panic::set_hook(hook);
        assert_eq!(one.check().unwrap_err().loss(), Some(Loss::Unreachable));
        other.check().expect("its renewals continued");
        *unlucky.lock().unwrap() = None;
        let again = locks.mutex("one").ttl(TTL).lock().await.unwrap();
        stage.host.sleep(TTL * 5).await;
        again.check().expect("renewals continue when the engine answers again");
    });
}

#[test]
fn a_refused_leave_is_sent_again_unless_it_makes_no_sense() {
    for (kind, swept) in
        [(ErrorKind::Rejected, true), (ErrorKind::Invalid, false), (ErrorKind::Unsupported, false)]
    {
        play(|stage| async move {
            let guard = stage.mutex("k").lock().await.unwrap();
            stage.feels([(Verb::Leave, Mood::Refuses(kind))]);
            drop(guard);
            stage.host.sleep(TTL / 4).await;
            stage.feels([]);
            stage.locks.flush().await;
            assert_eq!(stage.others().line("k").await.unwrap().is_empty(), swept, "{kind:?}");
        });
    }
}

#[test]
fn an_outage_with_many_dropped_guards_costs_a_few_questions() {
    play(|stage| async move {
        const GUARDS: usize = 20_000;
        let mut guards = Vec::new();
        for at in 0..GUARDS {
            let mutex = stage.locks.mutex(format!("k/{at}")).ttl(TTL).manual_renewal();
            guards.push(mutex.lock().await.unwrap());
        }
        stage.feels([(Verb::Leave, Mood::Unreachable)]);
        drop(guards);
        // Sixteen at once, and then one at a time after pauses that grow to one second.
        let (asked, ()) = stage.asked_by(stage.host.sleep(TTL / 2)).await;
        assert!(asked > 0 && asked < 16 + 10, "asked {asked} times in half a ttl");
        stage.feels([]);
        let (asked, ()) = stage.asked_by(stage.locks.flush()).await;
        assert!(asked <= GUARDS + 1, "each is released once: {asked}");
        assert_eq!(stage.memory.keys("").await.unwrap(), []);
    });
}

#[test]
fn failed_releases_share_one_pause_and_complete_as_soon_as_the_store_answers() {
    play(|stage| async move {
        let mut guards = Vec::new();
        for at in 0..40 {
            guards.push(stage.mutex(&format!("k/{at}")).lock().await.unwrap());
        }
        stage.feels([(Verb::Leave, Mood::Silent)]);
        drop(guards);
        let patience = stage.locks.guarantees().answers_within;
        stage.host.sleep(patience + Duration::from_millis(1)).await;
        stage.feels([]);
        let back = stage.host.now();
        stage.locks.flush().await;
        let took = back.until(stage.host.now());
        assert!(took < Duration::from_millis(100), "the releases paused for {took:?}");
        assert_eq!(stage.memory.keys("").await.unwrap(), []);
    });
}

/// A store whose tickets end with the session of their client.
struct BySession(Memory);

impl Layer for BySession {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    fn profile(&self) -> Guarantees {
        let mut profile = self.0.guarantees();
        profile.liveness = Liveness::Session;
        profile
    }
}

#[test]
fn an_absent_store_of_sessions_does_not_delay_a_close() {
    for mood in [Mood::Unreachable, Mood::Silent] {
        World::run(1, |world| async move {
            let (host, asked) = (world.process(), Arc::<AtomicUsize>::default());
            let counted = asked.clone();
            let engine =
                Moody::new(BySession(Memory::with_clock((*world.store()).clone())), move |it| {
                    if it.verb == Verb::Leave {
                        counted.fetch_add(1, Ordering::Relaxed);
                        return mood;
                    }
                    Mood::Well
                });
            let locks = Locks::on(engine, host.clone());
            for at in 0..40 {
                drop(locks.mutex(format!("k/{at}")).ttl(TTL).lock().await.unwrap());
            }
            let (began, most) = (host.now(), locks.guarantees().answers_within * 3);
            locks.close().await;
            assert!(
                !host.now().has_reached(began.plus(most)),
                "the close took far longer than two answers"
            );
            host.sleep(most).await;
            let before = asked.load(Ordering::Relaxed);
            host.sleep(TTL * 4).await;
            assert_eq!(asked.load(Ordering::Relaxed), before, "no further request is sent");
        });
    }
}

#[test]
fn pending_releases_end_with_the_ttl() {
    for mood in [Mood::Unreachable, Mood::Silent] {
        play(|stage| async move {
            let mut guards = Vec::new();
            for at in 0..1000 {
                guards.push(stage.mutex(&format!("k/{at}")).lock().await.unwrap());
            }
            stage.feels([(Verb::Leave, mood)]);
            drop(guards);
            let began = stage.host.now();
            let (asked, ()) = stage.asked_by(stage.locks.flush()).await;
            assert!(
                !stage.host.now().has_reached(began.plus(TTL * 3)),
                "the release outlived its ttl by far"
            );
            assert!(asked < 40, "asked {asked} times");
        });
    }
}

#[test]
fn all_notice_the_loss_of_one_while_they_wait_for_another() {
    play(|stage| async move {
        let held = stage.others().mutex("b").lock().await.unwrap();
        let all = stage.locks.multi_lock(["a", "b"]).ttl(TTL);
        let mut waiting = pin!(all.lock());
        assert!(waiting.as_mut().now_or_never().is_none());
        let line = stage.others().line("a").await.unwrap();
        stage.others().break_ticket("a", line[0].id).await.unwrap();
        let error = waiting.await.map(drop).unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Broken));
        stage.locks.flush().await;
        assert!(stage.others().line("a").await.unwrap().is_empty(), "the lock is released");
        held.check().unwrap();
    });
}

#[test]
fn all_are_taken_anew_after_the_program_was_paused() {
    play(|stage| async move {
        let held = stage.others().mutex("b").lock().await.unwrap();
        let all = stage.locks.multi_lock(["a", "b"]).ttl(TTL);
        let mut waiting = pin!(all.lock());
        assert!(waiting.as_mut().now_or_never().is_none());
        stage.host.wake_from_sleep(TTL * 2);
        stage.others().flush().await;
        let taken = async {
            stage.host.sleep(TTL / 3).await;
            held.release().await.ok();
        };
        let (guard, ()) = join(waiting, taken).await;
        guard.unwrap().check().expect("all locks are held");
    });
}

#[test]
fn a_candidate_whose_ticket_is_gone_joins_again() {
    play(|stage| async move {
        let leader = stage.others().mutex("k").lock().await.unwrap();
        let election = stage.locks.election("k").ttl(TTL);
        let elected = election.run(|token, _| async move { token });
        let mut following = pin!(elected);
        assert!(following.as_mut().now_or_never().is_none());
        let line = stage.others().line("k").await.unwrap();
        stage.others().force_unlock("k", line[1].id).await.unwrap();
        let released = async {
            stage.host.sleep(TTL).await;
            leader.release().await.unwrap();
        };
        let (token, ()) = join(following, released).await;
        assert!(token.unwrap().get() > 0, "the candidate was elected");
    });
}

#[test]
fn a_waiter_gets_no_loss_of_a_lock_that_it_never_held() {
    play(|stage| async move {
        let _guard = stage.others().mutex("k").lock().await.unwrap();
        let mutex = stage.mutex("k");
        let mut waiting = pin!(mutex.lock());
        assert!(waiting.as_mut().now_or_never().is_none());
        let line = stage.others().line("k").await.unwrap();
        stage.others().break_ticket("k", line[1].id).await.unwrap();
        let error = waiting.await.map(drop).unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Broken));
        assert_eq!(
            error.to_string(),
            "the wait for \"k\" is over, and the lock was never held: its ticket was removed from the line"
        );
    });
}

#[test]
fn remaining_is_a_lower_bound() {
    play(|stage| async move {
        let guard = stage.mutex("k").max_hold(TTL / 9).lock().await.unwrap();
        assert!(guard.remaining().unwrap() <= TTL / 9, "max_hold counts");
        let held = guard.handle();
        guard.release().await.unwrap();
        assert_eq!(held.remaining(), Some(Duration::ZERO), "the lock was released");
        let guard = stage.mutex("k").lock().await.unwrap();
        stage.others().break_ticket("k", guard.id()).await.unwrap();
        let warning = guard.warned().await;
        assert_eq!((warning.failed, warning.remaining), (0, Some(Duration::ZERO)));
        assert_eq!(guard.remaining(), Some(Duration::ZERO), "the lock is broken");
        assert_eq!(guard.ended().await, Some(Loss::Broken));
    });
}

#[test]
fn a_monitor_ends_with_the_hold_however_that_ends() {
    play(|stage| async move {
        let guard = stage.mutex("k").lock().await.unwrap();
        let (ended, lost, warned) = (guard.ended(), guard.lost(), guard.warned());
        let (mut ended, mut lost) = (pin!(ended), pin!(lost));
        assert!(ended.as_mut().now_or_never().is_none());
        guard.release().await.unwrap();
        assert_eq!(ended.await, None, "the lock was released");
        assert_eq!(warned.await.remaining, Some(Duration::ZERO));
        assert!(lost.as_mut().now_or_never().is_none(), "a release is no loss");
    });
}

#[test]
fn a_slewed_clock_delays_no_loss() {
    play(|stage| async move {
        let guard = stage.mutex("k").manual_renewal().lock().await.unwrap();
        let sent = stage.host.now();
        // The raw clock runs twice as fast as the boot clock, so it reaches the end first.
        stage.host.set_slew_ppm(1_000_000);
        assert_eq!(guard.lost().await, Loss::Expired);
        let passed = stage.host.now().raw_ns - sent.raw_ns;
        let late = passed.saturating_sub(u64::try_from(TTL.as_nanos()).unwrap());
        assert_eq!(late, 0, "the loss is reported {late} ns after the ttl");
    });
}

#[test]
fn closing_waits_for_dropped_guards() {
    play(|stage| async move {
        stage.feels([(Verb::Leave, Mood::Unreachable)]);
        drop(stage.mutex("k").lock().await.unwrap());
        let mut closing = pin!(stage.locks.close());
        assert!(closing.as_mut().now_or_never().is_none());
        stage.feels([]);
        closing.await;
        assert!(stage.others().line("k").await.unwrap().is_empty());
    });
}

impl Layer for Gap {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        let news = self.0.events(scope, after).await?;
        let missed = std::mem::take(&mut *self.1.lock().unwrap());
        Ok(if missed { EventBatch { events: Vec::new(), missed, ..news } } else { news })
    }
}
