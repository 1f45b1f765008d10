//! Several stores, and requests to all of them at once.

use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tenure_core::layers::AnyEngine;
use tenure_core::toolbox::Releaser;
use tenure_core::{BoxFuture, Result, Ticket};

use crate::health::QuorumHealth;
use crate::owed_ticket::{OwedTicket, QuorumAttempt};
use crate::poll::Poll;
use crate::stragglers::Stragglers;

/// One store.
pub(crate) struct QuorumNode {
    pub(crate) engine: AnyEngine,
    /// Removes tickets that could not be removed at once.
    pub(crate) releaser: Arc<Releaser>,
}

/// Several stores, with their health.
pub(crate) struct Stores {
    pub(crate) nodes: Vec<Arc<QuorumNode>>,
    pub(crate) health: QuorumHealth,
    stragglers: Arc<Stragglers>,
}

impl Stores {
    pub(crate) fn new(
        engines: impl IntoIterator<Item = AnyEngine>,
        stragglers: &Arc<Stragglers>,
    ) -> Self {
        let node = |engine: AnyEngine| {
            let releaser = Releaser::new(engine.clone(), stragglers.host.clone());
            Arc::new(QuorumNode { engine, releaser })
        };
        let nodes: Vec<_> = engines.into_iter().map(node).collect();
        let health = QuorumHealth::new((1..=nodes.len()).map(|count| format!("store {count}")));
        Self { nodes, health, stragglers: stragglers.clone() }
    }

    /// Number of stores in a majority.
    pub(crate) fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// A ticket that is about to be sent to all stores.
    pub(crate) fn owe(&self, ticket: &Ticket) -> QuorumAttempt {
        self.nodes.iter().map(|node| OwedTicket::new(node, ticket.clone(), None)).collect()
    }

    /// Sends the same request to all stores, until the answers decide.
    pub(crate) async fn ask<T, F>(
        &self,
        decided: impl Fn(&Poll<T>) -> bool,
        request: impl Fn(AnyEngine) -> F,
    ) -> Poll<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.ask_each(decided, self.nodes.iter().map(|node| request(node.engine.clone()))).await
    }

    /// Sends one request to each store, in order. Waits until `decided`, or until every store has
    /// answered or its time is over. The other requests continue in the background.
    pub(crate) async fn ask_each<T, F>(
        &self,
        decided: impl Fn(&Poll<T>) -> bool,
        requests: impl ExactSizeIterator<Item = F>,
    ) -> Poll<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let outcomes = (0..requests.len()).map(|_| None).collect();
        let mut poll = Poll { outcomes, health: self.health.clone() };
        self.stragglers.drive();
        let asked = |(store, request): (usize, F)| -> BoxFuture<(usize, Result<T>)> {
            let (health, limited) = (self.health.clone(), self.stragglers.in_time(request));
            Box::pin(async move {
                let outcome = limited.await;
                health.write(store, outcome.as_ref().err());
                (store, outcome)
            })
        };
        let requests = requests.enumerate().map(asked).collect();
        let mut flight = RequestsInFlight { requests, stragglers: self.stragglers.clone() };
        loop {
            // All requests are sent before an answer counts, and all available answers are read.
            while let Some(Some((store, outcome))) = flight.requests.next().now_or_never() {
                poll.outcomes[store] = Some(outcome);
            }
            if decided(&poll) {
                return poll;
            }
            let Some((store, outcome)) = flight.requests.next().await else { return poll };
            poll.outcomes[store] = Some(outcome);
        }
    }
}

/// The requests of one poll. Those in flight when it is dropped continue with the stragglers.
struct RequestsInFlight<T: Send + 'static> {
    requests: FuturesUnordered<BoxFuture<(usize, Result<T>)>>,
    stragglers: Arc<Stragglers>,
}

impl<T: Send + 'static> Drop for RequestsInFlight<T> {
    fn drop(&mut self) {
        let mut requests = std::mem::take(&mut self.requests);
        if !requests.is_empty() {
            self.stragglers.add(Box::pin(async move { while requests.next().await.is_some() {} }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use tenure_core::blocking::block_on;
    use tenure_core::{BackgroundRuntime, Memory, Runtime};

    use super::*;

    #[test]
    fn a_store_that_answers_late_is_shown_as_silent() {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_timers());
        let stragglers = Stragglers::new(host, Duration::from_millis(50));
        let stores = Stores::new([0, 1].map(|_| AnyEngine::new(Memory::new())), &stragglers);
        let (answers, silent) = (ready(Ok(())).left_future(), pending().right_future());
        // The first answer decides, so the second request becomes a straggler.
        let decided = |poll: &Poll<()>| poll.answers().count() == 1;
        block_on(async {
            stores.ask_each(decided, [answers, silent].into_iter()).await;
            stragglers.flush().await;
        });
        let shown = stores.health.to_string();
        assert_eq!(shown, "store 1: answers\nstore 2: no answer within 50ms");
    }
}
