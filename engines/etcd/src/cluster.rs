//! Requests to a cluster, and the check for revisions that go back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use prost::Message;
use tenure_core::{Error, Result};
use tenure_kit::{Connection, Disconnected, Link, LinkPool, ServerClient};
use tokio::time::timeout;

use crate::calls::unary;
use crate::link::{self, MemberConnection, Members};
use crate::names::answered_at;
use crate::settings::Settings;
use crate::status::{STRANGE, Status};
use crate::wire::{
    LeaseGrantResponse, LeaseRevokeResponse, LeaseTimeToLiveResponse, RangeRequest, RangeResponse,
    TxnRequest, TxnResponse,
};
use crate::{ask, trouble};

const TXN: &str = "/etcdserverpb.KV/Txn";

/// A cluster, as one client uses it.
pub(crate) struct EtcdCluster {
    /// The connection for keep-alives and watches.
    pub(crate) link: Arc<Link<Members>>,
    /// The connections for requests: that of the caller's own runtime, once it has one.
    home: LinkPool<Members>,
    /// The largest revision in an answer.
    seen: AtomicU64,
    rewound: AtomicBool,
}

impl EtcdCluster {
    pub(crate) fn of(settings: Settings) -> Arc<Self> {
        let link = Link::kept(ServerClient::new(Members::of(settings)));
        let home = LinkPool::new(link.clone());
        let (seen, rewound) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { link, home, seen, rewound })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.link.server().settings
    }

    /// Returns the error for a cluster that does not answer in time.
    pub(crate) fn silence(&self) -> Error {
        trouble::silence(self.settings())
    }

    /// Returns the error for an answer that no member of etcd gives.
    pub(crate) fn strange(&self) -> Error {
        trouble::error(self.settings(), &Status::unavailable(STRANGE))
    }

    /// Returns whether the caller reaches a member without a detour through another thread.
    pub(crate) fn has_link_here(&self) -> bool {
        self.home.has_link_here()
    }

    /// Sends one request and returns its answer, or an error at the time limit. Ends a connection
    /// without any answer meanwhile.
    pub(crate) async fn ask<Q, A>(&self, path: &'static str, request: Q) -> Result<A>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + RevisionedAnswer + Send + Sync + 'static,
    {
        let link = self.home.link();
        let connection = link.connection().await?;
        let (heard, seen) =
            (connection.heard.load(Ordering::Relaxed), self.seen.load(Ordering::Acquire));
        let asking = async {
            let lost = |_: Disconnected| Status::ended(String::new());
            let _room = link.room(&connection).await.map_err(lost)?;
            unary(&connection.wire, path, request).await
        };
        if let Ok(answer) = timeout(self.settings().timeout, asking).await {
            connection.heard.fetch_add(1, Ordering::Relaxed);
            let answer: A = answer.map_err(|status| link::failed(&link, &connection, &status))?;
            self.refuse_past(seen, &answer)?;
            return Ok(answer);
        }
        let is_mute = connection.heard.load(Ordering::Relaxed) == heard;
        if is_mute && link::leave(&link, &connection) {
            link::doubt(&self.link, &connection);
        }
        Err(self.silence())
    }

    /// Returns the error for a member's status on the connection of the engine's own runtime.
    pub(crate) fn failed(
        &self,
        connection: &Connection<MemberConnection>,
        status: &Status,
    ) -> Error {
        link::failed(&self.link, connection, status)
    }

    /// Refuses an answer whose revision goes back: a snapshot was restored, and would give numbers
    /// again.
    fn refuse_past(&self, seen: u64, answer: &impl RevisionedAnswer) -> Result<()> {
        let Some(now) = answer.revision() else { return Ok(()) };
        if now == 0 {
            return Err(self.strange());
        }
        self.seen.fetch_max(now, Ordering::AcqRel);
        if now < seen {
            self.rewound.store(true, Ordering::Release);
        }
        if self.rewound.load(Ordering::Acquire) {
            return Err(Error::rejected(format!(
                "{} went back to an older revision: a snapshot was restored, and its numbers would be given again. Restore it with --bump-revision and --mark-compacted, and start this program anew",
                self.settings().whom()
            )));
        }
        Ok(())
    }

    pub(crate) async fn range(&self, range: RangeRequest) -> Result<(RangeResponse, u64)> {
        let answer: RangeResponse = self.ask(ask::RANGE, range).await?;
        let at = answered_at(answer.header);
        Ok((answer, at))
    }

    pub(crate) async fn txn(&self, txn: TxnRequest) -> Result<TxnResponse> {
        self.ask(TXN, txn).await
    }
}

/// An answer with its revision, if that is never before an earlier answer's. A store of etcd begins
/// at revision 1: an answer of revision 0 is no member's.
pub(crate) trait RevisionedAnswer {
    fn revision(&self) -> Option<u64>;
}

macro_rules! answers {
    ($($answer:ty)*) => {
        $(impl RevisionedAnswer for $answer {
            fn revision(&self) -> Option<u64> {
                Some(answered_at(self.header))
            }
        })*
    };
}

answers! { RangeResponse TxnResponse LeaseGrantResponse LeaseRevokeResponse }

/// A member asks its leader for the life of a lease, and adds its own revision. That may be behind
/// another member's answer.
impl RevisionedAnswer for LeaseTimeToLiveResponse {
    fn revision(&self) -> Option<u64> {
        None
    }
}
