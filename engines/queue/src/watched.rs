//! The watch of a ticket, kept between two calls. A caller stops at every sign of life and
//! subscribes again, and the store must not get the same request each time. The opening of a watch
//! goes on if its caller stops.

use std::pin::pin;
use std::sync::{Arc, MutexGuard};

use tenure_core::sync::Mutex;
use tenure_core::{Error, Result, Runtime};
use tokio::sync::Notify;

use crate::contract::{Hint, Watching};
use crate::node::Node;

/// The watch of one ticket.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<Slot>);

#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    /// Notified when a watch was opened, or failed.
    tried: Notify,
}

#[derive(Default)]
struct State {
    /// A watch without a listener.
    open: Option<Open>,
    /// The nodes of the watch that is being opened.
    opening: Option<Vec<Node>>,
    /// The nodes of the last watch that failed, and why.
    failed: Option<(Vec<Node>, Error)>,
}

struct Open {
    nodes: Vec<Node>,
    watching: Watching,
}

/// A watch with a listener. When it is dropped, the watch is kept again, unless it has reported a
/// change.
pub(crate) struct Listened {
    watched: Watched,
    open: Option<Open>,
}

impl Watched {
    /// Returns the open watch, if it is of these nodes: they are unchanged since it was opened, or
    /// it reports a change at once. Drops another one.
    pub(crate) fn listen(&self, nodes: &[Node]) -> Option<Listened> {
        let mut state = self.state();
        let open = state.open.take().filter(|open| same(&open.nodes, nodes))?;
        Some(Listened { watched: self.clone(), open: Some(open) })
    }

    /// The same, once these nodes are watched. Returns `None` if another caller listens to that
    /// watch, or wants other nodes to be watched.
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

    /// Returns whether the caller has to open it, because no other caller does.
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
        // Another caller may want to watch other nodes by now.
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

    /// Returns the error of the last attempt to watch these nodes.
    fn failure(&self, nodes: &[Node]) -> Option<Error> {
        let state = self.state();
        let (_, error) = state.failed.as_ref().filter(|(failed, _)| same(failed, nodes))?;
        Some(error.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

fn same(some: &[Node], others: &[Node]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| one.is_as(other))
}

impl Listened {
    /// The watch reports changes after this moment.
    pub(crate) fn at(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.watching.at)
    }

    /// Ready once one of the nodes may have changed. The watch is used up then.
    pub(crate) async fn changed(&mut self) -> Hint {
        let hint = match &mut self.open {
            Some(open) => open.watching.changed.as_mut().await,
            None => Hint::Changed,
        };
        self.open = None;
        hint
    }
}

impl Drop for Listened {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            self.watched.state().open = Some(open);
        }
    }
}
