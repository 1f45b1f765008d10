//! If `watch` fails, a waiter is served and a holder notified long before the next renewal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::layers::Layer;
use tenure_core::{Engine as _, Error, Locks, Loss, Memory, Result, Ticket, TicketState, Wake};

/// Number of failures of `watch`.
const TIMES: u32 = 3;
/// It is renewed every twenty minutes.
const TTL: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_secs(60);

/// A store whose bell breaks, each time after it was asked for.
struct Broken {
    memory: Memory,
    broken: Arc<AtomicU32>,
}

impl Layer for Broken {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        if self.broken.fetch_add(1, Ordering::SeqCst) < TIMES {
            return Err(Error::unavailable("the way to the store broke"));
        }
        self.memory.watch(ticket, seen).await
    }
}

fn store() -> (Locks, Arc<AtomicU32>) {
    let broken = Arc::<AtomicU32>::default();
    (Locks::new(Broken { memory: Memory::new(), broken: broken.clone() }), broken)
}

/// Begins this on a thread of its own, and waits until the bell broke for it once.
fn begin<T: Send + 'static>(
    broken: &AtomicU32,
    story: impl Future<Output = T> + Send + 'static,
) -> mpsc::Receiver<T> {
    let (done, told) = mpsc::channel();
    thread::spawn(move || done.send(block_on(story)));
    while broken.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    told
}

#[test]
fn who_waits_is_served_although_its_bell_broke() {
    let (locks, broken) = store();
    let mutex = locks.mutex("a").ttl(TTL);
    let guard = block_on(mutex.lock()).unwrap();
    let waiter = begin(&broken, async move { mutex.lock().await });
    block_on(guard.release()).unwrap();
    drop(waiter.recv_timeout(SOON).expect("it is served").unwrap());
}

#[test]
fn who_holds_is_told_although_its_bell_broke() {
    let (locks, broken) = store();
    let guard = block_on(locks.mutex("a").ttl(TTL).lock()).unwrap();
    let id = guard.id();
    let holder = begin(&broken, async move { guard.lost().await });
    block_on(locks.break_ticket("a", id)).unwrap();
    let loss = holder.recv_timeout(SOON).expect("it is told");
    assert_eq!(loss, Loss::Broken);
}
