//! Many renewals that are due together do not run out of time in a queue, and those that hang hold up no others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::wrap::Around;
use tenure_core::{
    Engine as _, Host, Locks, Memory, Place, PrivateThread, Profile, Result, Ticket,
};

const LOCKS: usize = 2000;
const TTL: Duration = Duration::from_secs(12);

/// A memory store that needs a moment for each renewal, and counts how many are under way.
struct Slow {
    memory: Memory,
    host: Arc<dyn Host>,
    under_way: AtomicU64,
    most: Arc<AtomicU64>,
    all: Arc<AtomicU64>,
}

impl Around for Slow {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    fn profile(&self) -> Profile {
        let mut profile = self.memory.profile();
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
    let host: Arc<dyn Host> = Arc::new(PrivateThread::for_timers());
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
        locks.settled().await;
    });
}

/// A memory store that never answers the renewal of a key that begins with `silent`, and counts the others.
struct HalfSilent {
    memory: Memory,
    renewed: Arc<AtomicU64>,
}

impl Around for HalfSilent {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    fn profile(&self) -> Profile {
        let mut profile = self.memory.profile();
        profile.quick = false;
        profile
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        if ticket.key.as_str().starts_with("silent") {
            return std::future::pending().await;
        }
        self.renewed.fetch_add(1, Ordering::Relaxed);
        self.memory.renew(ticket).await
    }
}

#[test]
fn renewals_that_hang_keep_no_other_ticket_from_its_own() {
    const SILENT: usize = 6000;
    const WELL: usize = 200;
    let host: Arc<dyn Host> = Arc::new(PrivateThread::for_timers());
    let renewed = Arc::<AtomicU64>::default();
    let store = HalfSilent { memory: Memory::new(), renewed: renewed.clone() };
    let locks = Locks::on(store, host.clone());
    block_on(async {
        let mut silent = Vec::new();
        let mut well = Vec::new();
        let lock = |key: String| locks.mutex(key).ttl(TTL / 2).lock();
        for number in 0..SILENT {
            silent.push(lock(format!("silent{number}")).await.unwrap());
        }
        for number in 0..WELL {
            well.push(lock(format!("well{number}")).await.unwrap());
        }
        // Each of them outlives its ttl: three renewals come before its end.
        while renewed.load(Ordering::Relaxed) < 5 * WELL as u64 {
            host.sleep(Duration::from_millis(10)).await;
            for guard in &well {
                guard.check().unwrap();
            }
        }
        assert!(silent.iter().all(|guard| guard.check().is_err()), "they were renewed, too");
        drop((silent, well));
        locks.settled().await;
    });
}
