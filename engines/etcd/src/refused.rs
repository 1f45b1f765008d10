//! Requests that a member carries out and refuses all the same.
//!
//! A full member takes no request that puts a key. It checks its space twice: before a request goes
//! into the log, and again when it is carried out. A request that does not fit any more the second
//! time is done by then, and is refused nevertheless.

use tenure_core::{Error, ErrorKind, Result};
use tenure_queue::{Remove, Removed, SessionStore as _, Sought, TicketName};

use crate::client::Etcd;
use crate::entry;

impl Etcd {
    /// Returns whether a ticket whose join failed in this way is certainly not in its line. Removes
    /// it if it was let in and refused.
    pub(crate) async fn is_out_for(&self, name: &TicketName, error: &Error) -> bool {
        if error.kind() != ErrorKind::Rejected {
            return !error.is_retryable();
        }
        match self.look(&[Sought::Own(name)]).await {
            Ok((nodes, _)) => match nodes.into_iter().flatten().next() {
                Some(node) => self.remove_only(&Remove::just(&node)).await.is_ok(),
                None => true,
            },
            // A user without the right to read has no right to write.
            Err(error) => !error.is_retryable(),
        }
    }

    /// Removes a ticket with a request that puts nothing, after another one was refused. It raises
    /// no fence: a join that is still on its way may succeed once there is room again. The README
    /// says so.
    pub(crate) async fn remove_only(&self, remove: &Remove<'_>) -> Result<Removed> {
        let answer = self.cluster.txn(entry::remove_only(&self.keys, remove)).await?;
        let mut removed = entry::removed(&self.keys, answer);
        if !removed.gone {
            let (nodes, _) = self.look(&[Sought::Seen(remove.node)]).await?;
            let is_same = |node: tenure_queue::Node| node.created == remove.node.created;
            // The first request has removed it, or another client has: it is out either way.
            removed.gone = !nodes.into_iter().flatten().any(is_same);
        }
        Ok(removed)
    }
}
