//! Those who lock on Redis.

use std::sync::Arc;
use std::time::Duration;

use super::floor::{Floor, Hop};
use super::peers::{Distkit, DistributedLock, Rslock};
use crate::contest::contender::Contender;
use crate::contest::elsewhere::{Elsewhere, Python, Runs};
use crate::contest::field::Field;
use crate::contest::handover::Told;
use crate::contest::kind::Kind;
use crate::contest::ours::Tenure;

/// What `rslock` is set to, instead of its 200 ms.
const QUICK_MS: u64 = 20;
/// The longest pause of ours over five servers, where nobody can tell a waiter that it is served.
const REDLOCK_POLL_MS: u64 = 50;

/// The same client and one connection: `SET NX PX`, and a script that compares and deletes.
const FLOOR: Kind = Kind::told("redis floor", "the floor", |urls, _| {
    Box::pin(async move { Arc::new(Floor::connect(&urls[0]).await) as Arc<dyn Contender> })
});
/// A message from a publisher to a subscriber.
const HOP: Kind = Kind::told("redis hop", "a hop", |urls, side| {
    Box::pin(async move { Arc::new(Hop::connect(&urls[0], side, false).await) as _ })
});
/// A hop, and a round trip of the one whom it reached.
const HOP_AND_TRIP: Kind =
    Kind::told("redis hop and trip", "a hop and a round trip", |urls, side| {
        Box::pin(async move { Arc::new(Hop::connect(&urls[0], side, true).await) as _ })
    });
pub(super) const OURS: Kind = Kind::told("redis tenure", "`tenure`", |urls, _| {
    Box::pin(async move { Arc::new(Tenure(tenure_redis::connect(&urls[0]).await.unwrap())) as _ })
});
/// The servers have just started, which a RedLock would refuse to trust: it cannot know that they
/// have nothing to forget.
pub(super) const REDLOCK: Kind = Kind::told("redlock tenure", "`tenure`", |urls, _| {
    Box::pin(async move {
        let hosts: Vec<_> =
            urls.iter().map(|url| url.strip_prefix("redis://").unwrap_or(url)).collect();
        let url = format!("redlock://{}?young=trust", hosts.join(","));
        Arc::new(Tenure(tenure_redis::connect(&url).await.unwrap())) as _
    })
})
.polling(REDLOCK_POLL_MS);
pub(super) const RSLOCK: Kind = Kind::told("rslock", "`rslock`", |urls, _| {
    Box::pin(async move { Arc::new(Rslock::connect(&urls)) as _ })
})
.polling(200)
.never_renewed();
pub(super) const QUICK_RSLOCK: Kind =
    Kind::told("quick rslock", "`rslock`, set to 20 ms", |urls, _| {
        let pause = Duration::from_millis(QUICK_MS);
        Box::pin(async move { Arc::new(Rslock::connect(&urls).polling_within(pause)) as _ })
    })
    .polling(QUICK_MS)
    .never_renewed();
pub(super) const DISTRIBUTED_LOCK: Kind =
    Kind::told("redis distributed-lock", "`distributed-lock`", |urls, _| {
        Box::pin(async move { Arc::new(DistributedLock::connect(&urls).await) as _ })
    });
pub(super) const DISTKIT: Kind = Kind::told("distkit", "`distkit`", |urls, _| {
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
    tasks: 64,
    tasks_wanted: "≥ 0.65",
};

pub(super) const TOLD: Told = Told { floors: &[HOP, HOP_AND_TRIP], ours: OURS, wanted: "≤ 2 ×" };

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
