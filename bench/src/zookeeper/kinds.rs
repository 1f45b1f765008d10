//! The contenders on ZooKeeper.

use std::sync::Arc;
use std::time::Duration;

use super::floor::{Floor, Hop};
use super::peers::OfTheCrate;
use crate::contest::elsewhere::{Elsewhere, Java, Python, Runs};
use crate::contest::field::Field;
use crate::contest::handover::Notified;
use crate::contest::kind::Kind;
use crate::contest::ours::{Dropped, Tenure};

/// A create and a listing in one round trip, and a delete.
const FLOOR: Kind = Kind::notified("zookeeper floor", "the floor", |urls, _| {
    Box::pin(async move { Arc::new(Floor::connect(&urls[0]).await) as _ })
});
/// A write that a watch reports.
const HOP: Kind = Kind::notified("zookeeper hop", "a bare write to its watch", |urls, side| {
    Box::pin(async move { Arc::new(Hop::connect(&urls[0], side).await) as _ })
});
pub(super) const OURS: Kind = Kind::notified("zookeeper tenure", "`tenure`", |urls, _| {
    Box::pin(
        async move { Arc::new(Tenure(tenure_zookeeper::connect(&urls[0]).await.unwrap())) as _ },
    )
});
/// Released by a drop, as the crate's lock, whose release cannot be awaited.
pub(super) const DROPPED: Kind =
    Kind::notified("zookeeper dropped", "`tenure`, dropped", |urls, _| {
        Box::pin(async move {
            Arc::new(Dropped(tenure_zookeeper::connect(&urls[0]).await.unwrap())) as _
        })
    });
pub(super) const CRATE: Kind =
    Kind::notified("zookeeper crate", "the lock of `zookeeper-client`", |urls, _| {
        Box::pin(async move { Arc::new(OfTheCrate::connect(&urls[0]).await) as _ })
    });

pub(crate) const KINDS: &[Kind] = &[FLOOR, HOP, OURS, CRATE];

pub(super) const FIELD: Field = Field {
    floor: FLOOR,
    ours: OURS,
    peers: &[CRATE],
    elsewhere: ELSEWHERE,
    round: Duration::from_millis(50),
    wanted: "≥ 0.85",
    tasks: 32,
    tasks_wanted: "–",
};

pub(super) const NOTIFIED: Notified = Notified { floors: &[HOP], ours: OURS, wanted: "≤ 2 ×" };

pub(super) const ELSEWHERE: &[Elsewhere] = &[
    Elsewhere {
        title: "`InterProcessMutex` of Curator",
        runs: Runs::Java(Java {
            package: "libcurator-recipes-java",
            jars: &[
                "curator-recipes.jar",
                "curator-framework.jar",
                "curator-client.jar",
                "zookeeper.jar",
                "zookeeper-jute.jar",
                "guava.jar",
                "slf4j-nop.jar",
                "slf4j-api.jar",
            ],
            class: "CuratorPeer",
            script: include_str!("../../peers/CuratorPeer.java"),
        }),
        poll: Duration::ZERO,
    },
    Elsewhere {
        title: "`Lock` of kazoo",
        runs: Runs::Python(Python {
            package: "kazoo",
            version: "2.11.0",
            module: "kazoo",
            script: include_str!("../../peers/kazoo_peer.py"),
        }),
        poll: Duration::ZERO,
    },
];
