//! A pool of links: one for the runtime of the engine, and one for each runtime that calls it. Over
//! the link of its own runtime, a caller reaches the server without a detour through another
//! thread.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use tokio::runtime::{Handle, Id, RuntimeFlavor};

use tenure_core::sync::Mutex;

use crate::link::{Link, ServerClient};
use crate::server::Server;

/// Maximum number of callers' runtimes with a link. Above it the pool forgets all of them. Programs
/// have one runtime or two; test programs make one for each test.
const RUNTIMES_MAX: usize = 64;

/// A pool with the link of the engine's own runtime and one link for each runtime that calls.
pub struct LinkPool<S: Server> {
    client: Arc<ServerClient<S>>,
    link: Arc<Link<S>>,
    id: Id,
    others: Arc<Mutex<Others<S>>>,
}

type Others<S> = HashMap<Id, Other<S>>;

/// The link of one of the callers' runtimes.
enum Other<S: Server> {
    /// The link is connecting, or it is barred: its runtime has no driver for sockets.
    Opening,
    Open(Arc<Link<S>>),
}

impl<S: Server> LinkPool<S> {
    /// Returns a pool with `link`, which stays connected by itself. The current runtime is the
    /// engine's own.
    ///
    /// # Panics
    ///
    /// Panics without a runtime.
    pub fn new(link: Arc<Link<S>>) -> Self {
        let client = link.client().clone();
        Self { client, link, id: Handle::current().id(), others: Arc::default() }
    }

    /// Returns the link of the caller's runtime, or the engine's own if the runtime has none.
    pub fn link(&self) -> Arc<Link<S>> {
        match driven_runtime() {
            Some(here) if here.id() != self.id => match lock(&self.others).get(&here.id()) {
                Some(Other::Open(link)) => link.clone(),
                _ => self.link.clone(),
            },
            _ => self.link.clone(),
        }
    }

    /// Whether the caller's runtime has an open link. If it has none yet, a link is opened in the
    /// background for later calls.
    pub fn has_link_here(&self) -> bool {
        let Some(here) = driven_runtime() else { return false };
        let id = here.id();
        if id == self.id {
            return true;
        }
        let mut others = lock(&self.others);
        match others.get(&id) {
            Some(Other::Open(link)) if link.current().is_some() => return true,
            Some(Other::Opening) => return false,
            // After a loss the engine's own link reconnects first: it sends the renewals, and the
            // verbs of callers whose link is not open yet.
            _ if self.link.current().is_none() => return false,
            _ => {}
        }
        if others.len() >= RUNTIMES_MAX {
            others.clear();
        }
        others.insert(id, Other::Opening);
        drop(others);
        let (others, link) = (self.others.clone(), Link::on_demand(self.client.clone()));
        here.spawn(async move {
            let connected = link.connection().await;
            let mut others = lock(&others);
            match connected {
                Ok(_) => others.insert(id, Other::Open(link)),
                // This runtime can never connect: `Opening` stays, and its verbs use `link`.
                Err(_) if link.is_barred() => None,
                // The verbs report the reason. The next verb tries again.
                Err(_) => others.remove(&id),
            };
        });
        false
    }
}

/// Returns the current runtime if a task that is spawned on it makes progress.
///
/// A runtime that the caller only entered may have no thread that drives it. A runtime of one
/// thread is known to be driven if the caller is one of its tasks.
pub fn driven_runtime() -> Option<Handle> {
    let here = Handle::try_current().ok()?;
    let has_threads = here.runtime_flavor() != RuntimeFlavor::CurrentThread;
    (has_threads || tokio::task::try_id().is_some()).then_some(here)
}

fn lock<S: Server>(others: &Mutex<Others<S>>) -> MutexGuard<'_, Others<S>> {
    others.lock()
}
