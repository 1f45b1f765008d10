//! What a ticket watches, kept between two calls: whoever listens stops at every sign of life and listens again, and a store
//! must not be asked for the same watch each time. A watch that is being opened when its listener stops is opened to its end.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::{Error, Result, Runtime};
use tokio::sync::Notify;

use crate::contract::{Told, Watching};
use crate::node::Node;

/// The watch of one ticket.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<Slot>);

#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    /// Rung when a watch was opened, or was not.
    tried: Notify,
}

#[derive(Default)]
struct State {
    /// Nobody listens to it now.
    open: Option<Open>,
    /// How many listen to others.
    listened: usize,
    /// These are about to be watched.
    opening: Option<Vec<Node>>,
    /// These could not be watched when somebody tried last.
    failed: Option<(Vec<Node>, Error)>,
}

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
        let mut state = self.state();
        let open = state.open.take().filter(|open| same(&open.nodes, nodes))?;
        state.listened += 1;
        Some(Listened { watched: self.clone(), open: Some(open) })
    }

    /// Whether somebody listens already. A store may have one near watch for each ticket.
    pub(crate) fn is_listened_to(&self) -> bool {
        self.state().listened > 0
    }

    /// The same, once these nodes are watched. `None`: somebody else listens to that watch, or wants others to be watched.
    pub(crate) async fn open(
        &self,
        nodes: &[Node],
        host: &dyn Runtime,
        watching: impl Future<Output = Result<Watching>> + Send + 'static,
    ) -> Result<Option<Listened>> {
        let mut tried = pin!(self.0.tried.notified());
        tried.as_mut().enable();
        if self.begin(nodes) {
            let (watched, nodes) = (self.clone(), nodes.to_vec());
            host.spawn(Box::pin(async move {
                let outcome = watching.await;
                watched.tried(nodes, outcome);
            }));
        }
        tried.await;
        let listened = self.listen(nodes);
        match self.failure(nodes) {
            Some(error) if listened.is_none() => Err(error),
            _ => Ok(listened),
        }
    }

    /// Whether the caller is to open it, because nobody does.
    fn begin(&self, nodes: &[Node]) -> bool {
        let mut state = self.state();
        if state.opening.as_ref().is_some_and(|opening| same(opening, nodes)) {
            return false;
        }
        state.opening = Some(nodes.to_vec());
        state.failed = None;
        true
    }

    fn tried(&self, nodes: Vec<Node>, outcome: Result<Watching>) {
        let mut state = self.state();
        // Somebody may want to watch others by now.
        if state.opening.as_ref().is_some_and(|opening| same(opening, &nodes)) {
            state.opening = None;
            match outcome {
                Ok(watching) => state.open = Some(Open { nodes, watching }),
                Err(error) => state.failed = Some((nodes, error)),
            }
        }
        drop(state);
        self.0.tried.notify_waiters();
    }

    /// Why these nodes are not watched, if that was tried last.
    fn failure(&self, nodes: &[Node]) -> Option<Error> {
        let state = self.state();
        let (_, error) = state.failed.as_ref().filter(|(failed, _)| same(failed, nodes))?;
        Some(error.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn same(some: &[Node], others: &[Node]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| one.is_as(other))
}

impl Listened {
    /// What happened after this moment is noticed.
    pub(crate) fn at(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.watching.at)
    }

    /// Ready once one of the nodes may be otherwise. Then it is of no more use.
    pub(crate) async fn changed(&mut self) -> Told {
        let told = match &mut self.open {
            Some(open) => open.watching.changed.as_mut().await,
            None => Told::Change,
        };
        self.open = None;
        told
    }
}

impl Drop for Listened {
    fn drop(&mut self) {
        let mut state = self.watched.state();
        state.listened -= 1;
        if let Some(open) = self.open.take() {
            state.open = Some(open);
        }
    }
}
