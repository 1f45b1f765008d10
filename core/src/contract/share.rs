//! The share of a line that a ticket takes, and the rule which tickets are served.

use crate::{Error, Result};

/// Maximum capacity of a line.
pub const SHARE_OF_MAX: u32 = 1 << 30;

/// A share: `take` out of `of`. A mutex or writer takes all, a reader 1 of [`SHARE_OF_MAX`], a
/// semaphore's holder k of n permits.
///
/// ```
/// use tenure::engine::served;
/// use tenure::inspect::Share;
///
/// let two_of_five = Share::new(2, 5)?;
/// assert!(served(3, two_of_five), "it fits behind three that are taken");
/// assert!(!served(4, two_of_five));
/// assert_eq!(Share::new(6, 5).unwrap_err().to_string(), "6 of 5 cannot be taken: ask for 1 to 5");
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    take: u32,
    of: u32,
}

impl Share {
    /// The whole line: a mutex or a writer.
    pub const WHOLE: Self = Self { take: SHARE_OF_MAX, of: SHARE_OF_MAX };
    /// The smallest share: a reader.
    pub const READER: Self = Self { take: 1, of: SHARE_OF_MAX };

    /// The share `take` out of `of`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): `take` is not within 1 to `of`, or `of` is above
    /// [`SHARE_OF_MAX`].
    pub fn new(take: u32, of: u32) -> Result<Self> {
        if of == 0 || of > SHARE_OF_MAX {
            return Err(Error::invalid(format!(
                "a capacity of {of} cannot be kept: it must be 1 to {SHARE_OF_MAX}"
            )));
        }
        if take == 0 || take > of {
            return Err(Error::invalid(format!(
                "{take} of {of} cannot be taken: ask for 1 to {of}"
            )));
        }
        Ok(Self { take, of })
    }

    /// The part that is taken.
    pub fn take(self) -> u32 {
        self.take
    }

    /// The capacity of the line.
    pub fn of(self) -> u32 {
        self.of
    }

    /// `exclusive`, `shared` or `permits`.
    ///
    /// ```
    /// use tenure::inspect::Share;
    ///
    /// assert_eq!(Share::WHOLE.kind(), "exclusive");
    /// assert_eq!(Share::READER.kind(), "shared");
    /// assert_eq!(Share::new(2, 5)?.kind(), "permits");
    /// # Ok::<(), tenure::Error>(())
    /// ```
    pub fn kind(self) -> &'static str {
        match self {
            Self::WHOLE => "exclusive",
            Self::READER => "shared",
            _ => "permits",
        }
    }
}

/// The rule which tickets are served: a ticket is served if its share fits behind the shares ahead.
///
/// Tickets join at the back and leave from anywhere, so the sum ahead only falls. A served ticket
/// therefore stays served until it leaves, and all served tickets fit together.
pub fn served(taken_ahead: u64, share: Share) -> bool {
    taken_ahead + u64::from(share.take) <= u64::from(share.of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_cannot_be_is_refused() {
        for (take, of) in [(0, 0), (6, 5), (0, 5), (1, SHARE_OF_MAX + 1)] {
            assert!(Share::new(take, of).is_err(), "{take} of {of}");
        }
        assert_eq!(
            Share::new(6, 5).unwrap_err().to_string(),
            "6 of 5 cannot be taken: ask for 1 to 5"
        );
    }

    #[test]
    fn a_ticket_is_served_exactly_while_it_fits() {
        let two_of_three = Share::new(2, 3).unwrap();
        assert!(served(0, two_of_three));
        assert!(served(1, two_of_three));
        assert!(!served(2, two_of_three));
        assert!(!served(u64::from(u32::MAX), two_of_three));
    }
}
