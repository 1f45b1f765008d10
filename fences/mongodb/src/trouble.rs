//! Turns errors of the driver into errors of this project: one sentence with the remedy.

use std::time::Duration;

use mongodb::error::{Error as DriverError, ErrorKind};
use tenure_core::Error;

/// The reason of a failed step.
#[derive(Debug)]
pub(crate) enum Failed {
    /// An error of the driver or the server, which may ask for another attempt.
    Driver(DriverError),
    /// The error for the caller.
    Final(Error),
}

impl From<DriverError> for Failed {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

impl Failed {
    /// Returns the error for the caller. `was_sent`: the failed step may have been executed.
    pub(crate) fn into_error(self, was_sent: bool) -> Error {
        match self {
            Self::Final(error) => error,
            Self::Driver(error) => failed(error, was_sent),
        }
    }
}

/// `IllegalOperation` and `OperationNotSupportedInTransaction`, from servers without transactions.
const NO_TRANSACTIONS: [i32; 2] = [20, 263];
/// `Unauthorized` and `AuthenticationFailed`.
const NOT_ALLOWED: [i32; 2] = [13, 18];
/// `WriteConcernFailed`, `UnknownReplWriteConcern` and `UnsatisfiableWriteConcern`.
const WRITE_CONCERN: [i32; 3] = [64, 79, 100];

/// The server did not answer within the time limit.
pub(crate) fn silent(limit: Duration, was_sent: bool) -> Error {
    Error::unavailable(format!(
        "MongoDB did not answer within {limit:?}, and {}",
        outcome(was_sent)
    ))
}

/// The fence's record contains a value that this crate has not written.
pub(crate) fn foreign(name: &str) -> Error {
    Error::rejected(format!(
        "the record of the fence `{name}` contains a value that is not a token, and nothing was changed: find out which program wrote it"
    ))
}

fn failed(error: DriverError, was_sent: bool) -> Error {
    let code = code(&error);
    let outcome = outcome(was_sent);
    let result = match (code, &*error.kind) {
        (Some(code), _) if NO_TRANSACTIONS.contains(&code) && !was_sent => Error::unsupported(
            "this MongoDB has no transactions, which a fence needs, and nothing was changed: make it a replica set, which may have a single member",
        ),
        (Some(code), _) if NOT_ALLOWED.contains(&code) => Error::rejected(format!(
            "MongoDB does not allow the guarded write, and {outcome}: {}",
            said(&error)
        )),
        (Some(code), _) if WRITE_CONCERN.contains(&code) => {
            let outcome = self::outcome(true);
            Error::unavailable(format!(
                "no majority confirmed the write, and {outcome}: {}",
                said(&error)
            ))
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
    result.caused_by(error)
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

/// Returns the code of the server's refusal.
fn code(error: &DriverError) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(refusal) => Some(refusal.code),
        ErrorKind::Write(mongodb::error::WriteFailure::WriteConcernError(refusal)) => {
            Some(refusal.code)
        }
        _ => None,
    }
}

/// Returns the text of the error in one line.
fn said(error: &DriverError) -> String {
    error.kind.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
