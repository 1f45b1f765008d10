//! A cache of tickets by their names in a line. The owner of a name never changes, so a
//! listing and the cache describe a line. Only data that may have changed is read again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::sync::Mutex;
use tenure_core::{Share, TicketId};
use tenure_queue::{LineId, Node};

use crate::names::{Child, Listing};

/// Age after which a ticket is read again.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum lines. Beyond it the cache is cleared: all of it can be read again.
const LINES_MAX: usize = 16_384;

/// The tickets that one client has read.
#[derive(Clone, Default)]
pub(crate) struct NodeCache(Arc<Mutex<HashMap<LineId, CachedLine>>>);

#[derive(Default)]
struct CachedLine {
    at: u64,
    length: usize,
    by_id: HashMap<TicketId, Read>,
}

/// A ticket that was read.
#[derive(Clone)]
pub(crate) struct Read {
    pub(crate) child: Child,
    pub(crate) node: Node,
    /// Its data version, which is what ZooKeeper compares.
    pub(crate) changes: i32,
    pub(crate) at: Instant,
}

impl Read {
    /// Returns whether it was read so recently that its name is enough.
    pub(crate) fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH
    }

    /// Returns the ticket with the take of its line.
    pub(crate) fn node_of(&self, child: &Child) -> Node {
        let mut node = self.node.clone();
        if let Ok(share) = Share::new(child.takes, child.name.of) {
            node.ticket.share = share;
        }
        node
    }
}

impl NodeCache {
    pub(crate) fn get(&self, line: &LineId, id: TicketId) -> Option<Read> {
        self.0.lock().get(line)?.by_id.get(&id).cloned()
    }

    /// Returns the last known transaction that changed the line.
    pub(crate) fn at(&self, line: &LineId) -> u64 {
        self.0.lock().get(line).map_or(0, |page| page.at)
    }

    /// Returns whether a ticket in the line is known.
    pub(crate) fn knows(&self, line: &LineId) -> bool {
        self.0.lock().contains_key(line)
    }

    /// Returns the length of the line at its last listing.
    pub(crate) fn length(&self, line: &LineId) -> usize {
        self.0.lock().get(line).map_or(0, |page| page.length)
    }

    pub(crate) fn put(&self, read: Read) {
        let mut pages = self.0.lock();
        if pages.len() > LINES_MAX {
            pages.clear();
        }
        let page = pages.entry(read.child.name.line.clone()).or_default();
        page.by_id.insert(read.child.name.id, read);
    }

    pub(crate) fn forget(&self, line: &LineId, id: TicketId) {
        let mut pages = self.0.lock();
        if let Some(page) = pages.get_mut(line) {
            page.by_id.remove(&id);
            if page.by_id.is_empty() {
                pages.remove(line);
            }
        }
    }

    /// Removes the tickets that are not in the line any more.
    pub(crate) fn list(&self, line: &LineId, listing: &Listing) {
        let mut pages = self.0.lock();
        if let Some(page) = pages.get_mut(line) {
            page.at = page.at.max(listing.at);
            page.length = listing.children.len();
            if page.by_id.len() > listing.children.len() {
                let there: HashSet<_> = listing.children.iter().map(|it| it.name.id).collect();
                page.by_id.retain(|id, _| there.contains(id));
            }
        }
    }
}
