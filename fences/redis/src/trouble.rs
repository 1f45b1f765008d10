//! Turns errors of the driver into errors of this project: one sentence with the remedy.

use redis::{ErrorKind, RedisError};
use tenure_core::Error;

/// After these words Redis repeats its input, which may contain the beginning of a password.
const REPEATS: &str = "with args beginning with";

/// The key of a fence contains a value that this crate has not written.
pub(crate) fn foreign(key: &str) -> Error {
    Error::rejected(format!(
        "the fence's key {key} contains a value that is not a token, and nothing was changed: find out which program wrote it"
    ))
}

/// The server did not answer, or refused the call. The result does not contain the driver's error,
/// which may repeat a password.
pub(crate) fn failed(error: &RedisError) -> Error {
    let said = said(error);
    if let Some((_, reason)) = said.split_once("Error compiling script (new function): ") {
        return Error::invalid(format!("the guarded script does not compile: {reason}"));
    }
    let sentence = match (error.code(), error.kind()) {
        // Redis before 7 wraps the error of a script, and so hides its code.
        _ if said.contains("READONLY ") => {
            "this Redis is a read-only replica, and nothing was changed: connect to the master"
                .to_owned()
        }
        (Some("MOVED" | "ASK"), _) => format!(
            "this Redis does not serve the slot of the fence, and nothing was changed: use a Cluster connection ({said})"
        ),
        (
            Some("BUSY" | "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" | "NOREPLICAS"),
            _,
        ) => format!("Redis cannot write now: {said}"),
        (
            None,
            ErrorKind::Io
            | ErrorKind::Parse
            | ErrorKind::ClusterConnectionNotFound
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::NoValidReplicasFoundBySentinel,
        ) => format!("Redis did not answer, and the write may be done or not: {said}"),
        _ => return refused(&said),
    };
    Error::unavailable(sentence)
}

/// The server refused, with this text. If the user's script wrote before its error, these writes
/// stay.
pub(crate) fn refused(said: &str) -> Error {
    Error::rejected(format!("a guarded write failed in Redis: {said}"))
}

/// The script ran to its end, and returned an error.
pub(crate) fn answered(error: RedisError) -> Error {
    Error::rejected(format!("the guarded script ran, and returned an error: {}", said(&error)))
        .caused_by(error)
}

/// The write is done, and its answer is not of the type that the caller expects.
pub(crate) fn unexpected(error: impl Into<RedisError>) -> Error {
    let error = error.into();
    Error::invalid(format!("the guarded write is done, but its answer is of another type: {error}"))
        .caused_by(error)
}

/// The answer is not one of `check.lua`.
pub(crate) fn unknown_answer() -> Error {
    Error::unavailable(
        "Redis answered a guarded write as no guard does, and the write may be done or not: check for a proxy",
    )
}

/// Returns the text of the error in one line, without the input that the server repeats.
fn said(trouble: &RedisError) -> String {
    let words = match (trouble.code(), trouble.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => trouble.to_string(),
    };
    let words = words.split(REPEATS).next().unwrap_or_default().trim_end_matches([' ', ',']);
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_that_redis_repeats_is_removed() {
        let with = b"-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 's3cr\r\n";
        let refused = redis::parse_redis_value(with).unwrap().extract_error().unwrap_err();
        assert_eq!(said(&refused), "ERR unknown command 'HELLO'");
    }
}
