//! A wish: how long a program is willing to wait.

use std::time::Duration;

/// How long a program is willing to wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    Try,
    Within(Duration),
    Ever,
    /// As long as it takes, but the future is dropped after so long.
    Dropped(Duration),
}
