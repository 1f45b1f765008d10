//! What went wrong, in one sentence, and what to do about it.

use std::time::Duration;

use mongodb::error::{Error as DriverError, ErrorKind};
use tenure_core::Error;

/// Why a step failed: the driver may want it repeated, anything else is the end.
#[derive(Debug)]
pub(crate) enum Failed {
    /// What the driver or the server says.
    Driver(DriverError),
    /// What there is to be told.
    Final(Error),
}

impl From<DriverError> for Failed {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

impl Failed {
    /// The error for the caller; `was_sent` if what failed may have been done.
    pub(crate) fn told(self, was_sent: bool) -> Error {
        match self {
            Self::Final(error) => error,
            Self::Driver(error) => failed(error, was_sent),
        }
    }
}

/// The server's codes for "there are no transactions here": an illegal operation, and an old server's.
const NO_TRANSACTIONS: [i32; 2] = [20, 263];
/// Not allowed, and not logged in.
const NOT_ALLOWED: [i32; 2] = [13, 18];
/// A majority did not confirm in time, and its kin.
const WRITE_CONCERN: [i32; 3] = [64, 79, 100];

/// Nothing came back in time.
pub(crate) fn silent(limit: Duration, was_sent: bool) -> Error {
    Error::unavailable(format!(
        "MongoDB did not answer within {limit:?}, and {}",
        outcome(was_sent)
    ))
}

/// The fence's record holds something that this crate has not written.
pub(crate) fn foreign(name: &str) -> Error {
    Error::rejected(format!(
        "the record of the fence `{name}` holds something that is not a token: find out who wrote it; nothing was changed"
    ))
}

fn failed(error: DriverError, was_sent: bool) -> Error {
    let code = code(&error);
    let outcome = outcome(was_sent);
    let told = match (code, &*error.kind) {
        (Some(code), _) if NO_TRANSACTIONS.contains(&code) && !was_sent => Error::unsupported(
            "this MongoDB has no transactions, which a fence needs, and nothing was changed: make it a replica set, of one member if you like",
        ),
        (Some(code), _) if NOT_ALLOWED.contains(&code) => Error::rejected(format!(
            "MongoDB does not allow the guarded write, and nothing was changed: {}",
            said(&error)
        )),
        (Some(code), _) if WRITE_CONCERN.contains(&code) => {
            let outcome = self::outcome(true);
            Error::unavailable(format!("no majority confirmed it, and {outcome}: {}", said(&error)))
        }
        (_, ErrorKind::InvalidArgument { .. } | ErrorKind::Bson(_)) => Error::invalid(format!(
            "the guarded write cannot be sent, and {outcome}: {}",
            said(&error)
        )),
        (Some(_), _) | (_, ErrorKind::Write(_) | ErrorKind::InsertMany(_))
            if !is_passing(&error) =>
        {
            Error::rejected(format!(
                "a guarded write failed in MongoDB, and {outcome}: {}",
                said(&error)
            ))
        }
        _ => {
            Error::unavailable(format!("MongoDB cannot write now, and {outcome}: {}", said(&error)))
        }
    };
    told.caused_by(error)
}

/// Whether the same write may succeed later.
fn is_passing(error: &DriverError) -> bool {
    ["RetryableWriteError", "TransientTransactionError", "UnknownTransactionCommitResult"]
        .iter()
        .any(|label| error.contains_label(label))
}

fn outcome(was_sent: bool) -> &'static str {
    if was_sent { "the write may be done or not" } else { "nothing was changed" }
}

/// The code of the server's refusal.
fn code(error: &DriverError) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(refusal) => Some(refusal.code),
        ErrorKind::Write(mongodb::error::WriteFailure::WriteConcernError(refusal)) => {
            Some(refusal.code)
        }
        _ => None,
    }
}

/// What was said, in one line.
fn said(error: &DriverError) -> String {
    error.kind.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
