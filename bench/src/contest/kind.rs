//! The kinds of contenders, by their names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::contender::{Contender, Later};
use super::python::Python;
use crate::{etcd, mongodb, redis};

/// One way to lock on one store.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// No other kind has it: another process is told by it what it is.
    pub(crate) name: &'static str,
    /// What the tables call it.
    pub(crate) title: &'static str,
    /// How long at most a waiter sleeps before it looks again. Zero: somebody tells it.
    pub(crate) poll: Duration,
    /// Over these servers, as the first or the second of two processes.
    pub(crate) connect: Connect,
}

pub(crate) type Connect = fn(Vec<String>, usize) -> Later<'static, Arc<dyn Contender>>;

/// Those who take part on one store, and what is wanted of ours beside them.
pub(crate) struct Field {
    /// The least that a lock asks of the same client.
    pub(crate) floor: Kind,
    pub(crate) ours: Kind,
    pub(crate) peers: &'static [Kind],
    /// The peer that is no crate.
    pub(crate) python: Option<&'static Python>,
    /// How long a round of one who locks and releases takes: so long that it has many pairs. Many tasks take twice as long.
    pub(crate) round: Duration,
    /// How many tasks there are that have a key each, and which share of the floor's rate they are to reach.
    pub(crate) tasks: usize,
    pub(crate) tasks_wanted: &'static str,
}

impl Field {
    /// The floor first, then ours, then the peers.
    pub(crate) fn all(&self) -> impl Iterator<Item = Kind> {
        [self.floor, self.ours].into_iter().chain(self.peers.iter().copied())
    }
}

/// The kinds of all stores.
const STORES: [&[Kind]; 3] = [redis::KINDS, mongodb::KINDS, etcd::KINDS];

impl Kind {
    /// Somebody tells its waiters.
    pub(crate) const fn told(name: &'static str, title: &'static str, connect: Connect) -> Self {
        Self { name, title, poll: Duration::ZERO, connect }
    }

    /// Its waiters look again after so many milliseconds at most.
    pub(crate) const fn polling(self, millis: u64) -> Self {
        Self { poll: Duration::from_millis(millis), ..self }
    }

    /// The kind of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        STORES.into_iter().flatten().find(|kind| kind.name == name).copied()
    }

    pub(crate) async fn connect(self, urls: &[String], side: usize) -> Arc<dyn Contender> {
        (self.connect)(urls.to_vec(), side).await
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title)
    }
}
