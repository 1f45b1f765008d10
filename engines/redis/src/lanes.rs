//! A lane is a link of one of the caller's own runtimes: a verb goes from there to the server and back
//! without a detour through the thread that the engine lives on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_kit::Client;
use tokio::runtime::{Handle, Id, RuntimeFlavor};

use crate::link::{Link, Master};

/// Programs have one runtime or two; tests make a new one each, and leave theirs behind.
const LANES_MAX: usize = 64;

/// The link of the runtime that the engine lives on, and those of its callers.
pub(crate) struct Lanes {
    client: Arc<Client<Master>>,
    home: Arc<Link>,
    home_id: Id,
    others: Arc<Mutex<HashMap<Id, Lane>>>,
}

enum Lane {
    /// It connects, or could not: the runtime may have no driver for sockets.
    Opening,
    Open(Arc<Link>),
}

impl Lanes {
    /// Only the home link for now; the caller's runtime is the engine's home.
    pub(crate) fn new(client: Arc<Client<Master>>, home: Arc<Link>) -> Self {
        Self { client, home, home_id: Handle::current().id(), others: Arc::default() }
    }

    /// The link for whoever calls.
    pub(crate) fn here(&self) -> Arc<Link> {
        match driven() {
            Some(here) if here.id() != self.home_id => match self.lanes().get(&here.id()) {
                Some(Lane::Open(link)) => link.clone(),
                _ => self.home.clone(),
            },
            _ => self.home.clone(),
        }
    }

    /// Whether whoever calls has a link; a runtime that has none yet gets one for the next time.
    pub(crate) fn has_one_here(&self) -> bool {
        let Some(here) = driven() else { return false };
        let id = here.id();
        if id == self.home_id {
            return true;
        }
        let mut lanes = self.lanes();
        match lanes.get(&id) {
            Some(Lane::Open(link)) if link.current().is_some() => return true,
            Some(Lane::Opening) => return false,
            // Where connections are lost, the home link comes first: it gives the signs of life, and carries
            // the verbs of those whose own connection is still to come.
            _ if self.home.current().is_none() => return false,
            _ => {}
        }
        if lanes.len() >= LANES_MAX {
            lanes.clear();
        }
        lanes.insert(id, Lane::Opening);
        drop(lanes);
        let (lanes, link) = (self.others.clone(), Link::on_demand(self.client.clone()));
        here.spawn(async move {
            let connected = link.connection().await;
            let mut lanes = lock(&lanes);
            match connected {
                Ok(_) => lanes.insert(id, Lane::Open(link)),
                // It never will: its verbs go by the home link.
                Err(_) if link.is_barred() => None,
                // The verbs tell why; the next one tries again.
                Err(_) => lanes.remove(&id),
            };
        });
        false
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<Id, Lane>> {
        lock(&self.others)
    }
}

/// The runtime of whoever calls, if somebody drives it: one that was only entered moves nothing. A runtime
/// of one thread is known to be driven by the task that it runs.
fn driven() -> Option<Handle> {
    let here = Handle::try_current().ok()?;
    let by_itself = here.runtime_flavor() != RuntimeFlavor::CurrentThread;
    (by_itself || tokio::task::try_id().is_some()).then_some(here)
}

fn lock(lanes: &Mutex<HashMap<Id, Lane>>) -> MutexGuard<'_, HashMap<Id, Lane>> {
    lanes.lock().unwrap_or_else(PoisonError::into_inner)
}
