//! Errors in the words of this project: what to do now, and no passwords.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tenure_core::{Error, Loss, errors};
use tenure_kit::url::Address;
use zookeeper_client::Error as Said;

use crate::settings::Settings;

/// The engine found a ticket that it cannot read. The client crate has no error for that, and its
/// own `BadArguments` never has this text.
pub(crate) const UNREADABLE_TICKET: Said = Said::BadArguments(&"unreadable ticket");
/// The engine found a stored number that it cannot read.
pub(crate) const UNREADABLE_NUMBER: Said = Said::BadArguments(&"unreadable number");
/// The engine found a stored value that is no text.
pub(crate) const UNREADABLE_VALUE: Said = Said::BadArguments(&"unreadable value");

/// Returns the error for an answer of a server, or of the way to it.
pub(crate) fn error(settings: &Settings, said: &Said) -> Error {
    let whom = settings.whom();
    match said {
        Said::SessionExpired | Said::ClientClosed => Error::lost(Loss::SessionGone),
        Said::Timeout => silence(settings),
        Said::NoAuth | Said::AuthFailed | Said::InvalidAcl => Error::rejected(format!(
            "{whom} does not let this user do what a lock needs below {}/{}: give the user and password that made it, or another prefix",
            settings.chroot, settings.prefix
        )),
        Said::NoNode => Error::rejected(format!(
            "{whom} no longer has {}/{}, below which locks are kept: connect again to make it anew",
            settings.chroot, settings.prefix
        )),
        Said::QuotaExceeded => Error::rejected(format!(
            "{whom} has a quota below {}/{}, and it is used up: raise it",
            settings.chroot, settings.prefix
        )),
        Said::Unimplemented => Error::rejected(format!(
            "{whom} cannot do what a lock needs: ZooKeeper 3.5 or later is wanted"
        )),
        Said::NoHosts => Error::unavailable(format!(
            "{whom} accepts no client: {}, has it as many connections from this machine as it takes (maxClientCnxns), or is that another service's port?",
            is_running(settings)
        )),
        Said::NotReadOnly => Error::unavailable(format!("{whom} is cut off from its majority")),
        Said::Throttled => Error::unavailable(format!("{whom} has more to do than it can")),
        said if *said == UNREADABLE_TICKET => errors::unreadable_ticket(),
        said if *said == UNREADABLE_NUMBER => errors::unreadable_number(),
        said if *said == UNREADABLE_VALUE => errors::unreadable_value(),
        Said::NodeExists
        | Said::BadVersion
        | Said::NotEmpty
        | Said::NoChildrenForEphemerals
        | Said::BadArguments(_)
        | Said::MarshallingError => Error::rejected(format!("{whom} refused ({said})")),
        _ => Error::unavailable(format!("{whom} did not answer ({said}): is it running?")),
    }
}

/// Returns the error for a request without an answer in time.
pub(crate) fn silence(settings: &Settings) -> Error {
    Error::unavailable(format!("{} did not answer within {:?}", settings.whom(), settings.timeout))
}

/// Returns the error for a session that was not opened within `connect_timeout`.
pub(crate) fn late(settings: &Settings) -> Error {
    let (whom, within) = (settings.whom(), settings.connects_within());
    let hint = is_running(settings);
    Error::unavailable(format!(
        "{whom} accepted no client within {within:?}: {hint}? `connect_timeout=TIME` waits longer for each server"
    ))
}

/// Returns the advice for servers that let no client in. The servers of an ensemble let no client
/// in without their majority.
fn is_running(settings: &Settings) -> String {
    match settings.servers.len() {
        1 => "is it running".into(),
        all => format!("are {} of its {all} servers running", all / 2 + 1),
    }
}

/// Returns the error for a server that cannot be reached.
pub(crate) fn out_of_reach(server: &Address, error: &io::Error) -> Error {
    let hint = match error.kind() {
        ErrorKind::ConnectionRefused => "is it running?",
        _ => "is the address right, and is it running?",
    };
    Error::unavailable(format!("ZooKeeper at {server} cannot be reached ({error}): {hint}"))
}

/// Returns the error for servers that end each connection without an answer. Servers that are
/// choosing their leader may do that, too.
pub(crate) fn mute(settings: &Settings) -> Error {
    let hint = match settings.tls {
        None => "is it running? if it wants TLS there, write zookeepers://",
        Some(_) => {
            "is it running, and is that its secureClientPort? if it has no TLS there, write zookeeper://"
        }
    };
    Error::unavailable(format!(
        "{} ended the connection before it answered: {hint}",
        settings.whom()
    ))
}

/// Returns the error for an ensemble whose sessions may expire before their signs of life reach the
/// leader.
pub(crate) fn too_short(settings: &Settings, granted: Duration) -> Error {
    Error::rejected(format!(
        "{} grants sessions of {granted:?}, and a holder that counts on less than half of that is not safe, because servers tell their leader of it only every half tick: set maxSessionTimeout to two ticks or more, or tickTime to less",
        settings.whom()
    ))
}

/// Returns the error for a chroot that does not exist.
pub(crate) fn no_chroot(settings: &Settings) -> Error {
    Error::rejected(format!(
        "{} has no node {}, which the URL names as its chroot: make it, or leave it out of the URL",
        settings.whom(),
        settings.chroot
    ))
}

/// Returns the error for servers that are not one ensemble: these do not have a write to another
/// one.
pub(crate) fn several(settings: &Settings, others: &[String]) -> Error {
    Error::rejected(format!(
        "{} are not one ensemble: {} does not have what was written to another one of them, and two clients would be given the same lock. Name the servers of one ensemble, or one server that runs alone",
        settings.whom(),
        others.join(", ")
    ))
}

/// Returns the error for servers whose data went back.
pub(crate) fn went_back(settings: &Settings) -> Error {
    Error::rejected(format!(
        "{} went back to an older transaction: older data was restored, and numbers would be given again. Restore the newest data; or start this program anew, if nobody compares its tokens with older ones",
        settings.whom()
    ))
}
