//! A try to be served by a majority, which leaves nothing behind unless it succeeds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::book::{Known, Stage};
use super::poll::Poll;
use super::{Node, Quorum, held};
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
    stores: Vec<Has>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    NotYet,
    Nothing,
    Something(Trace),
}

impl Quorum {
    /// One try: a majority serves the ticket at once, or it leaves them all. `None`: busy.
    pub(super) async fn try_join(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let id = self.next_attempt(ticket.id);
        let floor = ticket.floor.max(self.numbers.proposal(&*self.host));
        let asked = Ticket { id, floor, ..ticket.clone() };
        let attempt = Attempt::new(self, asked.clone());
        let majority = self.majority();
        let decided = |poll: &Poll<Option<Place>>| {
            let granted = poll.answers().flatten().count();
            let refused = poll.answers().count() - granted;
            granted >= majority || refused > self.nodes.len() - majority
        };
        let poll = self.ask(decided, |node, _| attempt.part(node)).await;
        let granted: Vec<&Place> = poll.answers().flatten().collect();
        if granted.len() < majority {
            return self.verdict_on_refusal(&poll);
        }
        let number = granted.iter().map(|place| place.number).max().unwrap_or(0);
        let life = granted.iter().filter_map(|place| place.life).min();
        if granted.iter().filter(|place| place.number == number).count() < majority {
            self.write_back(&asked, number).await?;
        }
        self.numbers.learn(&*self.host, &asked, number);
        // Where its owner has left meanwhile, or another try came first, this one leaves again.
        let mut tickets = self.tickets();
        let Some(Known { stage: stage @ Stage::Trying(_), .. }) = tickets.get_mut(&ticket.id)
        else {
            drop(tickets);
            return Ok(None);
        };
        *stage = Stage::Holding { attempt: id, number, late: attempt.succeeds() };
        Ok(Some(held(number, life)))
    }

    /// A majority must know the number before it is used.
    async fn write_back(&self, ticket: &Ticket, number: u64) -> Result<()> {
        let poll = self.renew_everywhere(Ticket { floor: number, ..ticket.clone() }).await;
        if poll.answers().flatten().count() >= self.majority() {
            return Ok(());
        }
        Err(poll.too_few("took down the number", self.majority()))
    }

    fn verdict_on_refusal(&self, poll: &Poll<Option<Place>>) -> Result<Option<Place>> {
        if let Some(error) = poll.refusals().next() {
            return Err(error.clone());
        }
        poll.enough_answers(self.majority()).map(|_| None)
    }
}

impl Attempt {
    pub(super) fn new(quorum: &Quorum, ticket: Ticket) -> Self {
        let nodes = quorum.nodes.clone();
        let book = Mutex::new(Book { failed: false, stores: vec![Has::NotYet; nodes.len()] });
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
        let may_come = |has| matches!(has, Has::NotYet | Has::Something(Trace::Joining));
        let book = self.shared.book();
        let nodes = book.stores.iter().enumerate();
        nodes.filter(|(_, has)| may_come(**has)).map(|(node, _)| node).collect()
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.succeeded {
            return;
        }
        let stores = {
            let mut book = self.shared.book();
            book.failed = true;
            book.stores.clone()
        };
        for (node, has) in stores.into_iter().enumerate() {
            if let Has::Something(trace) = has {
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
            book.stores[self.node] = self.trace.map_or(Has::Nothing, Has::Something);
            book.failed
        };
        if let Some(trace) = self.trace.filter(|_| failed) {
            self.shared.leave(self.node, trace);
        }
    }
}
