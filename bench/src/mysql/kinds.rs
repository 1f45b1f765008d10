//! The contenders on MariaDB.

use std::sync::Arc;
use std::time::Duration;

use super::POLL_MS;
use super::floor::{Floor, Hop};
use super::peers::{Lease, NamedLock};
use crate::contest::field::Field;
use crate::contest::handover::Notified;
use crate::contest::kind::Kind;
use crate::contest::ours::Tenure;

/// Two bare updates by the key, as text.
const FLOOR: Kind = Kind::notified("mariadb floor", "the floor", |urls, _| {
    Box::pin(async move { Arc::new(Floor::connect(&urls[0]).await) as _ })
});
const HOP: Kind =
    Kind::notified("mariadb hop", "a bare commit, then a `KILL QUERY`", |urls, side| {
        Box::pin(async move { Arc::new(Hop::connect(&urls[0], side).await) as _ })
    });
pub(super) const OURS: Kind = Kind::notified("mariadb tenure", "`tenure`", |urls, _| {
    Box::pin(async move { Arc::new(Tenure(tenure_mysql::connect(&urls[0]).await.unwrap())) as _ })
});
pub(super) const NAMED: Kind =
    Kind::notified("mariadb get-lock", "`GET_LOCK`, a session lock", |urls, _| {
        Box::pin(async move { Arc::new(NamedLock::of(&urls[0], false)) as _ })
    })
    .never_renewed()
    .handed_over("–");
pub(super) const TRY: Kind =
    Kind::notified("mariadb try", "`GET_LOCK(…, 0)` every 100 ms", |urls, _| {
        Box::pin(async move { Arc::new(NamedLock::of(&urls[0], true)) as _ })
    })
    .polling(POLL_MS)
    .never_renewed()
    .handed_over("≥ 10 ×");
pub(super) const LEASE: Kind =
    Kind::notified("mariadb lease", "a table of leases, polled every 100 ms", |urls, _| {
        Box::pin(async move { Arc::new(Lease::connect(&urls[0]).await) as _ })
    })
    .polling(POLL_MS)
    .never_renewed()
    .handed_over("≥ 10 ×");

pub(crate) const KINDS: &[Kind] = &[FLOOR, HOP, OURS, NAMED, TRY, LEASE];

pub(super) const FIELD: Field = Field {
    floor: FLOOR,
    ours: OURS,
    peers: &[NAMED, TRY, LEASE],
    elsewhere: &[],
    round: Duration::from_millis(50),
    wanted: "≥ 0.8",
    tasks: 32,
    tasks_wanted: "–",
};

pub(super) const NOTIFIED: Notified = Notified { floors: &[HOP], ours: OURS, wanted: "≤ 2 ×" };
