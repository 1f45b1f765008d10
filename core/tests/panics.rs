//! An engine that panics harms nobody but who asked it.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::event::{Cursor, News, Scope};
use tenure_core::wrap::{AnyEngine, Quorum};
use tenure_core::{
    Engine, Host, Key, Leave, Left, Locks, Memory, Patience, Place, PrivateThread, Profile, Result,
    Standing, Tally, Ticket, Wake, Window,
};

fn host() -> Arc<dyn Host> {
    Arc::new(PrivateThread::for_timers())
}

/// Panics over every renewal, late.
struct Panicky(Memory, Arc<dyn Host>);

impl Engine for Panicky {
    fn profile(&self) -> Profile {
        let mut profile = self.0.profile();
        profile.quick = false;
        profile
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        self.0.join(ticket, patience).await
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.1.sleep(Duration::from_millis(20)).await;
        panic!("over {ticket:?}")
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        self.0.leave(ticket, how).await
    }

    async fn watch(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        self.0.watch(ticket, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
        self.0.events(scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.0.line(key).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.0.keys(prefix).await
    }

    async fn tally(&self, key: &Key, by: u64, window: Option<Window>) -> Result<Tally> {
        self.0.tally(key, by, window).await
    }

    async fn close(&self) {}
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
