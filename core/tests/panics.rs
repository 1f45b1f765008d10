//! A panic of an engine affects only its caller, and a panic of an executor only its own tasks.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use tenure_core::blocking::block_on;
use tenure_core::layers::Layer;
use tenure_core::{
    BackgroundRuntime, Engine as _, Guarantees, Locks, Memory, Place, Result, Runtime, Ticket,
};

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

#[test]
fn a_waker_that_panics_does_not_end_the_renewals_of_other_locks() {
    const TTL: Duration = Duration::from_secs(3);
    let (host, renewals) = (host(), Arc::<AtomicU64>::default());
    let locks = Locks::on(Counted(Memory::new(), renewals.clone()), host.clone());
    let lock = |key| locks.mutex(key).ttl(TTL).lock();
    let (a, b) = (block_on(lock("a")).unwrap(), block_on(lock("b")).unwrap());
    let mut lost = pin!(a.lost());
    let broken = Waker::from(Arc::new(Broken));
    assert!(lost.as_mut().poll(&mut Context::from_waker(&broken)).is_pending());
    let began = Instant::now();
    while renewals.load(Ordering::Relaxed) < 3 {
        assert!(began.elapsed() < Duration::from_secs(60), "`b` is renewed: {:?}", b.check());
        std::thread::sleep(Duration::from_millis(10));
    }
    b.check().unwrap();
}
