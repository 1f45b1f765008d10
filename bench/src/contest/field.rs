//! A field: who takes part on one store.

use std::time::Duration;

use super::elsewhere::Elsewhere;
use super::kind::Kind;

/// Those who take part on one store, and what is wanted of ours beside them.
pub(crate) struct Field {
    /// The least that a lock asks of the same client.
    pub(crate) floor: Kind,
    pub(crate) ours: Kind,
    pub(crate) peers: &'static [Kind],
    /// The peers that are no crates.
    pub(crate) elsewhere: &'static [Elsewhere],
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
