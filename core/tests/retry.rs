//! What becomes of a ticket when the answer to its join is lost and the next one is no better.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::wrap::{Around, Retry};
use tenure_core::*;

/// What becomes of the next question.
#[derive(Clone, Copy)]
enum Act {
    /// It is carried out, and the answer is lost.
    LosesAnswer,
    /// It is carried out later, before the next one but one, and the answer is lost.
    ComesLate,
    Refuses,
    Answers,
}

/// A memory store that does as it is told with joins, and answers everything else.
struct Store {
    memory: Memory,
    acts: Mutex<VecDeque<Act>>,
    late: Arc<Mutex<Option<Ticket>>>,
}

impl Store {
    fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        let acts = Mutex::new(acts.into_iter().collect());
        Self { memory: Memory::new(), acts, late: Arc::default() }
    }
}

impl Around for Store {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        let act = self.acts.lock().unwrap().pop_front().unwrap_or(Act::Answers);
        match act {
            Act::Answers => self.memory.join(ticket, patience).await,
            Act::Refuses => Err(Error::rejected("the memory is full")),
            Act::LosesAnswer => {
                self.memory.join(ticket, patience).await?;
                Err(Error::unavailable("the answer is lost"))
            }
            Act::ComesLate => {
                *self.late.lock().unwrap() = Some(ticket.clone());
                Err(Error::unavailable("the answer is lost"))
            }
        }
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        let left = self.memory.leave(ticket, how).await;
        // Now what was on its way for so long arrives.
        let late = self.late.lock().unwrap().take();
        if let Some(late) = late {
            self.memory.join(&late, Patience::NoWait).await?;
        }
        left
    }
}

/// Locks over such a store, and another client of it.
fn locks(
    acts: impl IntoIterator<Item = Act>,
) -> (blocking::Blocking<Locks>, blocking::Blocking<Locks>) {
    let host: Arc<dyn Host> = Arc::new(PrivateThread::for_timers());
    let store = Store::new(acts);
    let other = Locks::new(store.memory.clone()).blocking();
    let retry = Retry::new(store, host.clone(), 2, Duration::from_millis(1));
    (Locks::on(retry, host).blocking(), other)
}

#[test]
fn a_refusal_after_an_answer_that_was_lost_stays_unknown_and_leaves_no_ghost() {
    let (locks, other) = locks([Act::LosesAnswer, Act::Refuses]);
    let error = locks.mutex("a").lock().unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert_eq!(
        error.to_string(),
        "the memory is full; an earlier attempt was not answered, and may have been carried out"
    );
    locks.settled();
    assert!(other.line("a").unwrap().is_empty(), "a ghost holds the lock");
}

#[test]
fn a_refusal_alone_is_told_as_one() {
    let (locks, _) = locks([Act::Refuses]);
    let error = locks.mutex("a").lock().unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Rejected, "the memory is full"));
}

#[test]
fn an_attempt_that_comes_in_after_its_owner_was_told_that_it_is_busy_leaves_again() {
    let (locks, other) = locks([Act::ComesLate, Act::Answers]);
    let guard = other.mutex("a").lock().unwrap();
    assert!(locks.mutex("a").ttl(Duration::from_secs(1)).try_lock().unwrap().is_none());
    guard.release().unwrap();
    block_on(locks.into_inner().close());
    assert!(other.line("a").unwrap().is_empty(), "a ghost holds the lock");
}

#[test]
fn an_attempt_that_comes_in_after_its_owner_has_left_leaves_again() {
    let (locks, other) = locks([Act::ComesLate, Act::Answers]);
    let guard = locks.mutex("a").ttl(Duration::from_secs(1)).lock().unwrap();
    // Only now the first attempt arrives.
    guard.release().unwrap();
    locks.settled();
    block_on(locks.into_inner().close());
    assert!(other.line("a").unwrap().is_empty(), "a ghost holds the lock");
}
