//! The home of an engine's connections, and the links of its callers' own runtimes: over such a link, a verb goes to the
//! server and back without a detour through the thread that the engine lives on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, Id, RuntimeFlavor};

use crate::link::{Client, Link};
use crate::server::Server;

/// Programs have one runtime or two; tests make a new one each, and leave theirs behind.
const RUNTIMES_MAX: usize = 64;

/// The link of the runtime that an engine lives on, and those of its callers.
pub struct LinkPool<S: Server> {
    client: Arc<Client<S>>,
    link: Arc<Link<S>>,
    id: Id,
    others: Arc<Mutex<Others<S>>>,
}

type Others<S> = HashMap<Id, Other<S>>;

/// The link of one of the callers' runtimes.
enum Other<S: Server> {
    /// It connects, or could not: the runtime may have no driver for sockets.
    Opening,
    Open(Arc<Link<S>>),
}

impl<S: Server> LinkPool<S> {
    /// Only this link for now, which stays connected by itself; the caller's runtime is the engine's home.
    pub fn new(link: Arc<Link<S>>) -> Self {
        let client = link.client().clone();
        Self { client, link, id: Handle::current().id(), others: Arc::default() }
    }

    /// The link for whoever calls.
    pub fn link(&self) -> Arc<Link<S>> {
        match driven() {
            Some(here) if here.id() != self.id => match lock(&self.others).get(&here.id()) {
                Some(Other::Open(link)) => link.clone(),
                _ => self.link.clone(),
            },
            _ => self.link.clone(),
        }
    }

    /// Whether whoever calls has a link of their own; a runtime that has none yet gets one for the next time.
    pub fn has_link_here(&self) -> bool {
        let Some(here) = driven() else { return false };
        let id = here.id();
        if id == self.id {
            return true;
        }
        let mut others = lock(&self.others);
        match others.get(&id) {
            Some(Other::Open(link)) if link.current().is_some() => return true,
            Some(Other::Opening) => return false,
            // Where connections are lost, the home link comes first: it gives the signs of life, and carries the verbs
            // of those whose own connection is still to come.
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
                // It never will: its verbs go by the home link.
                Err(_) if link.is_barred() => None,
                // The verbs tell why; the next one tries again.
                Err(_) => others.remove(&id),
            };
        });
        false
    }
}

/// The runtime of whoever calls, if somebody drives it: one that was only entered moves nothing. A runtime of one
/// thread is known to be driven by the task that it runs.
pub(crate) fn driven() -> Option<Handle> {
    let here = Handle::try_current().ok()?;
    let by_itself = here.runtime_flavor() != RuntimeFlavor::CurrentThread;
    (by_itself || tokio::task::try_id().is_some()).then_some(here)
}

fn lock<S: Server>(others: &Mutex<Others<S>>) -> MutexGuard<'_, Others<S>> {
    others.lock().unwrap_or_else(PoisonError::into_inner)
}
