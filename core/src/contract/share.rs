//! How much a ticket takes of what there is, and when it is served.

use crate::{Error, Result};

/// The largest capacity that a line can be kept for.
pub const SHARE_OF_MAX: u32 = 1 << 30;

/// `take` out of `of`: all of many is a mutex or a writer, 1 of many a reader, k of n permits.
///
/// ```
/// use tenure::{Share, engine::served};
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
    /// All of many: a mutex, which is the writer of its key.
    pub const WHOLE: Self = Self { take: SHARE_OF_MAX, of: SHARE_OF_MAX };
    /// One of many: a reader.
    pub const READER: Self = Self { take: 1, of: SHARE_OF_MAX };

    /// `take` out of `of`, which must hold it.
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

    /// How much is taken.
    pub fn take(self) -> u32 {
        self.take
    }

    /// How much there is.
    pub fn of(self) -> u32 {
        self.of
    }

    /// What a user calls it.
    ///
    /// ```
    /// use tenure::Share;
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

/// The rule, the only one: a ticket is served as long as it fits behind what is taken ahead of it.
///
/// Tickets arrive at the back and leave from anywhere, so what is taken ahead only falls. Once
/// served, a ticket is served until it leaves; and what is served always fits.
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
