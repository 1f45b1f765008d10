//! A panic of an engine, an executor or a log subscriber does not end the renewals of other locks.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use tenure_core::blocking::block_on;
use tenure_core::layers::Layer;
use tenure_core::{
    BackgroundRuntime, Engine as _, Guarantees, Locks, Memory, MutexGuard, Place, Result, Runtime,
    Ticket,
};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

fn host() -> Arc<dyn Runtime> {
    Arc::new(BackgroundRuntime::for_timers())
}

/// Counts how often the lock `b` is renewed.
struct Counted(Memory, Arc<AtomicU64>);

impl Layer for Counted {
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
        self.1.fetch_add(u64::from(ticket.key.as_str() == "b"), Ordering::Relaxed);
        self.0.renew(ticket).await
    }
}

/// An executor whose queue is full, or whose thread has ended.
struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        panic!("no task can be queued any more")
    }
}

/// Longer than a busy machine keeps a thread waiting.
const TTL: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(200);

/// A log subscriber of all tests here that panics when it is given a warning.
struct Nervous;

impl Subscriber for Nervous {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        panic!("this subscriber panics");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Waits for three renewals of `b`.
fn is_renewed(b: &MutexGuard, renewals: &AtomicU64) {
    let (began, before) = (Instant::now(), renewals.load(Ordering::Relaxed));
    while renewals.load(Ordering::Relaxed) < before + 3 {
        assert!(began.elapsed() < Duration::from_secs(60), "`b` is renewed: {:?}", b.check());
        std::thread::sleep(Duration::from_millis(10));
    }
    b.check().unwrap();
}

#[test]
fn a_subscriber_that_panics_does_not_end_the_renewals_of_other_locks() {
    tracing::subscriber::set_global_default(Nervous).unwrap();
    let renewals = Arc::<AtomicU64>::default();
    let locks = Locks::on(Counted(Memory::new(), renewals.clone()), host());
    let lock = |key| locks.mutex(key).ttl(TTL).renew_every(EVERY);
    let b = block_on(lock("b").lock()).unwrap();
    let a = block_on(lock("a").max_hold(Duration::from_millis(100)).lock()).unwrap();
    block_on(a.lost());
    is_renewed(&b, &renewals);
}

#[test]
fn a_waker_that_panics_does_not_end_the_renewals_of_other_locks() {
    let (host, renewals) = (host(), Arc::<AtomicU64>::default());
    let locks = Locks::on(Counted(Memory::new(), renewals.clone()), host.clone());
    let lock = |key| locks.mutex(key).ttl(TTL).renew_every(EVERY).lock();
    let (a, b) = (block_on(lock("a")).unwrap(), block_on(lock("b")).unwrap());
    let mut lost = pin!(a.lost());
    let broken = Waker::from(Arc::new(Broken));
    assert!(lost.as_mut().poll(&mut Context::from_waker(&broken)).is_pending());
    is_renewed(&b, &renewals);
}
