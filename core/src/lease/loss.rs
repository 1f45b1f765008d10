//! Why a holder no longer holds.

use std::fmt;

/// Why a lock was lost. Told once, and never taken back.
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
    /// Its life ended before a renewal came through: the program was paused, or the machine slept.
    Expired,
    /// It was taken out of its line before its life ended: by an operator, or by a store that lost its data.
    Broken,
    /// The session that kept it alive in the store is over.
    SessionGone,
    /// No renewal reached the store until the life it had was over.
    Unreachable,
    /// It was held for as long as its owner allowed.
    HeldTooLong,
    /// The resource it guards has seen a newer holder's token.
    Overtaken,
    /// Its [`Locks`](crate::Locks) were closed while it was held.
    Closed,
}

#[cfg(feature = "metrics")]
impl Loss {
    /// The losses that a guard can report. The other one comes from a fence.
    pub(crate) const OF_GUARDS: [Self; 6] = [
        Self::Expired,
        Self::Broken,
        Self::SessionGone,
        Self::Unreachable,
        Self::HeldTooLong,
        Self::Closed,
    ];

    /// The label of the metric that counts losses.
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
            Self::Expired => "its life ended before it was renewed",
            Self::Broken => "it was taken out of its line",
            Self::SessionGone => "its session with the store is over",
            Self::Unreachable => "the store could not be reached until its life was over",
            Self::HeldTooLong => "it was held for as long as its owner allowed",
            Self::Overtaken => "a newer holder is at work",
            Self::Closed => "its locks were closed while it was held",
        })
    }
}
