//! One client of a cluster: its sessions and listings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Error, Guarantees, Result};
use tenure_kit::Link;
use tokio::time::sleep;

use crate::cluster::EtcdCluster;
use crate::link::Members;
use crate::names::{KeyNames, Span};
use crate::ordinals::Ordinals;
use crate::request_fences::RequestFences;
use crate::settings::Settings;
use crate::wire::{
    KeyValue, LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    RangeRequest,
};
use crate::{ask, facts};

const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";

/// Interval of requests to members without a leader.
const ELECTION_PAUSE: Duration = Duration::from_millis(250);
/// Count of tickets in one page of a listing. The largest ones, with their names, are 6 KiB each.
pub(crate) const PAGE: usize = 512;

/// One client of a cluster of etcd.
pub struct Etcd {
    pub(crate) cluster: Arc<EtcdCluster>,
    pub(crate) keys: KeyNames,
    pub(crate) profile: Guarantees,
    pub(crate) ordinals: Ordinals,
    pub(crate) fences: RequestFences,
}

impl Etcd {
    pub(crate) async fn open(settings: Settings) -> Result<Self> {
        settings.check()?;
        let keys = KeyNames::of(&settings.prefix);
        let cluster = EtcdCluster::of(settings.clone());
        let connection = patiently(&cluster.link, || cluster.link.connection()).await?;
        let version = connection.version.clone();
        let profile = facts::profile(&settings, version.as_deref());
        let (ordinals, fences) = Default::default();
        let etcd = Self { cluster, keys, profile, ordinals, fences };
        let link = &etcd.cluster.link;
        link.server().refuse_others().await?;
        // A user without rights is refused now, and not at the first lock.
        patiently(link, || etcd.now_at()).await?;
        Ok(etcd)
    }

    /// Returns the current revision.
    pub(crate) async fn now_at(&self) -> Result<u64> {
        // Only the revision counts.
        let (_, at) = self.cluster.range(ask::get(self.keys.broken())).await?;
        Ok(at)
    }

    /// Requests a lease for a session. One whose grant is not answered has no keys, and ends by
    /// itself.
    pub(crate) async fn grant(&self, ttl: Duration) -> Result<LeaseGrantResponse> {
        let ttl = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX).max(1);
        let granted: LeaseGrantResponse =
            self.cluster.ask(GRANT, LeaseGrantRequest { ttl }).await?;
        if granted.ttl <= 0 {
            let whom = self.cluster.settings().whom();
            return Err(Error::rejected(format!("{whom} granted no lease")));
        }
        Ok(granted)
    }

    /// Ends a lease, if it exists.
    pub(crate) async fn revoke(&self, id: i64) -> Result<()> {
        match self.cluster.ask::<_, LeaseRevokeResponse>(REVOKE, LeaseRevokeRequest { id }).await {
            Err(error) if error.loss().is_none() => Err(error),
            _ => Ok(()),
        }
    }

    /// Lists a span at one revision, a page at a time.
    pub(crate) async fn list(
        &self,
        mut span: Span,
        mut each: impl FnMut(&KeyValue) + Send,
    ) -> Result<u64> {
        let mut at = 0;
        loop {
            let (key, range_end) = (span.from.clone(), span.end.clone());
            let (limit, revision) = (i64::try_from(PAGE).unwrap_or(0), crate::names::number(at));
            let range = RangeRequest { key, range_end, limit, revision, ..Default::default() };
            let (page, now) = self.cluster.range(range).await?;
            if at == 0 {
                at = now;
            }
            page.kvs.iter().for_each(&mut each);
            match page.kvs.last() {
                Some(last) if page.more => span.from = [&last.key[..], &[0]].concat(),
                _ => return Ok(at),
            }
        }
    }
}

/// Retries while a cluster that can be reached is choosing its leader, for as long as a verb may
/// take.
async fn patiently<T, F>(link: &Link<Members>, ask: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let (members, began) = (link.server(), Instant::now());
    loop {
        let answer = ask().await;
        let is_choosing = answer.as_ref().is_err_and(Error::is_retryable) && members.is_met();
        if !is_choosing || began.elapsed() >= members.settings.answers_within() {
            return answer;
        }
        sleep(ELECTION_PAUSE).await;
    }
}
