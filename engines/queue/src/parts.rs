//! What the tasks of a client have of it, too: the store, its tickets, and who listens.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use tenure_core::Host;
use tenure_core::bell::Bells;

use crate::contract::{Remove, Store, Why};
use crate::own::Own;
use crate::session::Session;

/// What its tasks have of a client, too.
pub(crate) struct Parts<S> {
    pub(crate) store: Arc<S>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) own: Own,
    pub(crate) bells: Bells,
}

impl<S> Parts<S> {
    pub(crate) fn new(store: S, host: Arc<dyn Host>) -> Self {
        let (own, bells) = (Own::default(), Bells::default());
        Self { store: Arc::new(store), host, own, bells }
    }
}

impl<S: Store> Parts<S> {
    /// Between two signs of life of a session: its tickets are told when it is over, and those are taken out whose owners have
    /// given them up, or were told to leave and did not.
    pub(crate) fn beat(self: &Arc<Self>, session: &Session) {
        let now = self.host.now();
        if session.is_over(now) {
            for id in self.own.of_session(session.id) {
                self.bells.ring(id);
            }
            return;
        }
        for node in self.own.overstayed(session.id, now) {
            let parts = self.clone();
            self.host.spawn(Box::pin(async move {
                let remove = Remove { node: &node, provided: &[], why: Why::Left, front: None };
                let late = parts.host.sleep(parts.store.profile().answers_within);
                let removing = pin!(parts.store.remove(&remove));
                if let Either::Left((Ok(_), _)) = select(removing, late).await {
                    parts.own.forget(node.name.id);
                }
                parts.bells.ring(node.name.id);
            }));
        }
    }
}
