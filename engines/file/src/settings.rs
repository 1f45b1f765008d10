//! Options of a store.

/// Options for opening a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Opens a store even on a network file system. All of its users must be on one machine all the
    /// same, and that file system's locks must be real.
    pub allow_network: bool,
    /// Opens a store even if its directory belongs to another user (who is not root), or if all
    /// users may write to it. A user who may write to a store can take out any ticket, and hold up
    /// all others.
    pub allow_others: bool,
}
