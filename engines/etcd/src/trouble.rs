//! Errors in the words of this project: what to do now, and no passwords.

use std::fmt::Display;
use std::io::{self, ErrorKind};

use rustls::{AlertDescription, Error as TlsError};
use tenure_core::{Error, Loss};
use tenure_kit::secret::redact;
use tenure_kit::server_errors::first_words;
use tenure_kit::tls;
use tenure_kit::url::Address;

use crate::channel::NO_HTTP2;
use crate::settings::Settings;
use crate::status::{Code, ENDED, STRANGE, Status};

/// etcd's text for a lease that does not exist.
const NO_LEASE: &str = "requested lease not found";

/// etcd's text for a member without a leader.
pub(crate) const NO_LEADER: &str = "no leader";

/// etcd's text for a request that the other members did not confirm in time.
const TIMED_OUT: &str = "request timed out";

/// etcd's text for a revision whose history was compacted.
const COMPACTED: &str = "has been compacted";

/// The condition for a leader.
const MAJORITY: &str = "more than half of the cluster's members must run and reach each other";

/// etcd's text for a token that is older than the last change of its users and roles.
const OLD_TOKEN: &str = "revision of auth store is old";

/// The alert of a server that speaks TLS, but not HTTP/2.
const NO_PROTOCOL: AlertDescription = AlertDescription::NoApplicationProtocol;

/// Returns the error for an answer of a member, or for a failed connection to one.
pub(crate) fn error(settings: &Settings, status: &Status) -> Error {
    let whom = settings.whom();
    let told = status.message();
    let says = redact(settings.login.password.iter(), first_words(told));
    let says = says.map_or(String::new(), |told| format!(" (it says: {told})"));
    if told.contains(NO_LEASE) {
        return Error::lost(Loss::SessionGone);
    }
    match status.code() {
        Code::ResourceExhausted if told.contains("space exceeded") => Error::rejected(format!(
            "{whom} has no space left (its alarm is NOSPACE), and takes nothing new: make room with `etcdctl compact REVISION`, `etcdctl defrag` and `etcdctl alarm disarm`"
        )),
        Code::ResourceExhausted if told.contains("too many requests") => {
            Error::unavailable(format!("{whom} has more to do than it can{says}"))
        }
        Code::PermissionDenied => Error::rejected(format!(
            "{whom} does not let this user read and write the keys of `{prefix}/`: give a role the right with `etcdctl role grant-permission ROLE --prefix=true readwrite {prefix}/`, and the user that role with `etcdctl user grant-role USER ROLE`",
            prefix = settings.prefix
        )),
        _ if is_stranger(status) => {
            Error::unavailable(format!("{whom} no longer knows who this client is{says}"))
        }
        Code::InvalidArgument if told.contains("authentication failed") => {
            Error::rejected(format!(
                "{whom} does not know this user and password: correct them in the URL, where `%` is written `%25` and `?` is written `%3F`"
            ))
        }
        Code::InvalidArgument if told.contains("user name is empty") => Error::rejected(format!(
            "{whom} wants a user: write user:password@ before the first server"
        )),
        Code::FailedPrecondition if told.contains("authentication is not enabled") => {
            Error::rejected(format!("{whom} has no users: leave user and password out of the URL"))
        }
        _ if told.contains(COMPACTED) => Error::unavailable(format!(
            "the history of {whom} was compacted while a list was read from it: ask again"
        )),
        Code::InvalidArgument
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Refused => Error::rejected(format!("{whom} refused{says}")),
        _ if is_leaderless(status) => leaderless(settings, ""),
        _ if told.contains(TIMED_OUT) => {
            Error::unavailable(format!("{whom} found no majority for a request{says}: {MAJORITY}"))
        }
        _ if told == STRANGE => strange(settings, settings.addresses()),
        _ if told == ENDED => refused_later(settings, &whom, status).unwrap_or_else(|| {
            Error::unavailable(format!(
                "{whom} ended the connection before it answered: is the member running?"
            ))
        }),
        _ => Error::unavailable(format!("{whom} did not answer{says}")),
    }
}

/// Returns the error for a member that has no leader, with the errors of the other members.
pub(crate) fn leaderless(settings: &Settings, others: &str) -> Error {
    let others = if others.is_empty() { String::new() } else { format!("; {others}") };
    Error::unavailable(format!("{} has no leader: {MAJORITY}{others}", settings.whom()))
}

/// Returns the error for a request without an answer in time.
pub(crate) fn silence(settings: &Settings) -> Error {
    Error::unavailable(format!(
        "{} did not answer within {:?}: is the member stopped, overloaded or cut off, and do more than half of the cluster's members run? `timeout=TIME` waits longer",
        settings.whom(),
        settings.timeout
    ))
}

/// Returns the error for callers of a member that was left because it is silent.
pub(crate) fn left(settings: &Settings) -> Error {
    let whom = settings.whom();
    Error::unavailable(format!(
        "{whom} was silent, and the connection to it is given up: is the member stopped, overloaded or cut off?"
    ))
}

/// Returns the error for a port that cannot be reached within `connect_timeout`.
pub(crate) fn out_of_reach(settings: &Settings, member: &Address) -> Error {
    Error::unavailable(format!(
        "no connection to {member} came about within {:?}: is the address right, and does a firewall let it through? `connect_timeout=TIME` waits longer",
        settings.connect_timeout
    ))
}

/// Returns the error for a port that can be reached, and gives no answer within `connect_timeout`.
pub(crate) fn mute(settings: &Settings, member: &Address) -> Error {
    Error::unavailable(format!(
        "something listens at {member}, and does not answer within {:?}: is the member stopped or overloaded, or is it another service's port? `connect_timeout=TIME` waits longer",
        settings.connect_timeout
    ))
}

/// Returns the error for a port that cannot be reached.
pub(crate) fn unreached(member: &Address, error: &io::Error) -> Error {
    Error::unavailable(format!(
        "the member {member} of etcd cannot be reached ({error}): is the address right, and is it running?"
    ))
}

/// Returns the error for a port whose program does not speak with this client.
pub(crate) fn unspoken(settings: &Settings, member: &Address, error: &io::Error) -> Error {
    let (whom, why) = (the_member(member), root(error));
    if let Some(error) = tls::certificate_error(&whom, error) {
        return error;
    }
    let tls_error = tls::tls_error(error);
    if why == NO_HTTP2 || matches!(tls_error, Some(TlsError::AlertReceived(NO_PROTOCOL))) {
        return strange(settings, member);
    }
    if error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<h2::Error>) {
        return ended(settings, member);
    }
    let is_no_tls = matches!(
        tls_error,
        Some(TlsError::InvalidMessage(_) | TlsError::InappropriateHandshakeMessage { .. })
    );
    Error::unavailable(if is_no_tls {
        format!(
            "a server answers at {member}, and not by TLS: write etcd:// for etcd without TLS, or {CLIENTS_PORT}"
        )
    } else if is_end(error.kind()) {
        format!(
            "{whom} ended the connection before TLS came about: does it speak TLS? without it, write etcd://"
        )
    } else {
        format!(
            "{whom} cannot be spoken to ({why}): is the address right, and is that the port of etcd's clients?"
        )
    })
}

/// Returns the error for a status in the place of the first answer over a connection.
pub(crate) fn at_the_door(settings: &Settings, member: &Address, status: &Status) -> Error {
    match status.message() {
        STRANGE => strange(settings, member),
        ENDED => refused_later(settings, &the_member(member), status)
            .unwrap_or_else(|| ended(settings, member)),
        _ => error(settings, status),
    }
}

/// Returns the error for a member that ends the connection without a reason, with a hint at the
/// usual reason.
fn ended(settings: &Settings, member: &Address) -> Error {
    let hint = match &settings.tls {
        None => "if it wants TLS, write etcds://; and is that the port of etcd's clients?",
        Some(tls) if !tls.has_identity() => {
            "if it wants a certificate of this client, name one as `cert=FILE` and `key=FILE`"
        }
        Some(_) => "is that the port of etcd's clients, and is `cert` one that the member trusts?",
    };
    let whom = the_member(member);
    Error::unavailable(format!("{whom} ended the connection before it answered: {hint}"))
}

fn is_end(kind: ErrorKind) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn the_member(member: &Address) -> String {
    format!("the member {member} of etcd")
}

const CLIENTS_PORT: &str = "name the port of etcd's clients, which is 2379 by default";

/// Returns the error for an answer that is not etcd's, or etcd's to a client with or without TLS by
/// mistake.
fn strange(settings: &Settings, place: impl Display) -> Error {
    let or =
        if settings.tls.is_none() { ", or write etcds:// if it is one that wants TLS" } else { "" };
    Error::unavailable(format!(
        "a server answers at {place}, and not as etcd does: {CLIENTS_PORT}{or}"
    ))
}

/// Returns the error to report if a member ended an open connection because of a certificate. With
/// TLS 1.3 a member looks at the certificate of a client only then.
fn refused_later(settings: &Settings, server: &str, status: &Status) -> Option<Error> {
    settings.tls.as_ref()?;
    tls::certificate_error_in_text(server, status.cause())
}

/// Returns the last cause of an error.
fn root(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().unwrap_or(error).to_string()
}

/// Returns whether the connection is of no more use after this answer.
pub(crate) fn ends_connection(status: &Status) -> bool {
    is_stranger(status) || status.code() == Code::Unavailable
}

/// Returns whether the member has no leader, and so answers nothing.
pub(crate) fn is_leaderless(status: &Status) -> bool {
    // The server gives only text.
    status.message().contains(NO_LEADER)
}

/// Returns whether the member does not know the token any more. Another token mends that.
pub(crate) fn is_stranger(status: &Status) -> bool {
    // The server gives only text.
    status.code() == Code::Unauthenticated || status.message().contains(OLD_TOKEN)
}
