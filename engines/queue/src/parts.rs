//! Parts of a client that its tasks share with it: the store, its tickets, and the wake-ups.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{self, StreamExt as _};
use tenure_core::wake::WakeRegistry;
use tenure_core::{Backoff, Result, Runtime, spawn_cancellable};
use tokio::sync::oneshot;

use crate::contract::{Remove, SessionStore, Sought};
use crate::counting::SequenceCallers;
use crate::node::Node;
use crate::own_ticket::OwnTicket;
use crate::own_tickets::OwnTickets;
use crate::session::Session;

/// Backoff between tries of a verb that lost to other clients.
pub(crate) const RETRY: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(32));

/// Maximum tickets removed at a time.
const SWEPT_AT_ONCE: usize = 16;

/// The part of a client that its tasks share.
pub(crate) struct Parts<S> {
    pub(crate) store: Arc<S>,
    pub(crate) host: Arc<dyn Runtime>,
    pub(crate) own: OwnTickets,
    pub(crate) bells: WakeRegistry,
    pub(crate) counting: SequenceCallers,
    /// Maximum time of a verb.
    pub(crate) answers_within: Duration,
    /// Overdue tickets are being removed.
    sweeping: AtomicBool,
    /// The client is reading its orphans.
    seeking: AtomicBool,
}

impl<S: SessionStore> Parts<S> {
    pub(crate) fn new(store: S, host: Arc<dyn Runtime>) -> Self {
        let answers_within = store.profile().answers_within;
        let store = Arc::new(store);
        let forgets = store.clone();
        let own = OwnTickets::new(move |id| forgets.forget(id));
        let (bells, counting, sweeping, seeking) = Default::default();
        Self { store, host, own, bells, counting, answers_within, sweeping, seeking }
    }

    /// Runs this on the runtime until no caller waits for it. Several callers may wait, and each
    /// may stop polling in the middle.
    pub(crate) async fn errand<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        spawn_cancellable(&*self.host, work).await.unwrap_or_else(|| Err(self.store.silence()))
    }

    /// Runs this on the runtime to its end, also if the caller gives up.
    pub(crate) async fn outlives_caller<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        self.host.spawn(Box::pin(async move {
            // The caller may have gone.
            let _ = sender.send(work.await);
        }));
        receiver.await.unwrap_or_else(|_| Err(self.store.silence()))
    }

    /// Waits before a verb that lost to other clients is tried again.
    pub(crate) async fn pause(&self, backoff: &mut Backoff) {
        self.host.sleep(backoff.next(self.host.random())).await;
    }

    /// Sets one time limit for a whole verb, at any count of requests. The verb is boxed: a
    /// function that takes a future by value grows by its size, and the functions between here and
    /// the caller would multiply it.
    pub(crate) fn in_time<'a, T: 'a>(
        &'a self,
        verb: impl Future<Output = Result<T>> + Send + 'a,
    ) -> impl Future<Output = Result<T>> + Send + 'a {
        let verb = Box::pin(verb);
        async move {
            match select(verb, self.host.sleep(self.answers_within)).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => Err(self.store.silence()),
            }
        }
    }

    /// Runs between two signs of life of a session. Notifies its tickets when it is over. Removes
    /// tickets that their owners gave up, and tickets that were asked to leave and did not. Asks
    /// tickets of the session to leave that this client does not know.
    pub(crate) fn beat(self: &Arc<Self>, session: &Arc<Session>) {
        let now = self.host.now();
        if session.is_over(now) {
            for id in self.own.of_session(session.id) {
                self.bells.notify(id);
            }
            self.own.forget_overdue(session.id, now);
            return;
        }
        if session.has_signed() && !self.seeking.swap(true, Ordering::AcqRel) {
            let (parts, session) = (self.clone(), session.clone());
            self.host.spawn(Box::pin(async move {
                if let Err(error) = parts.in_time(parts.ask_orphans_to_leave(&session)).await {
                    tracing::debug!(%error, "cannot read the tickets of a session: retrying after its next sign of life");
                }
                parts.seeking.store(false, Ordering::Release);
            }));
        }
        let overstayed = self.own.overstayed(session.id, now);
        if overstayed.is_empty() || self.sweeping.swap(true, Ordering::AcqRel) {
            return;
        }
        for mine in &overstayed {
            self.bells.notify(mine.name.id);
        }
        let parts = self.clone();
        self.host.spawn(Box::pin(async move {
            let all = stream::iter(overstayed);
            all.for_each_concurrent(SWEPT_AT_ONCE, |mine| parts.take_out(mine)).await;
            parts.sweeping.store(false, Ordering::Release);
        }));
    }

    /// Asks the tickets of a session to leave that this client does not know. A join that was
    /// delivered twice brought them back after they had left. They are not taken out at once: a
    /// copy of this process may have the same session, and hold one of them. The copy is asked to
    /// leave like any other holder, and has a ttl to stop.
    async fn ask_orphans_to_leave(&self, session: &Arc<Session>) -> Result<()> {
        for node in self.store.orphans(session.id).await? {
            if self.own.knows(node.name.id, self.host.now()) {
                continue;
            }
            // The list may be outdated: this client may have taken the node out since, and only
            // then forgotten it.
            let node = if node.told {
                self.reread(&node).await?
            } else {
                self.ask_to_leave(&node).await?
            };
            // A node that was changed meanwhile is asked to leave after the next sign of life.
            if let Some(node) = node {
                self.own.adopt(&node, session, self.host.now());
            }
        }
        Ok(())
    }

    /// Returns the node as it is now, if it was not taken out or made again.
    async fn reread(&self, node: &Node) -> Result<Option<Node>> {
        let (mut nodes, _) = self.store.look(&[Sought::Seen(node)]).await?;
        Ok(nodes.pop().flatten().filter(|now| now.created == node.created))
    }

    /// Asks the owner of a node to leave. Returns `None` if the node was changed meanwhile.
    pub(crate) async fn ask_to_leave(&self, node: &Node) -> Result<Option<Node>> {
        self.store.change(node, &Node::body(&node.ticket, node.base, true)).await
    }

    /// Removes a ticket that is given up, or must not stay. If the store does not answer, a later
    /// call does it.
    async fn take_out(&self, mine: OwnTicket) {
        let (id, now) = (mine.name.id, self.host.now());
        if mine.session.is_over(now) {
            return;
        }
        // Its owner may have given a sign of life meanwhile.
        let Some(mine) = self.own.condemn(id, now) else { return };
        let late = self.host.sleep(self.answers_within);
        if let Either::Left((Ok(()), _)) = select(pin!(self.remove(mine)), late).await {
            self.own.forget_condemned(id);
        }
        self.bells.notify(id);
    }

    /// Removes a ticket. One whose join was not answered is never let in.
    pub(crate) async fn remove(&self, mine: OwnTicket) -> Result<()> {
        let (id, is_condemned) = (mine.name.id, mine.is_condemned());
        let node = match mine.seen {
            Some(seen) => Some(seen.node),
            None => self.store.fence_out(&mine.name, mine.session.id).await?,
        };
        // It may have been removed and let in again meanwhile. Then it is not the condemned ticket.
        if let Some(node) = node.filter(|_| !is_condemned || self.own.is_condemned(id)) {
            self.store.remove(&Remove::just(&node)).await?;
        }
        Ok(())
    }
}
