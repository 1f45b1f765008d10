//! Releases to a store that does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::layers::{Layer, Operation};
use tenure_core::{
    BackgroundRuntime, Engine as _, Error, ErrorKind, Guarantees, Key, LeaveMode, LeaveOutcome,
    Liveness, Locks, Loss, Memory, Place, Result, Runtime, Ticket, WaitMode,
};

/// Tickets live here as long as their session or process, and never expire.
struct Session {
    memory: Memory,
    liveness: Liveness,
    is_silent: Arc<AtomicBool>,
}

impl Layer for Session {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    fn profile(&self) -> Guarantees {
        let mut profile = self.memory.guarantees();
        (profile.quick, profile.liveness) = (false, self.liveness);
        profile
    }

    async fn intercept<T: Send>(
        &self,
        _: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if self.is_silent.load(Ordering::SeqCst) {
            return Err(Error::unavailable("nobody answers"));
        }
        ask.await
    }
}

#[test]
fn tickets_that_cannot_be_given_back_are_bounded_until_the_store_answers() {
    let (host, is_silent): (Arc<dyn Runtime>, Arc<AtomicBool>) =
        (Arc::new(BackgroundRuntime::for_timers()), Arc::default());
    let session = Session {
        memory: Memory::new(),
        liveness: Liveness::Session,
        is_silent: is_silent.clone(),
    };
    let locks = Locks::on(session, host.clone());
    block_on(async {
        is_silent.store(true, Ordering::SeqCst);
        let ttl = Duration::from_secs(1);
        let mut refused = None;
        for _ in 0..100_000 {
            let error = locks.mutex("a").ttl(ttl).try_lock().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            if error.to_string().contains("dropped tickets of this program wait for their release")
            {
                refused = Some(error);
                break;
            }
        }
        assert!(refused.is_some(), "there is no end to what is remembered");
        is_silent.store(false, Ordering::SeqCst);
        locks.flush().await;
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn close_ends_although_no_ticket_can_be_released_and_none_expires() {
    for liveness in [Liveness::Session, Liveness::Kernel] {
        let is_silent = Arc::<AtomicBool>::default();
        let session = Session { memory: Memory::new(), liveness, is_silent: is_silent.clone() };
        let locks = Locks::on(session, Arc::new(BackgroundRuntime::for_timers()));
        block_on(async {
            let guard = locks.mutex("a").lock().await.unwrap();
            is_silent.store(true, Ordering::SeqCst);
            drop(guard);
            locks.close().await;
        });
    }
}

/// Joins are carried out, and nothing is answered.
struct Mute(Session, Arc<AtomicUsize>);

impl Layer for Mute {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0.memory
    }

    fn profile(&self) -> Guarantees {
        Layer::profile(&self.0)
    }

    async fn intercept<T: Send>(
        &self,
        _: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let answer = ask.await;
        if self.0.is_silent.load(Ordering::SeqCst) {
            return Err(Error::unavailable("nobody answers"));
        }
        answer
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        if self.0.is_silent.load(Ordering::SeqCst) {
            self.1.fetch_add(1, Ordering::SeqCst);
            return Err(Error::unavailable("nobody answers"));
        }
        self.0.memory.leave(ticket, how).await
    }
}

#[test]
fn a_ticket_of_a_session_is_taken_out_however_late_the_store_answers() {
    // Tickets of this memory do not end by themselves while the test runs.
    let (memory, is_silent) = (Memory::new(), Arc::<AtomicBool>::default());
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_timers());
    let session = Session {
        memory: memory.clone(),
        liveness: Liveness::Session,
        is_silent: is_silent.clone(),
    };
    let leaves = Arc::<AtomicUsize>::default();
    let locks = Locks::on(Mute(session, leaves.clone()), host.clone());
    block_on(async {
        is_silent.store(true, Ordering::SeqCst);
        let ttl = Duration::from_millis(400);
        for key in 0..100 {
            let ticket = locks.mutex(key.to_string()).ttl(ttl).try_lock().await;
            assert_eq!(ticket.unwrap_err().kind(), ErrorKind::Unavailable);
        }
        let long_lived = Ticket { ttl: Duration::from_secs(600), ..in_line(&memory).await };
        memory.renew(&long_lived).await.unwrap().expect("its join was carried out");
        host.sleep(ttl * 2).await;
        // The ttl is over, and the store still does not answer.
        let asked = leaves.load(Ordering::SeqCst);
        for round in 0.. {
            if leaves.load(Ordering::SeqCst) >= asked + 2 {
                break;
            }
            assert!(round < 6_000, "the store is not asked any more");
            host.sleep(Duration::from_millis(10)).await;
        }
        is_silent.store(false, Ordering::SeqCst);
        locks.flush().await;
        assert!(memory.line(&long_lived.key).await.unwrap().is_empty(), "it is still in line");
    });
}

/// The ticket in the line of the last key.
async fn in_line(memory: &Memory) -> Ticket {
    memory.line(&Key::new("99").unwrap()).await.unwrap().remove(0).0
}

/// Answers this many joins. Then the session is gone, and later joins have no answer.
struct Gone {
    memory: Memory,
    answered: usize,
    joins: Arc<AtomicUsize>,
}

impl Layer for Gone {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        if self.joins.fetch_add(1, Ordering::SeqCst) >= self.answered {
            std::future::pending::<()>().await;
        }
        self.memory.join(ticket, patience).await
    }

    async fn renew(&self, _: &Ticket) -> Result<Option<Place>> {
        Err(Error::lost(Loss::SessionGone))
    }
}

#[test]
fn a_lock_is_not_told_to_be_busy_after_a_second_join_without_an_answer() {
    let (memory, host) = (Memory::new(), Arc::new(BackgroundRuntime::for_timers()));
    let others = Locks::on(memory.clone(), host.clone());
    block_on(async {
        let _guard = others.mutex("a").lock().await.unwrap();
        let locks = Locks::on(Gone { memory, answered: 1, joins: Arc::default() }, host);
        let mutex = locks.mutex("a").ttl(Duration::from_millis(500));
        let error = mutex.try_lock_for(Duration::from_secs(2)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("did not answer"), "{error}");
    });
}

#[test]
fn a_store_that_takes_out_whoever_stands_in_line_is_asked_after_pauses() {
    let (memory, host) = (Memory::new(), Arc::new(BackgroundRuntime::for_timers()));
    let others = Locks::on(memory.clone(), host.clone());
    block_on(async {
        let _guard = others.mutex("a").lock().await.unwrap();
        let joins = Arc::<AtomicUsize>::default();
        let gone = Gone { memory, answered: usize::MAX, joins: joins.clone() };
        let locks = Locks::on(gone, host);
        let mutex = locks.mutex("a").ttl(Duration::from_millis(400));
        let waited = mutex.try_lock_for(Duration::from_secs(3)).await;
        assert!(waited.unwrap().is_none(), "it was answered each time");
        let joined = joins.load(Ordering::SeqCst);
        assert!((2..=16).contains(&joined), "{joined} joins in three seconds");
    });
}
