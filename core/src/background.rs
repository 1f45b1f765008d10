//! What acts for an owner: it waits for its turn, gives signs of life, and gives back what was dropped.
//!
//! All of it runs on a [host], which is where time, chance and tasks come from. The
//! [keeper](self::keep) renews, the [sweeper](self::sweep) cleans up, and one [loop](self::wait) waits, which
//! [listens](self::listen) to the store and to the keeper. Who has to pause does so [unevenly](self::uneven), and what must
//! go on whatever its caller does is an [spawn_cancellable](self::errand).

pub(crate) mod acquire;
pub(crate) mod admission;
pub(crate) mod backoff;
pub(crate) mod event_stream;
#[cfg(test)]
pub(crate) mod fake_runtime;
pub(crate) mod listener;
pub(crate) mod releaser;
pub(crate) mod renewer;
pub(crate) mod runtime;
pub(crate) mod spawn;
