//! What kind of error the driver reports: its code, and what follows for the connection.

use std::io;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::secret::words;

/// A server that is asked about its cluster has none; Redis has no code for it.
pub(super) const CLUSTERLESS: &str = "CLUSTERLESS";
/// A server has no database of this number; Redis has no code for it.
pub(super) const NO_DATABASE: &str = "NODATABASE";
/// The code of Tenure's scripts for a line that this version cannot read.
pub(super) const UNREADABLE: &str = "UNREADABLE";
/// The code for a stored number that this version cannot read.
pub(super) const NO_NUMBER: &str = "NONUMBER";

/// Texts in place of a code. Redis 7 and 8, and Valkey 8 and 9, have different texts for one error.
/// Redis 6 puts the code of an error in a script into the text.
const WITHOUT_CODE: [(&str, &str); 17] = [
    // The texts of Tenure's own scripts.
    ("this server is a replica now", "READONLY"),
    ("tenure-unreadable", UNREADABLE),
    ("tenure-no-number", NO_NUMBER),
    ("The user executing the script can't", "NOPERM"),
    ("ACL failure in script", "NOPERM"),
    ("attempted to access a non local key", "TRYAGAIN"),
    ("Attempted to access a non local key", "TRYAGAIN"),
    ("undeclared keys were accessed during rehashing", "TRYAGAIN"),
    ("DB index is out of range", NO_DATABASE),
    ("SELECT is not allowed in cluster mode", "MOVED"),
    ("cluster support disabled", CLUSTERLESS),
    // A sentinel gives the same answer.
    ("unknown command 'CLUSTER'", CLUSTERLESS),
    (": -OOM ", "OOM"),
    (": -READONLY ", "READONLY"),
    (": -MISCONF ", "MISCONF"),
    (": -NOREPLICAS ", "NOREPLICAS"),
    (": -WRONGTYPE ", "WRONGTYPE"),
];

/// Returns the code of a refusal.
pub(super) fn code(trouble: &RedisError) -> Option<&str> {
    let detail = trouble.detail().unwrap_or("");
    match trouble.code() {
        Some("ERR") => {
            let found = WITHOUT_CODE.iter().find(|(text, _)| detail.contains(text));
            Some(found.map_or("ERR", |(_, code)| *code))
        }
        Some(code) => Some(code),
        // If no server of a cluster accepts the login, the driver puts the code into the text.
        None => {
            let codes = ["NOAUTH", "WRONGPASS", "NOPERM"];
            codes.into_iter().find(|code| detail.contains(&format!("\"{code}\"")))
        }
    }
}

/// Whether what is kept under a name is not as this version of Tenure keeps it there.
pub(crate) fn is_about_what_is_kept(trouble: &RedisError) -> bool {
    matches!(code(trouble), Some(UNREADABLE | "WRONGTYPE"))
}

/// Whether an answer has another shape than whatever was asked for.
pub(crate) fn is_strange(trouble: &RedisError) -> bool {
    trouble.kind() == ErrorKind::UnexpectedReturnType
}

/// Whether the connection is of no more use.
pub(crate) fn ends_connection(trouble: &RedisError) -> bool {
    match trouble.kind() {
        _ if matches!(code(trouble), Some("READONLY" | "MASTERDOWN")) => true,
        ErrorKind::Server(_) | ErrorKind::Extension => false,
        // A connection that is silent may be one that leads nowhere.
        _ => true,
    }
}

/// Whether the server has forgotten the scripts.
pub(crate) fn wants_scripts(trouble: &RedisError) -> bool {
    trouble.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Whether the server is out of memory.
pub(crate) fn is_full(trouble: &RedisError) -> bool {
    code(trouble) == Some("OOM")
}

/// Whether the host's name leads nowhere; only words tell it.
pub(super) fn is_unknown_host(trouble: &RedisError) -> bool {
    words(trouble).contains("failed to lookup address")
}

/// Whether the call timed out. For a cluster, the driver reports a timeout only in its text.
pub(super) fn is_silence(trouble: &RedisError) -> bool {
    trouble.is_timeout() || trouble.detail().is_some_and(|words| words.ends_with("timed out"))
}

/// Whether the connection was refused. For a cluster, the driver reports it only in its text.
pub(super) fn is_refusal(trouble: &RedisError) -> bool {
    trouble.is_connection_refusal()
        || trouble.detail().is_some_and(|words| words.contains("Connection refused"))
}

/// Returns the driver's error for a verb that had no answer in time.
pub(crate) fn silence() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

/// Returns the driver's error for a connection that has ended.
pub(crate) fn over() -> RedisError {
    io::Error::new(io::ErrorKind::ConnectionAborted, "it ended while much was under way").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(with: &str) -> RedisError {
        let answer = redis::parse_redis_value(format!("-{with}\r\n").as_bytes());
        answer.unwrap().extract_error().unwrap_err()
    }

    #[test]
    fn what_a_script_ran_into_is_found_in_the_words_of_every_version() {
        let wrapped = "ERR Error running script (call to f_0): @user_script:1: @user_script: 1:";
        for (with, wanted) in [
            ("OOM command not allowed. script: 0, on @user_script:1.".to_owned(), "OOM"),
            (format!("{wrapped} -OOM command not allowed."), "OOM"),
            (
                format!("{wrapped} -READONLY You can't write against a read only replica."),
                "READONLY",
            ),
            ("ERR The user executing the script can't run this command".to_owned(), "NOPERM"),
            (
                "ERR ACL failure in script: User a has no permissions to run the 'set' command"
                    .to_owned(),
                "NOPERM",
            ),
            (
                "ERR Script attempted to access a non local key in a cluster node".to_owned(),
                "TRYAGAIN",
            ),
            ("ERR Attempted to access a non local key in a cluster node".to_owned(), "TRYAGAIN"),
            (
                "ERR Unable to execute command 'exists' in script because undeclared keys were \
                 accessed during rehashing of the slot"
                    .to_owned(),
                "TRYAGAIN",
            ),
            (format!("{wrapped} attempt to index a nil value"), "ERR"),
        ] {
            assert_eq!(code(&refused(&with)), Some(wanted), "{with}");
        }
        assert!(is_full(&refused(&format!("{wrapped} -OOM command not allowed."))));
        assert!(ends_connection(&refused("READONLY You can't write against a read only replica.")));
        assert!(!ends_connection(&refused("BUSY Redis is busy running a script.")));
    }
}
