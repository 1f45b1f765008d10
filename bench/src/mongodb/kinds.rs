//! The contenders on MongoDB.

use std::sync::Arc;
use std::time::Duration;

use super::POLL_MS;
use super::floor::{Floor, Hop};
use super::peers::{DistributedLock, Polling};
use crate::contest::elsewhere::{Elsewhere, Python, Runs};
use crate::contest::field::Field;
use crate::contest::handover::Notified;
use crate::contest::kind::Kind;
use crate::contest::ours::Tenure;

/// Two bare `findOneAndUpdate` by id, with the journal of a majority.
const FLOOR: Kind = Kind::notified("mongodb floor", "the floor", |urls, _| {
    Box::pin(async move { Arc::new(Floor::connect(&urls[0]).await) as _ })
});
/// An update that a change stream reports.
const HOP: Kind =
    Kind::notified("mongodb hop", "a bare update to its change stream", |urls, side| {
        Box::pin(async move { Arc::new(Hop::connect(&urls[0], side).await) as _ })
    });
pub(super) const OURS: Kind = Kind::notified("mongodb tenure", "`tenure`", |urls, _| {
    Box::pin(async move { Arc::new(Tenure(tenure_mongodb::connect(&urls[0]).await.unwrap())) as _ })
});
pub(super) const DISTRIBUTED_LOCK: Kind =
    Kind::notified("mongodb distributed-lock", "`distributed-lock`", |urls, _| {
        Box::pin(async move { Arc::new(DistributedLock::connect(&urls[0]).await) as _ })
    })
    .polling(POLL_MS);
pub(super) const POLLING: Kind =
    Kind::notified("mongodb polling", "a lock that polls every 10 ms", |urls, _| {
        Box::pin(async move { Arc::new(Polling::connect(&urls[0]).await) as _ })
    })
    .polling(POLL_MS);

pub(crate) const KINDS: &[Kind] = &[FLOOR, HOP, OURS, DISTRIBUTED_LOCK, POLLING];

pub(super) const FIELD: Field = Field {
    floor: FLOOR,
    ours: OURS,
    peers: &[DISTRIBUTED_LOCK, POLLING],
    elsewhere: PYTHON,
    round: Duration::from_millis(100),
    wanted: "≥ 0.85",
    tasks: 32,
    tasks_wanted: "≥ 0.8",
};

pub(super) const NOTIFIED: Notified = Notified { floors: &[HOP], ours: OURS, wanted: "≤ 2 ×" };

const PYTHON: &[Elsewhere] = &[Elsewhere {
    title: "the floor's commands by pymongo",
    runs: Runs::Python(Python {
        package: "pymongo",
        version: "4.15.3",
        module: "pymongo",
        script: include_str!("../../peers/mongodb_peer.py"),
    }),
    poll: Duration::ZERO,
}];
