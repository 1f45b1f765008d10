//! A doorbell: an engine rings it when a ticket's standing may have changed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::TicketId;
use crate::line::sync::{AtomicUsize, Mutex, MutexGuard};

/// The bells of the tickets that somebody listens for.
///
/// To miss nothing: [`listen`](WakeRegistry::subscribe) first, then look at the ticket, then await the bell.
///
/// ```
/// use std::pin::pin;
///
/// use tenure::{TicketId, engine::bell::WakeRegistry};
///
/// # tenure::blocking::block_on(async {
/// let (bells, id) = (WakeRegistry::default(), TicketId::fresh());
/// let bell = bells.listen(id);
/// let mut rung = pin!(bell.rung());
/// rung.as_mut().enable();
/// // Here an engine looks at the ticket. What happens from now on rings the bell.
/// bells.ring(id);
/// rung.await;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Default)]
pub struct WakeRegistry {
    hung: Mutex<HashMap<TicketId, Registered>>,
    /// How many there are, so that ringing where nobody listens costs nothing.
    count: AtomicUsize,
}

struct Registered {
    rung: Arc<Notify>,
    listeners: usize,
}

/// Somebody listens, until this is dropped.
///
/// ```
/// use tenure::{TicketId, engine::bell::WakeRegistry};
///
/// let (bells, id) = (WakeRegistry::default(), TicketId::fresh());
/// let bell = bells.listen(id);
/// assert!(!bells.is_quiet());
/// drop(bell);
/// assert!(bells.is_quiet());
/// ```
pub struct Subscription<'a> {
    bells: &'a WakeRegistry,
    id: TicketId,
    rung: Arc<Notify>,
}

impl WakeRegistry {
    /// Hangs up a bell for a ticket.
    pub fn subscribe(&self, id: TicketId) -> Subscription<'_> {
        let mut hung = self.lock();
        let bell = hung
            .entry(id)
            .or_insert_with(|| Registered { rung: Arc::new(Notify::new()), listeners: 0 });
        bell.listeners += 1;
        let rung = bell.rung.clone();
        self.count.store(hung.len(), Ordering::Release);
        Subscription { bells: self, id, rung }
    }

    /// Wakes all who listen for this ticket.
    pub fn notify(&self, id: TicketId) {
        if self.is_quiet() {
            return;
        }
        let rung = self.lock().get(&id).map(|bell| bell.rung.clone());
        if let Some(rung) = rung {
            wake_all(&rung);
        }
    }

    /// Whether nobody listens at all.
    pub fn is_quiet(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TicketId, Registered>> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes all who wait. The wakers are those of the callers' executors, one of which may panic: that must not end who
/// happens to wake it, and who keeps the locks of others.
pub(crate) fn wake_all(waiting: &Notify) {
    let _it_was_said = catch_unwind(AssertUnwindSafe(|| waiting.notify_waiters()));
}

impl Subscription<'_> {
    /// Ready once the bell rings after this call.
    pub fn rung(&self) -> Notified<'_> {
        self.rung.notified()
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        let mut hung = self.bells.lock();
        if let Entry::Occupied(mut bell) = hung.entry(self.id) {
            bell.get_mut().listeners -= 1;
            if bell.get().listeners == 0 {
                bell.remove();
            }
        }
        self.bells.count.store(hung.len(), Ordering::Release);
    }
}
