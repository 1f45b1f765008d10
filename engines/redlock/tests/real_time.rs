//! A quorum in real time, with the public API.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::layers::{AnyEngine, Layer, Operation};
use tenure_core::{
    BackgroundRuntime, Engine as _, Error, ErrorKind, Guarantee, Guarantees, Key, LeaveMode, Locks,
    Memory, Place, Result, Runtime, Share, Ticket, TicketState, WaitMode,
};
use tenure_redlock::{NodeHealth, Quorum, QuorumHealth};

fn host() -> Arc<dyn Runtime> {
    Arc::new(BackgroundRuntime::for_timers())
}

fn quorum_of(nodes: &[Memory]) -> Locks {
    let host = host();
    let nodes: Vec<AnyEngine> = nodes.iter().cloned().map(AnyEngine::new).collect();
    Locks::on(Quorum::new(nodes, host.clone(), Duration::from_millis(100)).unwrap(), host)
}

#[test]
fn a_quorum_excludes_and_its_token_grows_across_clients_and_nodes() {
    let nodes: Vec<Memory> = (0..5).map(|_| Memory::new()).collect();
    let (one, other) = (quorum_of(&nodes).blocking(), quorum_of(&nodes).blocking());
    let mut last = 0;
    for _ in 0..50 {
        for locks in [&one, &other] {
            let guard = locks.mutex("a").lock().unwrap();
            assert!(guard.token().get() > last);
            last = guard.token().get();
            assert!(one.mutex("a").try_lock().unwrap().is_none());
            assert_eq!(locks.line("a").unwrap()[0].number, last);
            assert!(one.line("a").unwrap()[0].number >= last);
            guard.release().unwrap();
        }
    }
}

#[test]
fn a_quorum_outlives_a_minority_and_refuses_without_a_majority() {
    let node = |arrives: bool| -> AnyEngine {
        if arrives {
            AnyEngine::new(Memory::new())
        } else {
            AnyEngine::new(Switched(Memory::new(), Arc::new(true.into())))
        }
    };
    let locks = |up: [bool; 5]| {
        let host = host();
        let quorum = Quorum::new(up.map(node), host.clone(), Duration::from_millis(100)).unwrap();
        Locks::on(quorum, host).blocking()
    };
    for up in [[true, true, true, true, false], [false, true, true, false, true]] {
        locks(up).mutex("a").lock().unwrap().release().unwrap();
    }
    let error = locks([true, false, false, true, false]).mutex("a").lock().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.to_string().starts_with("fewer than 3 of 5 stores answered; store 2: "),
        "{error}"
    );
}

/// A store that can be silent for a while.
#[derive(Clone, Default)]
struct Switched(Memory, Arc<AtomicBool>);

impl Layer for Switched {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    async fn intercept<T: Send>(
        &self,
        _: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if self.1.load(Ordering::Relaxed) {
            return Err(Error::unavailable("no answer"));
        }
        ask.await
    }
}

#[test]
fn a_quorum_takes_no_silence_for_a_loss() {
    let nodes: [Switched; 3] = Default::default();
    let host = host();
    let engines = nodes.clone().map(AnyEngine::new);
    let quorum = Quorum::new(engines, host, Duration::from_millis(100)).unwrap();
    let key = Key::new("a").unwrap();
    let ticket = Ticket::new(key.clone(), Share::WHOLE);
    block_on(async {
        quorum.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
        // One has lost its data, one is silent, and one keeps the ticket.
        let (lost, _) = nodes[1].0.line(&key).await.unwrap().remove(0);
        nodes[1].0.leave(&lost, LeaveMode::Now).await.unwrap();
        nodes[0].1.store(true, Ordering::Relaxed);
        let error = quorum.renew(&ticket).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "the silent one may keep it");
        nodes[0].1.store(false, Ordering::Relaxed);
        let place = quorum.renew(&ticket).await.unwrap().expect("a majority keeps it");
        assert_eq!((place.state, place.leaving), (TicketState::Holding, false));
        let (lost, _) = nodes[2].0.line(&key).await.unwrap().remove(0);
        nodes[2].0.leave(&lost, LeaveMode::Now).await.unwrap();
        assert_eq!(quorum.renew(&ticket).await.unwrap(), None, "no majority keeps it");
    });
}

#[test]
fn a_quorum_says_what_it_cannot_keep() {
    let nodes: Vec<Memory> = (0..3).map(|_| Memory::new()).collect();
    let locks = quorum_of(&nodes).blocking();
    let error = locks.semaphore("s", 2).acquire().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(locks.sequence("s").next().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(locks.require(&[Guarantee::Fair]).unwrap_err().kind(), ErrorKind::Unsupported);
    let few = Quorum::new([AnyEngine::new(Memory::new())], host(), Duration::from_millis(1));
    assert_eq!(few.err().unwrap().kind(), ErrorKind::Invalid);
}

#[test]
fn a_quorum_lets_readers_in_together_and_a_writer_alone() {
    let nodes: Vec<Memory> = (0..3).map(|_| Memory::new()).collect();
    let (one, other) = (quorum_of(&nodes).blocking(), quorum_of(&nodes).blocking());
    let readers = (one.rwlock("d").read().unwrap(), other.rwlock("d").read().unwrap());
    assert!(one.rwlock("d").try_write().unwrap().is_none());
    drop(readers);
    one.flush();
    other.flush();
    let writer = other.rwlock("d").write().unwrap();
    assert!(one.rwlock("d").try_read().unwrap().is_none());
    writer.release().unwrap();
}

/// Panics over every renewal, late.
struct Panicky(Memory, Arc<dyn Runtime>);

impl Layer for Panicky {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    fn profile(&self) -> Guarantees {
        let mut profile = self.0.guarantees();
        profile.quick = false;
        profile
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.1.sleep(Duration::from_millis(20)).await;
        panic!("over {ticket:?}")
    }
}

#[test]
fn a_store_of_a_quorum_that_panics_late_harms_nobody() {
    let host = host();
    let stores = [
        AnyEngine::new(Memory::new()),
        AnyEngine::new(Memory::new()),
        AnyEngine::new(Panicky(Memory::new(), host.clone())),
    ];
    let quorum = Quorum::new(stores, host.clone(), Duration::from_millis(100)).unwrap();
    let locks = Locks::on(quorum, host.clone());
    let closed = block_on(async {
        let guard = locks.mutex("a").lock().await.unwrap();
        guard.extend().await.unwrap();
        host.sleep(Duration::from_millis(200)).await;
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
        let closed = Box::pin(locks.close());
        futures_util::future::select(closed, host.sleep(Duration::from_secs(2))).await
    });
    assert!(matches!(closed, futures_util::future::Either::Left(_)), "it is never closed");
}

fn is_send_sync_and_unpin<T: Send + Sync + Unpin>() {}

#[test]
fn all_public_types_are_send_sync_and_unpin() {
    is_send_sync_and_unpin::<Quorum>();
    is_send_sync_and_unpin::<QuorumHealth>();
    is_send_sync_and_unpin::<NodeHealth>();
}
