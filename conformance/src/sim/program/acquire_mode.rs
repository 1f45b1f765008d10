//! The modes of a lock request.

use std::time::Duration;

/// The time that a program waits for a lock.
#[derive(Clone, Copy, Debug)]
pub(super) enum AcquireMode {
    Try,
    Within(Duration),
    Ever,
    /// Without a limit, but the future is dropped after this time.
    Dropped(Duration),
}
