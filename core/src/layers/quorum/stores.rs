//! The stores of a quorum.

use std::sync::Arc;

use super::board::QuorumHealth;
use super::node::Node;
use super::owed::PendingTicket;
use super::poll::Poll;
use super::rest::Stragglers;
use crate::layers::AnyEngine;
use crate::{Result, Runtime, Ticket};

/// Several stores, with their health.
pub(super) struct Stores {
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) board: QuorumHealth,
    rest: Arc<Stragglers>,
}

impl Stores {
    pub(super) fn new(
        engines: impl IntoIterator<Item = AnyEngine>,
        host: &Arc<dyn Runtime>,
        rest: &Arc<Stragglers>,
    ) -> Self {
        let nodes: Vec<_> =
            engines.into_iter().map(|engine| Arc::new(Node::new(engine, host))).collect();
        let board = QuorumHealth::new((1..=nodes.len()).map(|count| format!("store {count}")));
        Self { nodes, board, rest: rest.clone() }
    }

    /// Number of stores in a majority.
    pub(super) fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// A ticket that is about to be sent to all stores.
    pub(super) fn owe(&self, ticket: &Ticket) -> Arc<[Arc<PendingTicket>]> {
        self.nodes.iter().map(|node| PendingTicket::new(node, ticket.clone())).collect()
    }

    /// Sends the same request to all stores, until the answers decide.
    pub(super) async fn ask<T, F>(
        &self,
        decided: impl Fn(&Poll<T>) -> bool,
        verb: impl Fn(AnyEngine) -> F,
    ) -> Poll<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.carry(decided, self.nodes.iter().map(|node| verb(node.engine.clone()))).await
    }

    /// The same with one request for each store, in order.
    pub(super) async fn carry<T, F>(
        &self,
        decided: impl Fn(&Poll<T>) -> bool,
        verbs: impl ExactSizeIterator<Item = F>,
    ) -> Poll<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        Poll::of(verbs, &self.board, &self.rest, decided).await
    }
}
