//! What whoever opens a store may allow.

/// How a store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Opens a store even on a network file system. All of its users must be on one machine all
    /// the same, and that file system must let them lock files truly.
    pub allow_network: bool,
    /// Opens a store even if its directory belongs to another user (who is not root), or if everybody
    /// may write to it. Who may write to a store can take out any ticket, and hold up everyone.
    pub allow_others: bool,
}
