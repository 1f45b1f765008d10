//! The contenders on PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use super::POLL_MS;
use super::floor::{Floor, Hop};
use super::multiplexed::Multiplexed;
use super::peers::{Advisory, Lease};
use super::push::Clients;
use crate::contest::field::Field;
use crate::contest::handover::Notified;
use crate::contest::kind::Kind;
use crate::contest::ours::Tenure;

/// Two bare updates by the key, without names, as the engine's statements.
const FLOOR: Kind = Kind::notified("postgres floor", "the floor", |urls, _| {
    Box::pin(async move { Arc::new(Floor::connect(&urls[0]).await) as _ })
});
const PREPARED: Kind =
    Kind::notified("postgres prepared", "the floor's statements, prepared", |urls, _| {
        Box::pin(async move { Arc::new(Floor::prepared(&urls[0]).await) as _ })
    })
    .never_renewed();
/// A commit, and a notification in a transaction of its own.
const HOP_OF_TWO: Kind =
    Kind::notified("postgres hop of two", "a bare commit, then a notification", |urls, side| {
        Box::pin(async move { Arc::new(Hop::connect(&urls[0], side, false).await) as _ })
    });
/// A commit with a notification.
const HOP: Kind =
    Kind::notified("postgres hop", "a bare commit with a notification", |urls, side| {
        Box::pin(async move { Arc::new(Hop::connect(&urls[0], side, true).await) as _ })
    });
pub(super) const OURS: Kind = Kind::notified("postgres tenure", "`tenure`", |urls, _| {
    Box::pin(
        async move { Arc::new(Tenure(tenure_postgres::connect(&urls[0]).await.unwrap())) as _ },
    )
});
/// Eight clients of Tenure, which take turns.
pub(super) const CLIENTS: Kind = Kind::notified("postgres clients", "`tenure`", |urls, _| {
    Box::pin(async move { Arc::new(Clients::connect(&urls[0]).await) as _ })
});
/// The same, without notifications.
pub(super) const DEAF_CLIENTS: Kind =
    Kind::notified("postgres deaf clients", "with `notify=poll`", |urls, _| {
        let url = format!("{}?notify=poll", urls[0]);
        Box::pin(async move { Arc::new(Clients::connect(&url).await) as _ })
    });
pub(super) const ADVISORY: Kind =
    Kind::notified("postgres advisory", "`pg_advisory_lock`, a session lock", |urls, _| {
        Box::pin(async move { Arc::new(Advisory::of(&urls[0], false)) as _ })
    })
    .never_renewed()
    .handed_over("–");
pub(super) const MULTIPLEXED: Kind =
    Kind::notified("postgres multiplexed", "the SQL of `DistributedLock` for .NET", |urls, _| {
        Box::pin(async move { Arc::new(Multiplexed::of(&urls[0])) as _ })
    })
    .never_renewed()
    .handed_over("–");
pub(super) const TRY: Kind =
    Kind::notified("postgres try", "`pg_try_advisory_lock` every 100 ms", |urls, _| {
        Box::pin(async move { Arc::new(Advisory::of(&urls[0], true)) as _ })
    })
    .polling(POLL_MS)
    .never_renewed()
    .handed_over("≥ 10 ×");
pub(super) const LEASE: Kind =
    Kind::notified("postgres lease", "a table of leases, polled every 100 ms", |urls, _| {
        Box::pin(async move { Arc::new(Lease::connect(&urls[0]).await) as _ })
    })
    .polling(POLL_MS)
    .never_renewed()
    .handed_over("≥ 10 ×");

pub(crate) const KINDS: &[Kind] =
    &[FLOOR, PREPARED, HOP_OF_TWO, HOP, OURS, ADVISORY, MULTIPLEXED, TRY, LEASE];

pub(super) const FIELD: Field = Field {
    floor: FLOOR,
    ours: OURS,
    peers: &[PREPARED, ADVISORY, MULTIPLEXED, TRY, LEASE],
    elsewhere: &[],
    round: Duration::from_millis(50),
    wanted: "≥ 0.8",
    tasks: 32,
    tasks_wanted: "–",
};

pub(super) const NOTIFIED: Notified =
    Notified { floors: &[HOP_OF_TWO, HOP], ours: OURS, wanted: "≤ 2 ×" };
