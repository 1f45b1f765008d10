//! The kinds of contenders, by their names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::contender::Contender;
use super::floor::{Floor, Hop};
use super::ours::Tenure;
use super::peers::{Distkit, DistributedLock, Rslock};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The same client and one connection: `SET NX PX`, and a script that compares and deletes.
    Floor,
    /// A message from a publisher to a subscriber.
    Hop,
    /// A hop, and a round trip of the one whom it reached.
    HopAndTrip,
    Tenure,
    Rslock,
    /// With a retry delay of 20 ms instead of its 200 ms.
    QuickRslock,
    DistributedLock,
    Distkit,
}

/// The peers, as they come.
pub(crate) const PEERS: [Kind; 3] = [Kind::Rslock, Kind::DistributedLock, Kind::Distkit];

impl Kind {
    const ALL: [Self; 8] = [
        Self::Floor,
        Self::Hop,
        Self::HopAndTrip,
        Self::Tenure,
        Self::Rslock,
        Self::QuickRslock,
        Self::DistributedLock,
        Self::Distkit,
    ];

    /// The kind of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Floor => "the floor",
            Self::Hop => "a hop",
            Self::HopAndTrip => "a hop and a round trip",
            Self::Tenure => "tenure",
            Self::Rslock => "rslock",
            Self::QuickRslock => "rslock, set to 20 ms",
            Self::DistributedLock => "distributed-lock",
            Self::Distkit => "distkit",
        }
    }

    /// How long at most a waiter sleeps before it looks again. Zero: somebody tells it.
    pub(crate) fn poll(self) -> Duration {
        Duration::from_millis(match self {
            Self::Rslock => 200,
            Self::QuickRslock => 20,
            Self::Distkit => 50,
            _ => 0,
        })
    }

    /// Over these servers, as the first or the second of two processes.
    pub(crate) async fn connect(self, urls: &[String], side: usize) -> Arc<dyn Contender> {
        match self {
            Self::Floor => Arc::new(Floor::connect(&urls[0]).await),
            Self::Hop => Arc::new(Hop::connect(&urls[0], side, false).await),
            Self::HopAndTrip => Arc::new(Hop::connect(&urls[0], side, true).await),
            Self::Tenure => Arc::new(Tenure::connect(urls).await),
            Self::Rslock => Arc::new(Rslock::connect(urls)),
            Self::QuickRslock => Arc::new(Rslock::connect(urls).polling_within(self.poll())),
            Self::DistributedLock => Arc::new(DistributedLock::connect(urls).await),
            Self::Distkit => Arc::new(Distkit::connect(&urls[0]).await),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Floor | Self::Hop | Self::HopAndTrip => f.write_str(self.name()),
            Self::QuickRslock => f.write_str("`rslock`, set to 20 ms"),
            _ => write!(f, "`{}`", self.name()),
        }
    }
}
