//! The sins of holders, as they were seen in the wild.

/// What other libraries were seen to do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sin {
    /// Its lease begins when the answer arrives, not when the question was sent.
    CountsFromTheReply,
    /// It believes to the end of the lease, as if its clock and the store's were one.
    CountsTheWholeTtl,
    /// An outcome that is unknown counts as granted.
    TakesUnknownForGranted,
    /// A join that may have been carried out is forgotten.
    ForgetsUnknownJoins,
    /// Whoever gives up waiting stays in the line.
    StaysWhenCancelled,
    /// The answer to a late renewal brings back what was over.
    RevivesTheDead,
    /// A renewal that fails is a loss, and the next one takes it back.
    Flaps,
    /// A renewal that fails is a loss, with most of the lease to go.
    GivesUpAtFirstTrouble,
    /// What was released is renewed.
    RenewsAfterRelease,
    /// Its clock stands still while the machine sleeps.
    SleepsThroughSleep,
    /// It notices a loss when a renewal tells, however long that takes.
    NoticesOnRenewal,
    /// All its locks are renewed one after the other.
    RenewsInTurn,
    /// Its token is the time of its own wall clock.
    TokenFromOwnClock,
    /// Its release always went well.
    ReleasesQuietly,
    /// It waits to be rung for, and never looks.
    WaitsForTheBell,
    /// Every time it is woken, its time to wait begins anew.
    WaitsAnew,
}

impl Sin {
    /// All of them.
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
