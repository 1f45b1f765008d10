//! Translates errors of the driver into this project's errors. Each says how to go on, and none
//! contains a password.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tenure_core::{Error, Reason, Result, errors};
use tenure_kit::tls;

use crate::secret::{said, words};
use crate::settings::{DeploymentName, Settings};

/// Error codes that a script may raise.
const IN_SCRIPTS: [&str; 5] = ["OOM", "READONLY", "MISCONF", "NOREPLICAS", "WRONGTYPE"];

/// Error codes that may stand in the text of an error without a code.
const IN_WORDS: [&str; 3] = ["NOAUTH", "WRONGPASS", "NOPERM"];

/// The message for a value of a type that Tenure does not keep there.
const NOT_TENURES: &str =
    "keeps something under one of Tenure's names that is not Tenure's: choose another `prefix`";

/// A server that is asked about its cluster has none; Redis has no code for it.
const CLUSTERLESS: &str = "CLUSTERLESS";

/// A server has no database of this number; Redis has no code for it.
const NO_DATABASE: &str = "NODATABASE";

/// The code of Tenure's scripts for a line that this version cannot read. `NO_NUMBER` is the code
/// for a stored number that it cannot read.
const UNREADABLE: &str = "UNREADABLE";
const NO_NUMBER: &str = "NONUMBER";

/// Texts in place of a code. Redis 7 and 8, and Valkey 8 and 9, have different texts for one error.
const WITHOUT_CODE: [(&str, &str); 12] = [
    // The text of Tenure's own script.
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
];

/// Returns the error for an answer of the server, or for a failed connection to it. The driver's
/// own error is not kept, because it may contain a password.
pub(crate) fn error(settings: &Settings, trouble: &RedisError) -> Error {
    let name = &settings.name;
    let server = |hint: &str| format!("{} {hint}{}", name.whom(), it_says(settings, trouble));
    match code(trouble) {
        Some("OOM") => Error::rejected(server(
            "has no memory left, and takes no new tickets until it is given more or keeps less",
        )),
        Some("NOAUTH") => {
            Error::rejected(format!("{} wants a password: write {}", name.whom(), login(name)))
                .with_reason(Reason::LoginRequired)
        }
        Some("WRONGPASS") => stranger(name),
        Some(NO_DATABASE) => Error::rejected(server(&format!(
            "has no database {db}: name one that is there, as in /0, or raise its setting `databases` above {db}",
            db = settings.db
        ))),
        Some("NOPERM") => Error::rejected(server(
            "does not let this user do what a lock needs: see the engine's README for the ACL",
        )),
        Some("MISCONF") => Error::rejected(server(
            "cannot write its data to disk, and takes no tickets until it can",
        )),
        Some("WRONGTYPE") => Error::rejected(server(NOT_TENURES)).with_reason(Reason::ForeignData),
        Some(UNREADABLE) => errors::unreadable_ticket(),
        Some(NO_NUMBER) => errors::unreadable_number(),
        Some("LOADING") => Error::unavailable(server("is still loading its data")),
        Some("BUSY") => Error::unavailable(server("is busy with a script")),
        Some("READONLY" | "MASTERDOWN") => {
            Error::unavailable(server("is a replica, and its master is elsewhere or gone"))
        }
        Some("NOREPLICAS") => {
            Error::unavailable(server("has fewer replicas than it must have to take tickets"))
        }
        Some(CLUSTERLESS) => Error::invalid(server(
            "has a server that is not in cluster mode: write redis:// for a single server",
        )),
        Some("CLUSTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK") if name.is_one() => {
            Error::invalid(server("is a part of a cluster: write redis+cluster:// for it"))
        }
        Some("CLUSTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK") => Error::unavailable(server(
            "is being changed: a part of the cluster has nobody to answer for it",
        )),
        Some("NOSCRIPT") => Error::unavailable(server("forgets the scripts that it is told")),
        Some("CROSSSLOT") => Error::rejected(server("wants a script's keys in one slot")),
        Some(_) => Error::rejected(server("refused")),
        None => unanswered(settings, trouble),
    }
}

/// Where in a URL a user and a password stand.
fn login(name: &DeploymentName) -> &'static str {
    // A name is not a message.
    if name.to_string().starts_with('/') {
        "`user=` and `password=` behind the path of the socket"
    } else {
        ":password@ or user:password@ before the host, with %40 for an @ in it"
    }
}

fn stranger(name: &DeploymentName) -> Error {
    Error::rejected(format!(
        "{} does not know this user and password: correct {}",
        name.whom(),
        login(name)
    ))
}

/// So says a server that is no sentinel.
const NO_SENTINEL: &str = "unknown command 'SENTINEL'";

/// Returns the error for an answer of a sentinel, or for a failed connection to it. Sentinels have
/// a user and a password of their own, in other options of the URL.
pub(crate) fn of_sentinels(settings: &Settings, trouble: &RedisError) -> Error {
    let name = &settings.name;
    let is_login = matches!(code(trouble), Some("NOAUTH" | "WRONGPASS"))
        || trouble.kind() == ErrorKind::AuthenticationFailed;
    let unasked = |why: &str| {
        Error::unavailable(format!("no sentinel can be asked for {name}, because {why}"))
    };
    if is_refusal(trouble) {
        return unasked(
            "no server listens there: are they running, and is that their port, which is 26379 by default?",
        );
    }
    if is_unknown_host(trouble) {
        return unasked(&format!("a host {}", not_in_dns(settings, trouble)));
    }
    if trouble.is_timeout() {
        return unasked(&format!(
            "none answered within {:?}: are they stopped, overloaded or cut off? `connect_timeout=TIME` waits longer",
            settings.connect_timeout
        ));
    }
    if trouble.detail().is_some_and(|words| words.contains(NO_SENTINEL)) {
        return Error::invalid(format!(
            "a server that {name} names as a sentinel is none: write redis:// for a single server, or the sentinels' own port, which is 26379 by default{}",
            it_says(settings, trouble)
        ));
    }
    if !is_login {
        return error(settings, trouble);
    }
    Error::rejected(if settings.sentinel_login.password.is_some() {
        format!(
            "a sentinel that is asked for {name} does not know its `sentinel_user` and `sentinel_password`: \
             write those of the sentinels, which need not be the servers'"
        )
    } else {
        format!(
            "a sentinel does not let this client ask for {name}: write the sentinels' own user and password as \
             `sentinel_user` and `sentinel_password`"
        )
    })
}

/// Returns the code of a refusal. The code of an error in a script may be inside another error.
fn code(trouble: &RedisError) -> Option<&str> {
    let detail = trouble.detail().unwrap_or("");
    let Some(code) = trouble.code() else {
        // If no server of a cluster accepts the login, the driver puts the code into the text.
        return IN_WORDS.iter().copied().find(|code| detail.contains(&format!("\"{code}\"")));
    };
    if code != "ERR" {
        return Some(code);
    }
    // Redis 7 forgets the code of what a script's user may not do, and Redis 6 that of everything.
    let told = |words: &&(&str, &str)| detail.contains(words.0);
    if let Some((_, code)) = WITHOUT_CODE.iter().find(told) {
        return Some(code);
    }
    let inner = |code: &&str| detail.contains(&format!(": -{code} "));
    IN_SCRIPTS.iter().copied().find(inner).or(Some(code))
}

/// The server's own words, at the end of a sentence.
fn it_says(settings: &Settings, trouble: &RedisError) -> String {
    said(settings, trouble).map_or(String::new(), |words| format!(" (it says: {words})"))
}

/// The words of the driver, or of what it uses.
fn because(settings: &Settings, trouble: &RedisError) -> String {
    said(settings, trouble).map_or(String::new(), |words| format!(" ({words})"))
}

fn unanswered(settings: &Settings, trouble: &RedisError) -> Error {
    let name = &settings.name;
    let whom = name.whom();
    match trouble.kind() {
        ErrorKind::AuthenticationFailed => stranger(name),
        ErrorKind::RESP3NotSupported => Error::rejected(format!(
            "{whom} does not speak RESP3: Tenure needs Redis 6.2 or later, or Valkey"
        )),
        ErrorKind::InvalidClientConfig => match &settings.tls {
            Some(tls) if tls.has_identity() || tls.has_ca() => {
                // The reason is left out if it would repeat a password.
                let why = said(settings, trouble);
                tls.unusable(why.as_deref().unwrap_or("the client refuses them"))
            }
            _ => {
                Error::invalid(format!("the way to {name} is wrong{}", because(settings, trouble)))
            }
        },
        ErrorKind::MasterNameNotFoundBySentinel => Error::unavailable(format!(
            "no sentinel names a master for {name}: the name is wrong, or a fail-over is under way"
        )),
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Error::unavailable(format!(
            "somebody answers at {name}, and not as Redis does: is it another service's port?"
        )),
        _ => certificate_error(settings, trouble).unwrap_or_else(|| unreached(settings, trouble)),
    }
}

/// Returns the error to report if a certificate ended TLS: a retry does not help.
fn certificate_error(settings: &Settings, trouble: &RedisError) -> Option<Error> {
    settings.tls.as_ref()?;
    let server = settings.name.whom();
    if trouble.is_io_error() && trouble.source().is_none() {
        // The driver gives only text: a cluster keeps the text of the errors of its first
        // connections.
        return tls::certificate_error_in_text(&server, &said(settings, trouble)?);
    }
    tls::certificate_error(&server, trouble)
}

fn unreached(settings: &Settings, trouble: &RedisError) -> Error {
    let name = &settings.name;
    match trouble {
        _ if is_silence(trouble) => late(settings),
        _ if is_refusal(trouble) => {
            Error::unavailable(format!("no server listens at {name}: is it running?"))
        }
        _ if is_unknown_host(trouble) => {
            Error::unavailable(format!("{} {}", name.whom(), not_in_dns(settings, trouble)))
        }
        _ => Error::unavailable(format!(
            "the connection to {name} failed{}: is the server running, and does the network let it through?",
            because(settings, trouble)
        )),
    }
}

fn not_in_dns(settings: &Settings, trouble: &RedisError) -> String {
    let because = because(settings, trouble);
    format!("cannot be looked up{because}: is the name of the host right, and does DNS know it?")
}

/// Whether the host's name leads nowhere; only words tell it.
fn is_unknown_host(trouble: &RedisError) -> bool {
    words(trouble).contains("failed to lookup address")
}

/// Returns whether the call timed out. For a cluster, the driver reports a timeout only in its
/// text.
fn is_silence(trouble: &RedisError) -> bool {
    trouble.is_timeout() || trouble.detail().is_some_and(|words| words.ends_with("timed out"))
}

/// Returns whether the connection was refused. For a cluster, the driver reports it only in its
/// text.
fn is_refusal(trouble: &RedisError) -> bool {
    trouble.is_connection_refusal()
        || trouble.detail().is_some_and(|words| words.contains("Connection refused"))
}

/// Returns the error for an attempt that had no answer within `timeout`.
pub(crate) fn late(settings: &Settings) -> Error {
    Error::unavailable(format!(
        "{} did not answer within {:?}: is it stopped, overloaded or cut off? `timeout=TIME` waits longer",
        settings.name.whom(),
        settings.timeout
    ))
}

/// Returns the error for a connection that was not made within this time.
pub(crate) fn out_of_reach(settings: &Settings, time: Duration) -> Error {
    let or = if settings.tls.is_some() { ", and does it speak TLS" } else { "" };
    Error::unavailable(format!(
        "no connection to {} came about within {time:?}: is it stopped, overloaded or cut off{or}? `connect_timeout=TIME` waits longer",
        settings.name
    ))
}

/// Returns the error for a failed connection to a cluster. The driver gives the reason in its text,
/// and its code may belong to something else.
pub(crate) fn no_way_into_cluster(settings: &Settings, trouble: &RedisError) -> Error {
    if is_silence(trouble) {
        return out_of_reach(settings, settings.connect_timeout);
    }
    error(settings, trouble)
}

/// Returns the error for a failed connection, with a hint at the most frequent reason.
pub(crate) fn no_way_in(settings: &Settings, trouble: &RedisError) -> Error {
    if is_silence(trouble) {
        return out_of_reach(settings, settings.connect_timeout);
    }
    if is_refusal(trouble) || !trouble.is_connection_dropped() {
        return error(settings, trouble);
    }
    let hint = if settings.tls.is_some() {
        "does it speak TLS? without it, write redis://, or leave `tls=on` out"
    } else {
        "does it want TLS? then write rediss:// or `tls=on`"
    };
    if let Some(error) = certificate_error(settings, trouble) {
        return error;
    }
    let whom = settings.name.whom();
    Error::unavailable(format!("{whom} ended the connection before it answered: {hint}"))
}

/// An answer that no script of Tenure's gives.
pub(crate) fn strange(name: &DeploymentName) -> Error {
    Error::unavailable(format!(
        "the server {name} gave an answer that Tenure's scripts do not give"
    ))
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

/// Carries an answer over to this project's words.
pub(crate) fn answered<T>(settings: &Settings, answer: redis::RedisResult<T>) -> Result<T> {
    answer.map_err(|trouble| error(settings, &trouble))
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
    use tenure_core::ErrorKind;

    use super::*;

    fn refused(with: &str) -> RedisError {
        let answer = redis::parse_redis_value(format!("-{with}\r\n").as_bytes());
        answer.unwrap().extract_error().unwrap_err()
    }

    #[test]
    fn a_certificate_error_is_found_in_the_drivers_error_and_in_the_text_of_a_cluster() {
        let tls = |error: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        let settings = Settings::from_url("rediss://h").unwrap();
        let of_server = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let of_client = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
        for (cause, option) in [(of_server, "`ca=FILE`"), (of_client, "`cert=FILE`")] {
            let text = tls(cause.clone()).to_string();
            let first = "Failed to create initial connections";
            let of_cluster = RedisError::from((redis::ErrorKind::Io, first, text));
            for trouble in [RedisError::from(tls(cause)), of_cluster] {
                let error = super::error(&settings, &trouble);
                assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
                assert!(error.to_string().contains(option), "{error}");
            }
        }
        let reset = RedisError::from(io::Error::from(io::ErrorKind::ConnectionReset));
        assert_eq!(super::error(&settings, &reset).kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn a_scheme_that_does_not_fit_is_told_with_the_one_that_does() {
        let settings = |url| Settings::from_url(url).unwrap();
        let (one, cluster) = (settings("redis://h"), settings("redis+cluster://h"));
        for with in ["MOVED 1 h:1", "ASK 1 h:1", "CLUSTERDOWN The cluster is down"] {
            let error = super::error(&one, &refused(with));
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains("write redis+cluster://"), "{error}");
            assert_eq!(super::error(&cluster, &refused(with)).kind(), ErrorKind::Unavailable);
        }
        let with = refused("ERR This instance has cluster support disabled");
        let error = super::error(&cluster, &with);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let sentence =
            "the cluster of h:6379 has a server that is not in cluster mode: write redis://";
        assert!(error.to_string().starts_with(sentence), "{error}");
    }

    #[test]
    fn a_server_that_is_no_sentinel_is_told_with_the_way_out() {
        let settings = Settings::from_url("redis+sentinel://h:6379/main").unwrap();
        let with = refused("ERR unknown command 'SENTINEL', with args beginning with: 'x'");
        let error = super::of_sentinels(&settings, &with);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("write redis:// for a single server"), "{error}");
    }

    #[test]
    fn a_sentinel_that_wants_a_password_is_told_with_its_own_options() {
        let settings = Settings::from_url("redis+sentinel://clerk:s3cret@h/main").unwrap();
        for with in ["NOAUTH Authentication required.", "WRONGPASS invalid username-password pair"]
        {
            let error = of_sentinels(&settings, &refused(with));
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            assert!(error.to_string().contains("`sentinel_password`"), "{error}");
            assert!(!super::error(&settings, &refused(with)).to_string().contains("sentinel_"));
        }
        let busy = of_sentinels(&settings, &refused("LOADING it comes"));
        assert_eq!(busy.kind(), ErrorKind::Unavailable, "{busy}");
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
