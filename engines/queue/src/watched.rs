//! What a ticket watches, kept between two calls: whoever listens stops at every sign of life and listens again, and a store
//! must not be asked for the same watch each time.

use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::contract::Watching;
use crate::node::Node;

/// The watch of one ticket, while nobody listens to it.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<Mutex<Option<Open>>>);

struct Open {
    nodes: Vec<Node>,
    watching: Watching,
}

/// A watch that somebody listens to. It is kept again when this is dropped, unless it told something.
pub(crate) struct Listened {
    watched: Watched,
    open: Option<Open>,
}

impl Watched {
    /// The watch that is open, if it is of these nodes as they are: nothing has happened to them since it was opened, or it
    /// tells so at once. Another one is given up.
    pub(crate) fn listen(&self, nodes: &[Node]) -> Option<Listened> {
        let open = self.lock().take().filter(|open| open.is_of(nodes))?;
        Some(Listened { watched: self.clone(), open: Some(open) })
    }

    /// A watch of these nodes was opened.
    pub(crate) fn opened(&self, nodes: Vec<Node>, watching: Watching) -> Listened {
        Listened { watched: self.clone(), open: Some(Open { nodes, watching }) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn is_of(&self, nodes: &[Node]) -> bool {
        let same = |(one, other): (&Node, &Node)| one.is_as(other);
        self.nodes.len() == nodes.len() && self.nodes.iter().zip(nodes).all(same)
    }
}

impl Listened {
    /// Ready once one of the nodes may be otherwise. Then it is of no more use.
    pub(crate) async fn changed(&mut self) {
        if let Some(open) = &mut self.open {
            open.watching.changed.as_mut().await;
        }
        self.open = None;
    }
}

impl Drop for Listened {
    fn drop(&mut self) {
        if let Some(open) = take(&mut self.open) {
            *self.watched.lock() = Some(open);
        }
    }
}
