//! The id of a ticket.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// The number of bits that tell apart the attempts of one ticket, and their position.
const ATTEMPT_BITS: u32 = 20;
const ATTEMPT_SHIFT: u32 = 44;
const ATTEMPT_MASK: u128 = ((1 << ATTEMPT_BITS) - 1) << ATTEMPT_SHIFT;

/// The unique id of a ticket, 128 bits.
///
/// ```
/// use tenure::inspect::TicketId;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let shown = guard.id().to_string();
/// assert_eq!(shown.len(), 32);
/// assert_eq!(shown.parse::<TicketId>()?, guard.id());
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TicketId(u128);

impl TicketId {
    /// A new random id from the operating system. A counter or generator in this process would
    /// repeat its ids in every copy of the process (a `fork`, a restored image), and all copies
    /// would hold the lock.
    pub fn fresh() -> Self {
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the operating system has no random numbers to give");
        Self(u128::from_ne_bytes(random)).whole()
    }

    /// The id of one attempt of this ticket. For an engine that sends the same ticket to a store
    /// more than once and must tell the attempts apart. There are 2^20 different attempts.
    #[must_use]
    pub fn attempt(self, count: u32) -> Self {
        Self(self.whole().0 | (u128::from(count) << ATTEMPT_SHIFT) & ATTEMPT_MASK)
    }

    /// The id of the ticket without the number of an attempt.
    #[must_use]
    pub fn whole(self) -> Self {
        Self(self.0 & !ATTEMPT_MASK)
    }

    /// The id as a number.
    pub fn to_u128(self) -> u128 {
        self.0
    }

    /// The id with this number.
    pub fn from_u128(id: u128) -> Self {
        Self(id)
    }
}

impl fmt::Display for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TicketId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(id) if digits => Ok(Self(id)),
            _ => Err(Error::invalid(format!(
                "`{text}` is not a ticket's id, which has 32 hexadecimal digits"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_as_it_was_written() {
        let id = TicketId::fresh();
        assert_eq!(id.to_string().parse::<TicketId>().unwrap(), id);
        for garbage in ["", "12", "+0000000000000000000000000000001", "zz", &"0".repeat(33)] {
            assert!(garbage.parse::<TicketId>().is_err(), "{garbage}");
        }
    }

    #[test]
    fn attempts_differ_and_are_of_one_ticket() {
        let (id, other) = (TicketId::fresh(), TicketId::fresh());
        assert_eq!(id.whole(), id);
        assert_ne!(id.attempt(1), id.attempt(2));
        assert_eq!(id.attempt(1_048_575).whole(), id);
        assert_eq!(id.attempt(7).attempt(8), id.attempt(8));
        assert_ne!(id.attempt(1), other.attempt(1));
    }
}
