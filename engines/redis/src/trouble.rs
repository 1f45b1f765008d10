//! Translates errors of the driver into this project's errors. Each says how to go on, and none
//! contains a password.

mod code;

use std::error::Error as _;
use std::time::Duration;

use redis::{ErrorKind, RedisError, RedisResult};
use tenure_core::ErrorKind::{Invalid, Rejected, Unavailable};
use tenure_core::{Error, Reason, Result, errors};
use tenure_kit::tls;

use crate::secret::said;
use crate::settings::{DeploymentName, Settings};
use code::{CLUSTERLESS, NO_DATABASE, NO_NUMBER, UNREADABLE};
use code::{code, is_refusal, is_silence, is_unknown_host};
pub(crate) use code::{
    ends_connection, is_about_what_is_kept, is_full, is_strange, over, silence, wants_scripts,
};

/// The code of a server's refusal, the kind of the error, and its sentence behind the server's name.
const REFUSALS: [(&str, tenure_core::ErrorKind, &str); 13] = [
    ("OOM", Rejected, "has no memory left for new tickets: give it more, or keep less in it"),
    ("NOPERM", Rejected, "does not let this user lock: see the engine's README for the ACL"),
    ("MISCONF", Rejected, "cannot write its data to disk, and takes no tickets until it can"),
    ("WRONGTYPE", Rejected, "keeps what is not Tenure's under a name of Tenure: choose a `prefix`"),
    ("CROSSSLOT", Rejected, "wants a script's keys in one slot"),
    ("LOADING", Unavailable, "is still loading its data"),
    ("BUSY", Unavailable, "is busy with a script"),
    ("READONLY", Unavailable, "is a replica, and its master is elsewhere or gone"),
    ("MASTERDOWN", Unavailable, "is a replica, and its master is elsewhere or gone"),
    ("NOREPLICAS", Unavailable, "has fewer replicas than it must have to take tickets"),
    ("NOSCRIPT", Unavailable, "forgets the scripts that it is told"),
    (IN_CLUSTERS[0], Unavailable, "is being changed: a part of the cluster has no server"),
    (CLUSTERLESS, Invalid, "has a server that is not in cluster mode: write redis:// for it"),
];

/// The codes that only servers of a cluster give.
const IN_CLUSTERS: [&str; 4] = ["CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"];

/// Returns the error for an answer of the server, or for a failed connection to it. The driver's
/// own error is not kept, because it may contain a password.
pub(crate) fn error(settings: &Settings, trouble: &RedisError) -> Error {
    let name = &settings.name;
    let server = |hint: &str| format!("{} {hint}{}", name.whom(), it_says(settings, trouble));
    match code(trouble) {
        None => unanswered(settings, trouble),
        Some(UNREADABLE) => errors::unreadable_ticket(),
        Some(NO_NUMBER) => errors::unreadable_number(),
        Some("NOAUTH") => {
            Error::rejected(format!("{} wants a password: write {}", name.whom(), login(name)))
                .with_reason(Reason::LoginRequired)
        }
        Some("WRONGPASS") => stranger(name),
        Some(NO_DATABASE) => Error::rejected(server(&format!(
            "has no database {db}: name one that is there, as in /0, or raise its setting `databases` above {db}",
            db = settings.db
        ))),
        Some(code) if name.is_one() && IN_CLUSTERS.contains(&code) => {
            Error::invalid(server("is a part of a cluster: write redis+cluster:// for it"))
        }
        Some(code) => {
            let code = if IN_CLUSTERS.contains(&code) { IN_CLUSTERS[0] } else { code };
            let row = REFUSALS.iter().find(|row| row.0 == code);
            match row.map_or((Rejected, "refused"), |row| (row.1, row.2)) {
                (Invalid, hint) => Error::invalid(server(hint)),
                (Unavailable, hint) => Error::unavailable(server(hint)),
                (_, hint) if code == "WRONGTYPE" => {
                    Error::rejected(server(hint)).with_reason(Reason::ForeignData)
                }
                (_, hint) => Error::rejected(server(hint)),
            }
        }
    }
}

/// Returns an answer, or the error for it.
pub(crate) fn answered<T>(settings: &Settings, answer: RedisResult<T>) -> Result<T> {
    answer.map_err(|trouble| error(settings, &trouble))
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
    let (server, login) = (name.whom(), login(name));
    Error::rejected(format!("{server} does not know this user and password: correct {login}"))
}

/// Returns the error for an answer of a sentinel, or for a failed connection to it. Sentinels have
/// a user and a password of their own, in other options of the URL.
pub(crate) fn of_sentinels(settings: &Settings, trouble: &RedisError) -> Error {
    let name = &settings.name;
    let unasked = |why: &str| {
        Error::unavailable(format!("no sentinel can be asked for {name}, because {why}"))
    };
    match code(trouble) {
        _ if is_refusal(trouble) => unasked(
            "no server listens there: are they running, and is that their port, which is 26379 by default?",
        ),
        _ if is_unknown_host(trouble) => {
            unasked(&format!("a host {}", not_in_dns(settings, trouble)))
        }
        _ if trouble.is_timeout() => unasked(&format!(
            "none answered within {:?}: are they stopped, overloaded or cut off? `connect_timeout=TIME` waits longer",
            settings.connect_timeout
        )),
        _ if trouble.detail().is_some_and(|it| it.contains("unknown command 'SENTINEL'")) => {
            Error::invalid(format!(
                "a server that {name} names as a sentinel is none: write redis:// for a single server, or the sentinels' own port, which is 26379 by default{}",
                it_says(settings, trouble)
            ))
        }
        Some("NOAUTH" | "WRONGPASS") => wrong_sentinel_login(settings),
        _ if trouble.kind() == ErrorKind::AuthenticationFailed => wrong_sentinel_login(settings),
        _ => error(settings, trouble),
    }
}

fn wrong_sentinel_login(settings: &Settings) -> Error {
    let name = &settings.name;
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

/// Returns the error for a failed connection, with a hint at the most frequent reason.
pub(crate) fn no_way_in(settings: &Settings, trouble: &RedisError) -> Error {
    if is_silence(trouble) {
        return out_of_reach(settings, settings.connect_timeout);
    }
    // The driver gives the reason for a cluster in its text, and its code may be another one's.
    let is_cluster = matches!(settings.name, DeploymentName::Cluster(_));
    if is_cluster || is_refusal(trouble) || !trouble.is_connection_dropped() {
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

#[cfg(test)]
mod tests {
    use std::io;

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
}
