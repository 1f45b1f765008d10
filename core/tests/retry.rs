//! Tickets whose joins have no answer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::blocking::{Blocking, block_on};
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::layers::{Layer, Retries, Retry};
use tenure_core::*;

/// The fate of the next join.
#[derive(Clone, Copy)]
enum Act {
    /// It happens, and the answer is lost.
    LosesAnswer,
    /// It happens after the next leave, and the answer is lost.
    ComesLate,
    Refuses,
    Answers,
}

/// A memory store with scripted joins, which counts leaves.
#[derive(Default)]
struct Shared {
    memory: Memory,
    acts: Mutex<VecDeque<Act>>,
    late: Mutex<Option<Ticket>>,
    leaves: AtomicU32,
}

impl Shared {
    /// The delayed join happens.
    async fn arrive(&self) -> Result<()> {
        let late = self.late.lock().unwrap().take();
        if let Some(late) = late {
            self.memory.join(&late, WaitMode::NoWait).await?;
        }
        Ok(())
    }

    fn leaves(&self) -> u32 {
        self.leaves.load(Ordering::SeqCst)
    }
}

struct Store(Arc<Shared>);

impl Layer for Store {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0.memory
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        let act = self.0.acts.lock().unwrap().pop_front().unwrap_or(Act::Answers);
        match act {
            Act::Answers => self.0.memory.join(ticket, patience).await,
            Act::Refuses => Err(Error::rejected("the memory is full")),
            Act::LosesAnswer => {
                self.0.memory.join(ticket, patience).await?;
                Err(Error::unavailable("the answer is lost"))
            }
            Act::ComesLate => {
                *self.0.late.lock().unwrap() = Some(ticket.clone());
                Err(Error::unavailable("the answer is lost"))
            }
        }
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        self.0.leaves.fetch_add(1, Ordering::SeqCst);
        let left = self.0.memory.leave(ticket, how).await;
        self.0.arrive().await?;
        left
    }
}

/// Asks such a store again.
struct Stage {
    store: Arc<Shared>,
    locks: Blocking<Locks>,
    /// Another client, whose answers arrive.
    other: Blocking<Locks>,
}

impl Stage {
    fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_timers());
        let acts = Mutex::new(acts.into_iter().collect());
        let store = Arc::new(Shared { acts, ..Shared::default() });
        let other = Locks::new(store.memory.clone()).blocking();
        let retries = Retries::times(2).after(Duration::from_millis(1));
        let locks = Locks::with_retries(Store(store.clone()), host, retries).blocking();
        Self { store, locks, other }
    }

    /// The delayed join happens, and the ticket leaves again.
    fn leaves_no_ghost(self) {
        block_on(self.store.arrive()).unwrap();
        block_on(self.locks.into_inner().close());
        assert!(self.other.line("a").unwrap().is_empty(), "a ghost holds the lock");
    }
}

#[test]
fn a_refusal_after_an_answer_that_was_lost_stays_unknown_and_leaves_no_ghost() {
    let Stage { locks, other, .. } = Stage::new([Act::LosesAnswer, Act::Refuses]);
    let error = locks.mutex("a").ttl(Duration::from_secs(1)).lock().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(
        error.to_string(),
        "the memory is full; an earlier attempt was not answered, and may have succeeded"
    );
    locks.flush();
    assert!(other.line("a").unwrap().is_empty(), "a ghost holds the lock");
}

#[test]
fn a_refusal_alone_is_told_as_one() {
    let error = Stage::new([Act::Refuses]).locks.mutex("a").lock().unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Rejected, "the memory is full")
    );
}

#[test]
fn an_attempt_that_comes_in_after_its_owner_was_told_that_it_is_busy_leaves_again() {
    let stage = Stage::new([Act::ComesLate, Act::Answers]);
    let guard = stage.other.mutex("a").lock().unwrap();
    assert!(stage.locks.mutex("a").ttl(Duration::from_secs(1)).try_lock().unwrap().is_none());
    guard.release().unwrap();
    stage.leaves_no_ghost();
}

#[test]
fn an_attempt_that_comes_in_after_its_owner_has_left_leaves_again() {
    let stage = Stage::new([Act::ComesLate, Act::Answers]);
    // Only when it is released the first attempt arrives.
    stage.locks.mutex("a").ttl(Duration::from_secs(1)).lock().unwrap().release().unwrap();
    stage.leaves_no_ghost();
}

#[test]
fn a_store_whose_answers_arrive_is_asked_once() {
    let stage = Stage::new([]);
    let ticket = Ticket::new(Key::new("a").unwrap(), Share::WHOLE);
    let guard = stage.locks.mutex("a").lock().unwrap();
    assert!(stage.locks.mutex("a").try_lock().unwrap().is_none());
    stage.locks.flush();
    assert_eq!(stage.store.leaves(), 0, "nobody doubts that the second is out");
    assert_eq!(stage.locks.break_ticket("a", ticket.id).unwrap(), LeaveOutcome::Absent);
    guard.release().unwrap();
    block_on(stage.locks.into_inner().close());
    assert_eq!(stage.store.leaves(), 2);
}

#[test]
fn a_holder_that_is_told_to_leave_is_not_taken_out_because_its_first_join_was_not_answered() {
    let stage = Stage::new([Act::LosesAnswer, Act::Answers]);
    let guard = stage.locks.mutex("a").lock().unwrap();
    assert_eq!(stage.locks.break_ticket("a", guard.id()).unwrap(), LeaveOutcome::Requested);
    stage.locks.flush();
    assert_eq!(stage.other.line("a").unwrap().len(), 1, "it has not stopped yet");
    drop(guard);
}

/// A store that does not answer twice, and then has nothing to tell for longer than an answer may
/// take.
struct Quiet {
    memory: Memory,
    silent: AtomicU32,
    host: Arc<dyn Runtime>,
}

const WITHIN: Duration = Duration::from_millis(50);

impl Layer for Quiet {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    fn profile(&self) -> Guarantees {
        let mut profile = self.memory.guarantees();
        profile.answers_within = WITHIN;
        profile
    }

    async fn events(&self, _: &Scope, _: Option<Cursor>) -> Result<EventBatch> {
        let less = |silent: u32| silent.checked_sub(1);
        if self.silent.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            return Err(Error::unavailable("nobody answers"));
        }
        self.host.sleep(WITHIN * 6).await;
        Ok(EventBatch { events: Vec::new(), cursor: Cursor(7), missed: false })
    }
}

#[test]
fn who_waits_for_news_of_a_store_that_answers_again_is_not_told_of_an_outage() {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_timers());
    let (memory, silent) = (Memory::new(), AtomicU32::new(2));
    let quiet = Quiet { memory, silent, host: host.clone() };
    let retry = Retry::new(quiet, host, Retries::times(4).after(Duration::from_millis(1)));
    let news = block_on(retry.events(&Scope::Prefix(String::new()), Some(Cursor(0)))).unwrap();
    assert_eq!(news.cursor, Cursor(7));
}
