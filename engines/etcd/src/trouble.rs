//! What went wrong, in the words of this project: what to do now, and no passwords.

use tenure_core::{Error, Loss};
use tenure_kit::secret::without;
use tenure_kit::tls::distrust;

use crate::settings::Settings;
use crate::status::{Code, ENDED, Status};

/// What etcd says of a lease that is not there.
const NO_LEASE: &str = "requested lease not found";

/// What etcd says of a token that is older than the last change of its users and roles.
const OLD_TOKEN: &str = "revision of auth store is old";

/// What a member of these settings, or the way to it, answered.
pub(crate) fn error(settings: &Settings, status: &Status) -> Error {
    let whom = settings.whom();
    let told = status.message();
    let says = without(settings.login.password.iter(), told.to_owned());
    let says = says.map_or(String::new(), |told| format!(" (it says: {told})"));
    if told.contains(NO_LEASE) {
        return Error::lost(Loss::SessionGone);
    }
    match status.code() {
        Code::ResourceExhausted if told.contains("space exceeded") => Error::rejected(format!(
            "{whom} has no space left, and takes no new tickets until it is compacted, defragmented, and its alarm is disarmed"
        )),
        Code::ResourceExhausted if told.contains("too many requests") => {
            Error::unavailable(format!("{whom} has more to do than it can{says}"))
        }
        Code::PermissionDenied => Error::rejected(format!(
            "{whom} does not let this user read and write the keys of `{prefix}/`: let its role, with `etcdctl role grant-permission ROLE --prefix=true readwrite {prefix}/`",
            prefix = settings.prefix
        )),
        _ if is_stranger(status) => {
            Error::unavailable(format!("{whom} no longer knows who this client is{says}"))
        }
        Code::InvalidArgument if told.contains("authentication failed") => {
            Error::rejected(format!("{whom} does not know this user and password"))
        }
        Code::InvalidArgument if told.contains("user name is empty") => {
            Error::rejected(format!("{whom} wants a user: write user:password@ before the members"))
        }
        Code::FailedPrecondition if told.contains("authentication is not enabled") => {
            Error::rejected(format!("{whom} has no users: leave user and password out of the URL"))
        }
        Code::InvalidArgument
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Refused => Error::rejected(format!("{whom} refused{says}")),
        _ if told == ENDED => distrust(&whom, status.cause()).unwrap_or_else(|| {
            Error::unavailable(format!(
                "{whom} did not answer as etcd does: the connection ended, or another service listens there, or etcd that wants etcds://"
            ))
        }),
        _ => Error::unavailable(format!("{whom} did not answer{says}")),
    }
}

/// What is said when there is no answer in time.
pub(crate) fn silence(settings: &Settings) -> Error {
    Error::unavailable(format!("{} did not answer within {:?}", settings.whom(), settings.timeout))
}

/// Whether the connection is of no more use after this answer.
pub(crate) fn ends_connection(status: &Status) -> bool {
    is_stranger(status) || status.code() == Code::Unavailable
}

/// Whether the member does not know any more who this client is, which another token mends.
pub(crate) fn is_stranger(status: &Status) -> bool {
    status.code() == Code::Unauthenticated || status.message().contains(OLD_TOKEN)
}
