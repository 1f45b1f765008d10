//! One successful run for each slot: of failed, dropped, overtaken and parallel runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::{
    BoxFuture, Clock, ErrorKind, Locks, Loss, Once, OnceOutcome, Runtime, SlotRun, SlotStart,
    SlotState, Time,
};

use super::acts::{lost, needs, refused};
use crate::Arena;

const NO_SLOTS: &str = "it keeps no slots";
/// Slots of the three machines, and those of one key.
const SLOTS: usize = 200;
const SLOTS_OF_KEY: usize = 100;

type Outcome = tenure_core::Result<OnceOutcome<(), &'static str>>;

async fn works(once: &Once) -> Outcome {
    once.run(|_, _| async { Ok(()) }).await
}

async fn fails(once: &Once) -> Outcome {
    once.run(|_, _| async { Err("it failed") }).await
}

fn is_done(outcome: Outcome) -> bool {
    matches!(outcome.expect("it runs"), OnceOutcome::Done(()))
}

fn is_failed(outcome: Outcome) -> bool {
    matches!(outcome.expect("it runs"), OnceOutcome::Failed(_))
}

fn over(outcome: Outcome) -> SlotRun {
    match outcome.expect("it can be asked") {
        OnceOutcome::Over(run) => run,
        other => panic!("the slot runs again: {other:?}"),
    }
}

fn brief(arena: &Arena, locks: &Locks) -> Once {
    locks.once("k").ttl(arena.ttl()).renew_every(arena.beat())
}

pub(crate) async fn a_slot_succeeds_once(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_SLOTS);
    let (locks, other) = (arena.locks().await, arena.locks().await);
    let (first, again) = (locks.once("k").slot("1"), other.once("k").slot("1"));
    assert!(first.over().await.unwrap().is_none());
    assert!(is_done(works(&first).await));
    let run = over(works(&again).await);
    assert_eq!((run.state, run.attempts), (SlotState::Succeeded, 1));
    assert_eq!(again.over().await.unwrap().as_ref(), Some(&run));
    assert!(is_done(works(&other.once("k").slot("2")).await), "another slot is another run");
    assert!(is_done(works(&other.once("other").slot("1")).await), "another key, too");
    let slots = first.slots().await.unwrap();
    assert_eq!(slots.iter().map(|run| &*run.slot).collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(slots[0], run);
    assert!(slots[1].token > run.token);
    assert!(locks.line("k").await.unwrap().is_empty(), "the lock is released");
}

pub(crate) async fn a_failed_run_frees_its_slot(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_SLOTS);
    let locks = arena.locks().await;
    let once = locks.once("k").slot("1").attempts(3);
    for attempts in 1..=2 {
        assert!(is_failed(fails(&once).await));
        let run = once.slots().await.unwrap().remove(0);
        assert_eq!((run.state, run.attempts), (SlotState::Failed, attempts));
    }
    assert!(is_failed(fails(&once).await));
    let run = over(works(&once).await);
    assert_eq!((run.state, run.attempts), (SlotState::Failed, 3), "the attempts are used up");
    assert!(once.reset("1").await.unwrap());
    assert!(!once.reset("1").await.unwrap(), "it is forgotten already");
    assert!(is_done(works(&once).await));
    once.reset_all().await.unwrap();
    assert!(once.slots().await.unwrap().is_empty());
    assert!(is_done(works(&once).await));
}

pub(crate) async fn a_run_that_is_dropped_frees_its_slot(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_SLOTS);
    let locks = arena.locks().await;
    let once = locks.once("k").slot("1");
    let began = Arc::new(tokio::sync::Notify::new());
    let told = began.clone();
    let work = once.run(|_, _| async move {
        told.notify_one();
        std::future::pending::<Result<(), ()>>().await
    });
    let until = arena.soon("the work begins", began.notified());
    futures_util::future::select(std::pin::pin!(work), std::pin::pin!(until)).await;
    let run = once.slots().await.unwrap().remove(0);
    assert_eq!((run.state, run.attempts), (SlotState::Begun, 1));
    locks.flush().await;
    assert!(over_under_lock(&once.clone().attempts(1)).await, "with one attempt it is over");
    assert!(is_done(works(&once).await));
    assert_eq!(once.slots().await.unwrap()[0].attempts, 2);
}

/// Whether the slot is over for a caller that has the lock.
async fn over_under_lock(once: &Once) -> bool {
    matches!(works(once).await.expect("it can be asked"), OnceOutcome::Over(_))
}

pub(crate) async fn a_caller_during_the_run_waits_and_does_not_run(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_SLOTS);
    let (locks, other) = (arena.locks().await, arena.locks().await);
    let (once, late) = (locks.once("k").slot("1"), other.once("k").slot("1"));
    let guard = locks.mutex("k").lock().await.unwrap();
    let SlotStart::Begun(attempt) = once.start(&guard.handle()).await.unwrap() else {
        panic!("the slot has not run")
    };
    let tried = late.try_run_for(Duration::ZERO, |_, _| async { Ok::<_, ()>(()) });
    assert!(tried.await.unwrap().is_none(), "the lock is busy");
    let mut waits = Box::pin(works(&late));
    arena.stands_in_line("k", 2, &mut waits).await;
    attempt.succeeded().await.unwrap();
    guard.release().await.unwrap();
    let run = over(arena.soon("the waiter is served", waits).await);
    assert_eq!(run.state, SlotState::Succeeded);
}

pub(crate) async fn a_success_after_a_loss_does_not_count(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_SLOTS);
    let (locks, other) = (arena.locks().await, arena.locks().await);
    let (once, next) = (locks.once("k").slot("1"), other.once("k").slot("1"));
    let guard = locks.mutex("k").lock().await.unwrap();
    let SlotStart::Begun(late) = once.start(&guard.handle()).await.unwrap() else {
        panic!("the slot has not run")
    };
    other.force_unlock("k", guard.id()).await.unwrap();
    let successor = other.mutex("k").lock().await.unwrap();
    let SlotStart::Begun(attempt) = next.start(&successor.handle()).await.unwrap() else {
        panic!("the slot has not succeeded")
    };
    assert_eq!(attempt.attempts(), 2);
    // The first holder may not know of its loss yet. The store does.
    let loss = lost(late.succeeded().await);
    assert!(matches!(loss, Some(Loss::Overtaken | Loss::Broken)), "{loss:?}");
    attempt.succeeded().await.unwrap();
    let run = once.slots().await.unwrap().remove(0);
    assert_eq!((run.state, run.token), (SlotState::Succeeded, successor.token()));
    drop(guard);
    successor.release().await.unwrap();
}

pub(crate) async fn a_reset_during_the_run_does_not_lose_its_end(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_SLOTS);
    let (locks, operator) = (arena.locks().await, arena.locks().await);
    let once = locks.once("k").slot("1");
    let outcome = once.run(|_, _| async {
        operator.once("k").reset_all().await.expect("the slots are forgotten");
        Ok::<_, &str>(())
    });
    assert!(is_done(outcome.await));
    assert_eq!(over(works(&once).await).state, SlotState::Succeeded);
}

pub(crate) async fn slots_that_cannot_be_are_refused(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_SLOTS);
    let locks = arena.locks().await;
    let once = locks.once("k");
    let zero = Duration::ZERO;
    for wrong in [
        once.clone(),
        once.clone().slot(""),
        once.clone().slot("a\nb"),
        once.clone().slot("x".repeat(129)),
        once.clone().every(zero),
        once.clone().every(Duration::from_millis(1500)),
        once.clone().slot("1").keep(zero),
        once.clone().slot("1").attempts(0),
        locks.once("").slot("1"),
    ] {
        assert_eq!(refused(works(&wrong).await), ErrorKind::Invalid, "{wrong:?}");
    }
    let guard = locks.mutex("other").lock().await.unwrap();
    let start = once.clone().slot("1").start(&guard.handle()).await;
    assert_eq!(refused(start), ErrorKind::Invalid, "the lock of another key");
    assert!(once.slots().await.unwrap().is_empty());
}

/// A machine whose wall clock is ahead of that of the runtime, or behind it.
struct Skewed {
    host: Arc<dyn Runtime>,
    ahead_us: i64,
}

impl Clock for Skewed {
    fn now(&self) -> Time {
        self.host.now()
    }

    fn wall_us(&self) -> u64 {
        self.host.wall_us().saturating_add_signed(self.ahead_us)
    }
}

impl Runtime for Skewed {
    fn ready(&self) -> tenure_core::Result<()> {
        self.host.ready()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        self.host.sleep(time)
    }

    fn random(&self) -> u64 {
        self.host.random()
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.host.spawn(task);
    }
}

/// The successful ends of each slot's work.
type Effects = Arc<Mutex<BTreeMap<usize, u32>>>;

/// One machine: it goes through the slots in their order. Its work fails at times, and its process
/// is dropped at times, in the work or in any request around it.
async fn machine(
    locks: Locks,
    host: Arc<dyn Runtime>,
    ttl: Duration,
    slots: usize,
    effects: Effects,
) {
    for slot in 0..slots {
        let once = locks.once(key_of(slot)).ttl(ttl).slot(slot.to_string());
        loop {
            let chance = host.random();
            let effects = effects.clone();
            let work = once.run(|_, _| async move {
                if chance.is_multiple_of(16) {
                    return Err(());
                }
                *effects.lock().unwrap().entry(slot).or_default() += 1;
                Ok(())
            });
            let polls = if chance % 32 == 1 { (chance >> 32) % 12 } else { u64::MAX };
            match in_polls(work, polls).await {
                Some(Ok(OnceOutcome::Done(()))) => break,
                Some(Ok(OnceOutcome::Over(run))) => {
                    assert_eq!(run.state, SlotState::Succeeded);
                    break;
                }
                Some(Ok(OnceOutcome::Failed(()))) => {}
                // It is dropped: another attempt, as after a restart.
                None => locks.flush().await,
                Some(Err(error)) => {
                    let is_expected = error.is_retryable() || error.is_lost();
                    assert!(is_expected, "slot {slot}: {error}");
                }
            }
        }
    }
}

fn key_of(slot: usize) -> String {
    format!("job {}", slot / SLOTS_OF_KEY)
}

/// Drops the future after this count of polls.
async fn in_polls<T>(future: impl Future<Output = T>, mut polls: u64) -> Option<T> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(move |context| {
        if polls == 0 {
            return std::task::Poll::Ready(None);
        }
        polls -= 1;
        let answer = future.as_mut().poll(context).map(Some);
        if polls == 0 && answer.is_pending() {
            return std::task::Poll::Ready(None);
        }
        answer
    })
    .await
}

pub(crate) async fn each_slot_of_three_machines_succeeds_once(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_SLOTS);
    let effects = Effects::default();
    let mut tasks: Vec<BoxFuture<()>> = Vec::new();
    for hours in [-1, 0, 1] {
        let (host, ahead_us) = (arena.host(), hours * 3_600_000_000);
        let host: Arc<dyn Runtime> = Arc::new(Skewed { host, ahead_us });
        let locks = Locks::on(arena.client().await, host.clone());
        tasks.push(Box::pin(machine(locks, host, arena.ttl() * 10, SLOTS, effects.clone())));
    }
    arena.together(tasks).await;
    let effects = effects.lock().unwrap().clone();
    assert_eq!(effects.len(), SLOTS, "no slot is lost");
    // Work that has ended and was dropped before its success was written is done again.
    let more: u32 = effects.values().map(|ends| ends - 1).sum();
    assert!(more as usize <= SLOTS / 16, "{more} slots ran again");
    let locks = arena.locks().await;
    for slot in (0..SLOTS).step_by(SLOTS_OF_KEY) {
        let runs = locks.once(key_of(slot)).slots().await.unwrap();
        assert_eq!(runs.len(), SLOTS_OF_KEY);
        assert!(runs.iter().all(|run| run.state == SlotState::Succeeded), "{runs:?}");
        assert!(runs.is_sorted_by_key(|run| run.token), "a later run has a later token");
    }
}

pub(crate) async fn a_schedule_names_its_slots_by_time(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_SLOTS);
    let hour = Duration::from_secs(3_600);
    let names = async |ahead_us: i64| {
        let host: Arc<dyn Runtime> = Arc::new(Skewed { host: arena.host(), ahead_us });
        let once = Locks::on(arena.client().await, host).once("k");
        once.every(hour).slot_name().unwrap()
    };
    let now_us = i64::try_from(arena.host().wall_us() % 3_600_000_000).unwrap();
    // From the middle of this hour.
    let middle = 1_800_000_000 - now_us;
    let here = names(middle).await;
    assert_eq!(here, names(middle + 1_700_000_000).await, "a clock that is ahead");
    assert_eq!(here, names(middle - 1_700_000_000).await, "a clock that is behind");
    assert_ne!(here, names(middle + 3_600_000_000).await, "the next hour");
    assert!(here.ends_with(":00:00Z"), "{here}");
    let locks = arena.locks().await;
    let at = std::time::UNIX_EPOCH + Duration::from_secs(951_782_400);
    assert_eq!(locks.once("k").at(at).slot_name().unwrap(), "2000-02-29T00:00:00Z");
    assert!(is_done(works(&brief(arena, &locks).at(at)).await));
    assert_eq!(over(works(&locks.once("k").at(at)).await).slot, "2000-02-29T00:00:00Z");
}

pub(crate) async fn the_slot_that_ran_last_is_kept_until_another_runs(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_SLOTS);
    let day = Duration::from_secs(24 * 3_600);
    let locks = async |days: i64| {
        let ahead_us = days * 24 * 3_600_000_000;
        let host: Arc<dyn Runtime> = Arc::new(Skewed { host: arena.host(), ahead_us });
        Locks::on(arena.client().await, host)
    };
    let month = locks(0).await.once("k").slot("month").keep(day);
    assert!(is_done(works(&month).await));
    let later = locks(20).await;
    assert_eq!(over(works(&later.once("k").slot("month").keep(day)).await).slot, "month");
    assert!(is_done(works(&later.once("k").slot("next").keep(day)).await));
    let slots = locks(22).await.once("k").slots().await.unwrap();
    assert_eq!(slots.iter().map(|run| &*run.slot).collect::<Vec<_>>(), ["next"]);
}
