//! Wake-ups: an engine notifies the tasks that wait for a ticket when the ticket's state may have
//! changed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::TicketId;
use crate::sync::replaced::{AtomicUsize, Mutex, MutexGuard};

/// The tickets that tasks wait for.
///
/// To miss no change, [`subscribe`](WakeRegistry::subscribe) first, then read the ticket, then
/// await the wake-up.
///
/// ```
/// use std::pin::pin;
///
/// use tenure::engine::wake::WakeRegistry;
/// use tenure::inspect::TicketId;
///
/// # tenure::blocking::block_on(async {
/// let (registry, id) = (WakeRegistry::default(), TicketId::fresh());
/// let subscription = registry.subscribe(id);
/// let mut notified = pin!(subscription.notified());
/// notified.as_mut().enable();
/// // Here an engine reads the ticket. Each later change notifies this task.
/// registry.notify(id);
/// notified.await;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Default)]
pub struct WakeRegistry {
    by_id: Mutex<HashMap<TicketId, Registered>>,
    /// The size of `by_id`. A notification without subscribers takes no lock.
    count: AtomicUsize,
}

struct Registered {
    notify: Arc<Notify>,
    subscribers: usize,
}

/// A subscription to the wake-ups of one ticket. It ends when this is dropped.
///
/// ```
/// use tenure::engine::wake::WakeRegistry;
/// use tenure::inspect::TicketId;
///
/// let (registry, id) = (WakeRegistry::default(), TicketId::fresh());
/// let subscription = registry.subscribe(id);
/// assert!(!registry.is_quiet());
/// drop(subscription);
/// assert!(registry.is_quiet());
/// ```
pub struct Subscription<'a> {
    registry: &'a WakeRegistry,
    id: TicketId,
    notify: Arc<Notify>,
}

impl WakeRegistry {
    /// Subscribes to the wake-ups of a ticket.
    pub fn subscribe(&self, id: TicketId) -> Subscription<'_> {
        let mut by_id = self.lock();
        let registered = by_id
            .entry(id)
            .or_insert_with(|| Registered { notify: Arc::new(Notify::new()), subscribers: 0 });
        registered.subscribers += 1;
        let notify = registered.notify.clone();
        self.count.store(by_id.len(), Ordering::Release);
        Subscription { registry: self, id, notify }
    }

    /// Wakes all subscribers of this ticket.
    pub fn notify(&self, id: TicketId) {
        if self.is_quiet() {
            return;
        }
        let notify = self.lock().get(&id).map(|registered| registered.notify.clone());
        if let Some(notify) = notify {
            wake_all(&notify);
        }
    }

    /// Whether there is no subscription.
    pub fn is_quiet(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TicketId, Registered>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls a waker, a metrics recorder or a log subscriber of the program. A panic in it must not end
/// the task that renews or releases the locks of others.
pub(crate) fn contain_panic(call: impl FnOnce()) {
    // The panic hook has already reported it.
    let _ = catch_unwind(AssertUnwindSafe(call));
}

/// Wakes all waiting tasks. Their wakers belong to the callers' executors, and a waker may panic.
pub(crate) fn wake_all(waiting: &Notify) {
    contain_panic(|| waiting.notify_waiters());
}

impl Subscription<'_> {
    /// A future that is ready after the next notification.
    pub fn notified(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        let mut by_id = self.registry.lock();
        if let Entry::Occupied(mut registered) = by_id.entry(self.id) {
            registered.get_mut().subscribers -= 1;
            if registered.get().subscribers == 0 {
                registered.remove();
            }
        }
        self.registry.count.store(by_id.len(), Ordering::Release);
    }
}

impl fmt::Debug for WakeRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeRegistry").finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscription<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
