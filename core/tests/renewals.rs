//! Many renewals that are due together do not run out of time in a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::layers::Layer;
use tenure_core::{
    BackgroundRuntime, Engine as _, Guarantees, Locks, Memory, Place, Result, Runtime, Ticket,
};

const LOCKS: usize = 2000;
const TTL: Duration = Duration::from_secs(12);

/// A memory store that needs a moment for each renewal, and counts how many are under way.
struct Slow {
    memory: Memory,
    host: Arc<dyn Runtime>,
    under_way: AtomicU64,
    most: Arc<AtomicU64>,
    all: Arc<AtomicU64>,
}

impl Layer for Slow {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    fn profile(&self) -> Guarantees {
        let mut profile = self.memory.guarantees();
        profile.quick = false;
        profile
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(under_way, Ordering::Relaxed);
        self.host.sleep(Duration::from_millis(5)).await;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        self.all.fetch_add(1, Ordering::Relaxed);
        self.memory.renew(ticket).await
    }
}

#[test]
fn renewals_that_are_due_together_are_sent_a_bounded_number_at_a_time() {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_timers());
    let (most, all) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let store = Slow {
        memory: Memory::new(),
        host: host.clone(),
        under_way: 0.into(),
        most: most.clone(),
        all: all.clone(),
    };
    let locks = Locks::on(store, host.clone());
    block_on(async {
        let mut guards = Vec::new();
        for number in 0..LOCKS {
            guards.push(locks.mutex(format!("k{number}")).ttl(TTL).lock().await.unwrap());
        }
        while all.load(Ordering::Relaxed) < LOCKS as u64 {
            host.sleep(Duration::from_millis(10)).await;
        }
        for guard in &guards {
            guard.check().unwrap();
        }
        let most = most.load(Ordering::Relaxed);
        assert!(most <= 512, "{most} renewals were under way at a time");
        drop(guards);
        locks.flush().await;
    });
}
