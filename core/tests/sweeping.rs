//! What is given back to a store that does not answer, and what a caller is told meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::wrap::{Around, Question};
use tenure_core::{
    Engine as _, Error, Host, Kind, Liveness, Locks, Loss, Memory, Patience, Place, PrivateThread,
    Profile, Result, Ticket,
};

/// Tickets live here as long as their session.
struct Session {
    memory: Memory,
    is_silent: Arc<AtomicBool>,
}

impl Around for Session {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    fn profile(&self) -> Profile {
        let mut profile = self.memory.profile();
        (profile.quick, profile.liveness) = (false, Liveness::Session);
        profile
    }

    async fn pass<T: Send>(
        &self,
        _: Question<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if self.is_silent.load(Ordering::SeqCst) {
            return Err(Error::unavailable("nobody answers"));
        }
        ask.await
    }
}

#[test]
fn tickets_that_cannot_be_given_back_are_bounded_and_what_is_over_is_forgotten() {
    let (host, is_silent): (Arc<dyn Host>, Arc<AtomicBool>) =
        (Arc::new(PrivateThread::for_timers()), Arc::default());
    let session = Session { memory: Memory::new(), is_silent: is_silent.clone() };
    let locks = Locks::on(session, host.clone());
    block_on(async {
        is_silent.store(true, Ordering::SeqCst);
        // On a busy machine, too, none of them is over before the last is asked for.
        let ttl = Duration::from_secs(20);
        let mut refused = None;
        for _ in 0..100_000 {
            let error = locks.mutex("a").ttl(ttl).try_lock().await.unwrap_err();
            assert_eq!(error.kind(), Kind::Unavailable);
            if error.to_string().contains("wait to be given back to the memory of this program") {
                refused = Some(error);
                break;
            }
        }
        assert!(refused.is_some(), "there is no end to what is remembered");
        // No request of theirs can still arrive once their ttl is over, whether the store answers or not.
        for round in 0.. {
            assert!(round < 600, "what is over is still remembered");
            host.sleep(Duration::from_millis(100)).await;
            let error = locks.mutex("a").ttl(ttl).try_lock().await.unwrap_err();
            if error.to_string() == "nobody answers" {
                break;
            }
        }
        is_silent.store(false, Ordering::SeqCst);
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    });
}

/// So many joins are answered, and then the session is gone; later joins are not answered.
struct Gone {
    memory: Memory,
    answered: usize,
    joins: Arc<AtomicUsize>,
}

impl Around for Gone {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
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
    let (memory, host) = (Memory::new(), Arc::new(PrivateThread::for_timers()));
    let others = Locks::on(memory.clone(), host.clone());
    block_on(async {
        let _guard = others.mutex("a").lock().await.unwrap();
        let locks = Locks::on(Gone { memory, answered: 1, joins: Arc::default() }, host);
        let mutex = locks.mutex("a").ttl(Duration::from_millis(500));
        let error = mutex.lock_within(Duration::from_secs(2)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.to_string().contains("did not answer"), "{error}");
    });
}

#[test]
fn a_store_that_takes_out_whoever_stands_in_line_is_asked_after_pauses() {
    let (memory, host) = (Memory::new(), Arc::new(PrivateThread::for_timers()));
    let others = Locks::on(memory.clone(), host.clone());
    block_on(async {
        let _guard = others.mutex("a").lock().await.unwrap();
        let joins = Arc::<AtomicUsize>::default();
        let gone = Gone { memory, answered: usize::MAX, joins: joins.clone() };
        let locks = Locks::on(gone, host);
        let mutex = locks.mutex("a").ttl(Duration::from_millis(400));
        let waited = mutex.lock_within(Duration::from_secs(3)).await;
        assert!(waited.unwrap().is_none(), "it was answered each time");
        let joined = joins.load(Ordering::SeqCst);
        assert!((2..=16).contains(&joined), "{joined} joins in three seconds");
    });
}
