//! Orphans: tickets of a session that its client does not know. A join that is delivered a second
//! time, after its ticket has left, makes the ticket again. It then lives on with the session.

use tenure_core::Result;
use tenure_queue::{Node, SessionId};

use crate::client::Etcd;
use crate::wire::{LeaseTimeToLiveRequest, LeaseTimeToLiveResponse};

const TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
/// Maximum tickets of a session for a search of orphans: one message names all keys of a lease.
const LISTED_MAX: usize = 16_384;

impl Etcd {
    /// Returns the remaining life of a lease, and its keys if `keys` is set.
    pub(crate) async fn lease(
        &self,
        session: SessionId,
        keys: bool,
    ) -> Result<LeaseTimeToLiveResponse> {
        let request = LeaseTimeToLiveRequest { id: session.cast_signed(), keys };
        self.cluster.ask(TIME_TO_LIVE, request).await
    }

    pub(crate) async fn orphans_of(&self, session: SessionId) -> Result<Vec<Node>> {
        if self.ordinals.taken(session).len() > LISTED_MAX {
            return Ok(Vec::new());
        }
        let kept = self.lease(session, true).await?.keys;
        // An ordinal is taken before the join is sent, so a join in flight is not strange.
        let taken = self.ordinals.taken(session);
        let is_strange = |key: &Vec<u8>| {
            self.keys
                .place_of(key)
                .is_some_and(|(line, _, ordinal)| !taken.contains(&(line, ordinal)))
        };
        let (ranges, _) = self.gets(kept.into_iter().filter(is_strange)).await?;
        let nodes = ranges.iter().filter_map(|range| self.keys.node(range.kvs.first()?));
        // The ticket may have left since, and another one of this client may have its key.
        let is_orphan =
            |node: &Node| node.session == session && self.ordinals.of(node.name.id).is_none();
        Ok(nodes.filter(is_orphan).collect())
    }
}
