//! The error of a fence that refuses an old token. All fences return it.

use std::error::Error as StdError;
use std::fmt;

use super::error::Error;
use super::loss::Loss;

/// The counter of refusals.
#[cfg(feature = "metrics")]
pub(crate) const REFUSALS_METRIC: &str = "tenure_fence_refusals_total";

/// A write with a token that is older than one the fence has seen. Nothing was written. It is the
/// source of an error of kind [`ErrorKind::Lost`](crate::ErrorKind::Lost).
///
/// ```
/// use tenure::{Error, ErrorKind};
/// use tenure_core::Stale;
///
/// let refused = Error::from(Stale { token: 41, newest: 42 });
/// assert_eq!(refused.kind(), ErrorKind::Lost);
/// assert_eq!(Stale::of(&refused).map(|stale| stale.newest), Some(42));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// The token of the write that was refused.
    pub token: u64,
    /// The newest token that the fence has seen.
    pub newest: u64,
}

impl Stale {
    /// The tokens, if a fence is the source of this error.
    pub fn of(error: &Error) -> Option<Self> {
        error.source()?.downcast_ref().copied()
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token {} is stale: the fence has seen {}", self.token, self.newest)
    }
}

impl StdError for Stale {}

impl From<Stale> for Error {
    fn from(stale: Stale) -> Self {
        // Each fence makes the error of a refusal here, so no refusal is missed.
        #[cfg(feature = "metrics")]
        metrics::counter!(REFUSALS_METRIC).increment(1);
        Self::lost(Loss::Overtaken).caused_by(stale)
    }
}

#[cfg(test)]
mod tests {
    use super::Stale;
    use crate::{Error, ErrorKind};

    #[test]
    fn a_stale_token_is_a_loss_with_its_cause() {
        let stale = Stale { token: 41, newest: 42 };
        let error = Error::from(stale);
        assert_eq!((error.kind(), Stale::of(&error)), (ErrorKind::Lost, Some(stale)));
        assert_eq!(Stale::of(&Error::unavailable("no answer")), None);
    }
}
