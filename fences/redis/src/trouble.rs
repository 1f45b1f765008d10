//! What went wrong, in one sentence, and what to do about it.

use redis::{ErrorKind, RedisError};
use tenure_core::Error;

/// Behind these words Redis repeats what it was told, which may be the beginning of a password.
const REPEATS: &str = "with args beginning with";

/// The key of a fence holds something that this crate has not written.
pub(crate) fn foreign(key: &str) -> Error {
    Error::rejected(format!(
        "the fence's key {key} holds something that is not a token: find out who wrote it; nothing was changed"
    ))
}

/// The server could not be asked, or refused as a whole. The driver's own error is not kept: it may repeat a password.
pub(crate) fn failed(error: &RedisError) -> Error {
    let said = said(error);
    if let Some((_, reason)) = said.split_once("Error compiling script (new function): ") {
        return Error::invalid(format!("the guarded script does not compile: {reason}"));
    }
    let sentence = match (error.code(), error.kind()) {
        // Redis before 7 wraps what a script runs into, so that the code is another.
        _ if said.contains("READONLY ") => {
            "this Redis is a read-only replica, and nothing was changed: connect to its master"
                .to_owned()
        }
        (Some("MOVED" | "ASK"), _) => format!(
            "this Redis does not keep the slot of the fence, and nothing was changed: use a Cluster connection ({said})"
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

/// The server said no, in its own words. If a script of the user's had written something by then,
/// that is not taken back, and only that script can tell.
pub(crate) fn refused(said: &str) -> Error {
    Error::rejected(format!("a guarded write failed in Redis: {said}"))
}

/// The script ran to its end, and this is what it answered.
pub(crate) fn answered(error: RedisError) -> Error {
    Error::rejected(format!("the guarded script ran, and answered with an error: {}", said(&error)))
        .caused_by(error)
}

/// The write is done, and its answer is not what the caller expects.
pub(crate) fn unexpected(error: impl Into<RedisError>) -> Error {
    let error = error.into();
    Error::invalid(format!("the guarded write is done, but its answer is of another type: {error}"))
        .caused_by(error)
}

/// The answer is none that the guard gives.
pub(crate) fn puzzled() -> Error {
    Error::unavailable(
        "Redis gave an answer to a guarded write that no guard gives: the write may be done or not",
    )
}

/// What the server said, in one line, without what it repeats.
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
    fn what_redis_repeats_is_left_out() {
        let with = b"-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 's3cr\r\n";
        let refused = redis::parse_redis_value(with).unwrap().extract_error().unwrap_err();
        assert_eq!(said(&refused), "ERR unknown command 'HELLO'");
    }
}
