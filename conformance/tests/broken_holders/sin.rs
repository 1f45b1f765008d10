//! The sins of holders, as seen in other libraries.

/// A fault of another library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sin {
    /// Its lease starts when the reply arrives, not when the request was sent.
    CountsFromTheReply,
    /// It believes to the end of the lease, without a margin for the drift of clocks.
    CountsTheWholeTtl,
    /// An unknown outcome counts as granted.
    TakesUnknownForGranted,
    /// A join that may have been carried out is forgotten.
    ForgetsUnknownJoins,
    /// A caller that gives up stays in the line.
    StaysWhenCancelled,
    /// The reply to a late renewal revives a lost lock.
    RevivesTheDead,
    /// A failed renewal is a loss, and the next renewal revokes it.
    Flaps,
    /// A failed renewal is a loss, with most of the lease left.
    GivesUpAtFirstTrouble,
    /// A released lock is renewed.
    RenewsAfterRelease,
    /// Its clock stands still while the machine sleeps.
    SleepsThroughSleep,
    /// It notices a loss only by the reply to a renewal.
    NoticesOnRenewal,
    /// All its locks are renewed one after the other.
    RenewsInTurn,
    /// Its token is the time of its own wall clock.
    TokenFromOwnClock,
    /// Its release always reports success.
    ReleasesQuietly,
    /// It waits for a notification, and never polls.
    WaitsForTheBell,
    /// Every wake-up restarts its time limit.
    WaitsAnew,
}

impl Sin {
    /// All sins.
    pub(crate) const ALL: [Self; 16] = [
        Self::CountsFromTheReply,
        Self::CountsTheWholeTtl,
        Self::TakesUnknownForGranted,
        Self::ForgetsUnknownJoins,
        Self::StaysWhenCancelled,
        Self::RevivesTheDead,
        Self::Flaps,
        Self::GivesUpAtFirstTrouble,
        Self::RenewsAfterRelease,
        Self::SleepsThroughSleep,
        Self::NoticesOnRenewal,
        Self::RenewsInTurn,
        Self::TokenFromOwnClock,
        Self::ReleasesQuietly,
        Self::WaitsForTheBell,
        Self::WaitsAnew,
    ];
}
