//! A try to be served by a majority, which leaves nothing behind unless it succeeds.

use super::Quorum;
use super::poll::Poll;
use crate::sweep::Trace;
use crate::{Place, Result, Ticket};

/// A try that leaves all stores at once unless it succeeds, even if its future is dropped.
pub(super) struct Attempt<'a> {
    quorum: &'a Quorum,
    ticket: &'a Ticket,
    /// What each store may have of it.
    traces: Vec<Option<Trace>>,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(quorum: &'a Quorum, ticket: &'a Ticket) -> Self {
        Self { quorum, ticket, traces: vec![Some(Trace::Joining); quorum.nodes.len()] }
    }

    /// What the stores answered.
    pub(super) fn learn(&mut self, poll: &Poll<Option<Place>>) {
        let trace = |outcome: Option<&Result<Option<Place>>>| match outcome {
            Some(Ok(Some(_))) => Some(Trace::InLine),
            Some(Ok(None)) => None,
            Some(Err(error)) if !error.is_unknown() => None,
            Some(Err(_)) | None => Some(Trace::Joining),
        };
        self.traces = poll.outcomes().map(trace).collect();
    }

    /// The stores that may still take the ticket in.
    pub(super) fn succeeds(mut self) -> Vec<usize> {
        let late = |(node, trace)| (trace == Some(Trace::Joining)).then_some(node);
        std::mem::take(&mut self.traces).into_iter().enumerate().filter_map(late).collect()
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        for (node, trace) in self.quorum.nodes.iter().zip(&self.traces) {
            if let Some(trace) = trace {
                node.sweeper.give_back(self.ticket.clone(), *trace);
            }
        }
    }
}
