//! A try to be served by a majority, which leaves nothing behind unless it succeeds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Node, Quorum};
use crate::sweep::Trace;
use crate::{Engine as _, Patience, Place, Result, Ticket};

/// A try that leaves all stores at once unless it succeeds, even if its future is dropped.
pub(super) struct Attempt {
    shared: Arc<Shared>,
    succeeded: bool,
}

struct Shared {
    nodes: Arc<[Node]>,
    ticket: Ticket,
    book: Mutex<Book>,
}

/// What each store has of it. A store that answers after it has failed is left then.
struct Book {
    failed: bool,
    known: Vec<Known>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    NotYet,
    Nothing,
    Something(Trace),
}

impl Attempt {
    pub(super) fn new(quorum: &Quorum, ticket: Ticket) -> Self {
        let nodes = quorum.nodes.clone();
        let book = Mutex::new(Book { failed: false, known: vec![Known::NotYet; nodes.len()] });
        Self { shared: Arc::new(Shared { nodes, ticket, book }), succeeded: false }
    }

    /// What one store is asked, to be carried out to its end.
    pub(super) fn part(
        &self,
        node: usize,
    ) -> impl Future<Output = Result<Option<Place>>> + Send + use<> {
        let mut part = Part { shared: self.shared.clone(), node, trace: Some(Trace::Joining) };
        async move {
            let outcome = part.ask().await;
            part.learn(&outcome);
            outcome
        }
    }

    /// The stores that may still take the ticket in.
    pub(super) fn succeeds(mut self) -> Vec<usize> {
        self.succeeded = true;
        let may_come = |known| matches!(known, Known::NotYet | Known::Something(Trace::Joining));
        let book = self.shared.book();
        let nodes = book.known.iter().enumerate();
        nodes.filter(|(_, known)| may_come(**known)).map(|(node, _)| node).collect()
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.succeeded {
            return;
        }
        let known = {
            let mut book = self.shared.book();
            book.failed = true;
            book.known.clone()
        };
        for (node, known) in known.into_iter().enumerate() {
            if let Known::Something(trace) = known {
                self.shared.leave(node, trace);
            }
        }
    }
}

impl Shared {
    fn leave(&self, node: usize, trace: Trace) {
        self.nodes[node].sweeper.give_back(self.ticket.clone(), trace);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One store's part. It ends with its answer, or when nobody waits for that any more.
struct Part {
    shared: Arc<Shared>,
    node: usize,
    trace: Option<Trace>,
}

impl Part {
    async fn ask(&self) -> Result<Option<Place>> {
        let Shared { nodes, ticket, .. } = &*self.shared;
        nodes[self.node].engine.join(ticket, Patience::NoWait).await
    }

    fn learn(&mut self, outcome: &Result<Option<Place>>) {
        self.trace = match outcome {
            Ok(Some(_)) => Some(Trace::InLine),
            Err(error) if error.is_unknown() => Some(Trace::Joining),
            Ok(None) | Err(_) => None,
        };
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let failed = {
            let mut book = self.shared.book();
            book.known[self.node] = self.trace.map_or(Known::Nothing, Known::Something);
            book.failed
        };
        if let Some(trace) = self.trace.filter(|_| failed) {
            self.shared.leave(self.node, trace);
        }
    }
}
