//! A field: the contenders of one store.

use std::time::Duration;

use super::elsewhere::Elsewhere;
use super::kind::Kind;

/// The contenders of one store, and the goals of Tenure beside them.
pub(crate) struct Field {
    /// The fewest requests that a lock needs, by the same client.
    pub(crate) floor: Kind,
    pub(crate) ours: Kind,
    pub(crate) peers: &'static [Kind],
    /// The peers in other languages.
    pub(crate) elsewhere: &'static [Elsewhere],
    /// Duration of a round with one task, which fits many pairs. A round with `tasks` takes twice
    /// the time.
    pub(crate) round: Duration,
    /// The goal for the speed of one task, as a part of the floor's.
    pub(crate) wanted: &'static str,
    /// Number of tasks with a key each.
    pub(crate) tasks: usize,
    /// The goal for their rate, as a part of the floor's.
    pub(crate) tasks_wanted: &'static str,
}

impl Field {
    /// The floor, then Tenure, then the peers.
    pub(crate) fn all(&self) -> impl Iterator<Item = Kind> {
        [self.floor, self.ours].into_iter().chain(self.peers.iter().copied())
    }
}
