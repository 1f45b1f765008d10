//! The fencing token of an exclusive holder.

use std::fmt;

use super::error::{Error, Result};
use super::ticket::NUMBER_MAX;

/// A fencing token: each later holder of a key has a larger one.
///
/// Only the guards of exclusive locks have one: [`MutexGuard`](crate::MutexGuard),
/// [`WriteGuard`](crate::WriteGuard) and [`Leadership`](crate::Leadership). Readers and holders of
/// permits hold at the same time, so the order of their numbers does not say which of them still
/// holds.
///
/// ```
/// use tenure::Token;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let first = locks.mutex("k").lock().await?.token();
/// let second: Token = locks.mutex("k").lock().await?.token();
/// assert!(second > first);
/// assert_eq!(Token::new(second.get())?, second);
/// println!("UPDATE … WHERE token <= {second}");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(transparent))]
pub struct Token(u64);

impl Token {
    /// The token with this number, as a program gets it from another process.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): the number is not within 1 to
    /// [`NUMBER_MAX`](crate::NUMBER_MAX).
    pub fn new(number: u64) -> Result<Self> {
        match number {
            0 => Err(Error::invalid(
                "0 is not a token: use the token of the guard that holds the lock",
            )),
            1..=NUMBER_MAX => Ok(Self(number)),
            _ => {
                Err(Error::invalid(format!("{number} is not a token: the largest is {NUMBER_MAX}")))
            }
        }
    }

    /// The token of a ticket that holds alone.
    pub(crate) fn of(number: u64) -> Self {
        Self(number)
    }

    /// The number, for a database or another process.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        token.0
    }
}

impl TryFrom<u64> for Token {
    type Error = Error;

    fn try_from(number: u64) -> Result<Self> {
        Self::new(number)
    }
}

impl PartialEq<u64> for Token {
    fn eq(&self, number: &u64) -> bool {
        self.0 == *number
    }
}

impl PartialEq<Token> for u64 {
    fn eq(&self, token: &Token) -> bool {
        *self == token.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{NUMBER_MAX, Token};
    use crate::ErrorKind;

    #[test]
    fn a_number_that_no_guard_has_is_refused() {
        for number in [1, NUMBER_MAX] {
            assert_eq!(Token::new(number).expect("a guard may have it"), number);
        }
        for (number, part) in
            [(0, "0 is not a token"), (NUMBER_MAX + 1, "the largest is"), (u64::MAX, "")]
        {
            let error = Token::new(number).expect_err("no guard has it");
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
