//! The reasons why a lock is lost.

use std::fmt;

/// The reason why a lock was lost. It does not change later.
///
/// ```
/// use tenure::Loss;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// locks.break_ticket("invoices/42", guard.id()).await?;
/// assert_eq!(guard.lost().await, Loss::Broken);
/// assert_eq!(guard.check().unwrap_err().loss(), Some(Loss::Broken));
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Loss {
    /// The lease expired before it was renewed: the program was paused, or the machine slept.
    Expired,
    /// An operator asked the holder to leave, or the ticket was removed: by force, or by a store
    /// that lost data.
    Broken,
    /// The session with the store ended.
    SessionGone,
    /// The lease expired because no renewal reached the store.
    Unreachable,
    /// The maximum time to hold was over.
    HeldTooLong,
    /// A fence has seen a newer holder's token.
    Overtaken,
    /// Its [`Locks`](crate::Locks) were closed.
    Closed,
}

impl Loss {
    /// The losses that a guard can report. A fence reports the other one.
    #[cfg(feature = "metrics")]
    pub(crate) const OF_GUARDS: [Self; 6] = [
        Self::Expired,
        Self::Broken,
        Self::SessionGone,
        Self::Unreachable,
        Self::HeldTooLong,
        Self::Closed,
    ];

    /// The label in metrics and spans.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Broken => "broken",
            Self::SessionGone => "session_gone",
            Self::Unreachable => "unreachable",
            Self::HeldTooLong => "held_too_long",
            Self::Overtaken => "overtaken",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it expired before it was renewed",
            Self::Broken => "its ticket was removed from the line",
            Self::SessionGone => "its session with the store ended",
            Self::Unreachable => "it expired while the store was unreachable",
            Self::HeldTooLong => "its maximum time to hold is over",
            Self::Overtaken => "a newer holder has written",
            Self::Closed => "its locks were closed",
        })
    }
}
