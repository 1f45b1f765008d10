//! The contenders on etcd.

use std::sync::Arc;
use std::time::Duration;

use super::floor::{Baton, Floor, Hop, member};
use super::peers::{Etcdctl, Service};
use crate::contest::field::Field;
use crate::contest::handover::Notified;
use crate::contest::kind::Kind;
use crate::contest::ours::Tenure;

/// A transaction that puts a key under a lease which is kept alive, and one that deletes it.
const FLOOR: Kind = Kind::notified("etcd floor", "the floor", |urls, _| {
    Box::pin(async move { Arc::new(Floor::connect(&urls[0]).await) as _ })
});
/// A put that a watch reports.
const HOP: Kind = Kind::notified("etcd hop", "a bare put to its watch", |urls, side| {
    Box::pin(async move { Arc::new(Hop::connect(&urls[0], side).await) as _ })
});
/// Both transactions for each turn on one key.
pub(super) const BATON: Kind =
    Kind::notified("etcd baton", "a bare put and delete for each, the floor", |urls, _| {
        Box::pin(async move { Arc::new(Baton::connect(&urls[0]).await) as _ })
    });
/// Connects to the same member as the others: a request to a follower takes a longer way.
pub(super) const OURS: Kind = Kind::notified("etcd tenure", "`tenure`", |urls, _| {
    Box::pin(async move {
        let url = format!("etcd://{}", member(&urls[0]));
        Arc::new(Tenure(tenure_etcd::connect(url).await.unwrap())) as _
    })
});
pub(super) const SERVICE: Kind =
    Kind::notified("etcd service", "etcd's lock service", |urls, _| {
        Box::pin(async move { Arc::new(Service::connect(&urls[0]).await) as _ })
    });
pub(super) const ETCDCTL: Kind = Kind::notified("etcdctl", "`etcdctl lock`", |urls, _| {
    Box::pin(async move { Arc::new(Etcdctl::new(&urls[0])) as _ })
});

pub(crate) const KINDS: &[Kind] = &[FLOOR, HOP, BATON, OURS, SERVICE, ETCDCTL];

pub(super) const FIELD: Field = Field {
    floor: FLOOR,
    ours: OURS,
    peers: &[SERVICE],
    elsewhere: &[],
    round: Duration::from_millis(100),
    wanted: "≥ 0.85",
    tasks: 32,
    tasks_wanted: "–",
};

pub(super) const NOTIFIED: Notified = Notified { floors: &[HOP], ours: OURS, wanted: "≤ 1.5 ×" };
