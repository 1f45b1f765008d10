//! The contenders on Redis.

use std::sync::Arc;
use std::time::Duration;

use super::floor::{Floor, Hop};
use super::peers::{Distkit, DistributedLock, Rslock};
use crate::contest::contender::Contender;
use crate::contest::elsewhere::{Elsewhere, Python, Runs};
use crate::contest::field::Field;
use crate::contest::handover::Notified;
use crate::contest::kind::Kind;
use crate::contest::ours::Tenure;

/// The pause of `rslock` in the rows that do not use its default of 200 ms.
const QUICK_MS: u64 = 20;
/// Maximum pause of Tenure over five servers, none of which can notify a waiter that it is served.
const REDLOCK_POLL_MS: u64 = 50;

/// The same client and one connection: `SET NX PX`, and a script that compares and deletes.
const FLOOR: Kind = Kind::notified("redis floor", "the floor", |urls, _| {
    Box::pin(async move { Arc::new(Floor::connect(&urls[0]).await) as Arc<dyn Contender> })
});
/// A message from a publisher to a subscriber.
const HOP: Kind = Kind::notified("redis hop", "a hop", |urls, side| {
    Box::pin(async move { Arc::new(Hop::connect(&urls[0], side, false).await) as _ })
});
/// A hop, and a round trip of its receiver.
const HOP_AND_TRIP: Kind =
    Kind::notified("redis hop and trip", "a hop and a round trip", |urls, side| {
        Box::pin(async move { Arc::new(Hop::connect(&urls[0], side, true).await) as _ })
    });
pub(super) const OURS: Kind = Kind::notified("redis tenure", "`tenure`", |urls, _| {
    Box::pin(async move { Arc::new(Tenure(tenure_redis::connect(&urls[0]).await.unwrap())) as _ })
});
/// The servers have just started, so RedLock would refuse them: they may have lost locks. The bench
/// knows that they have not.
pub(super) const REDLOCK: Kind = Kind::notified("redlock tenure", "`tenure`", |urls, _| {
    Box::pin(async move {
        let hosts: Vec<_> =
            urls.iter().map(|url| url.strip_prefix("redis://").unwrap_or(url)).collect();
        let url = format!("redlock://{}?after_restart=trust", hosts.join(","));
        Arc::new(Tenure(tenure_redis::connect(&url).await.unwrap())) as _
    })
})
.polling(REDLOCK_POLL_MS);
pub(super) const RSLOCK: Kind = Kind::notified("rslock", "`rslock`", |urls, _| {
    Box::pin(async move { Arc::new(Rslock::connect(&urls)) as _ })
})
.polling(200)
.never_renewed();
pub(super) const QUICK_RSLOCK: Kind =
    Kind::notified("quick rslock", "`rslock`, set to 20 ms", |urls, _| {
        let pause = Duration::from_millis(QUICK_MS);
        Box::pin(async move { Arc::new(Rslock::connect(&urls).polling_within(pause)) as _ })
    })
    .polling(QUICK_MS)
    .never_renewed();
pub(super) const DISTRIBUTED_LOCK: Kind =
    Kind::notified("redis distributed-lock", "`distributed-lock`", |urls, _| {
        Box::pin(async move { Arc::new(DistributedLock::connect(&urls).await) as _ })
    });
pub(super) const DISTKIT: Kind = Kind::notified("distkit", "`distkit`", |urls, _| {
    Box::pin(async move { Arc::new(Distkit::connect(&urls[0]).await) as _ })
})
.polling(50);

pub(crate) const KINDS: &[Kind] =
    &[FLOOR, HOP, HOP_AND_TRIP, OURS, REDLOCK, RSLOCK, QUICK_RSLOCK, DISTRIBUTED_LOCK, DISTKIT];

pub(super) const FIELD: Field = Field {
    floor: FLOOR,
    ours: OURS,
    peers: &[RSLOCK, DISTRIBUTED_LOCK, DISTKIT],
    elsewhere: PYTHON,
    round: Duration::from_millis(20),
    wanted: "≥ 0.85",
    tasks: 64,
    tasks_wanted: "≥ 0.65",
};

pub(super) const NOTIFIED: Notified =
    Notified { floors: &[HOP, HOP_AND_TRIP], ours: OURS, wanted: "≤ 2 ×" };

pub(super) const PYTHON: &[Elsewhere] = &[Elsewhere {
    title: "`Lock` of redis-py",
    runs: Runs::Python(Python {
        package: "redis",
        version: "8.1.0",
        module: "redis",
        script: include_str!("../../peers/redis_peer.py"),
    }),
    poll: Duration::from_millis(100),
}];
