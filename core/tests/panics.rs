//! An engine that panics harms nobody but who asked it.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::wrap::{AnyEngine, Around, Quorum};
use tenure_core::{
    Engine as _, Host, Locks, Memory, Place, PrivateThread, Profile, Result, Ticket,
};

fn host() -> Arc<dyn Host> {
    Arc::new(PrivateThread::for_timers())
}

/// Panics over every renewal, late.
struct Panicky(Memory, Arc<dyn Host>);

impl Around for Panicky {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    fn profile(&self) -> Profile {
        let mut profile = self.0.profile();
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
