//! Errors in the words of this project: what to do now, and no passwords.

use mysql_async::{DriverError, Error as SqlError};
use tenure_core::{Error, Key, Reason};
use tenure_kit::secret::redact;
use tenure_kit::server_errors::first_words;
use tenure_kit::tls;

use crate::settings::{HostOrSocket, Settings};

/// The consequence of a statement's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// Another transaction has the row, or has rolled this one back.
    Conflict,
    /// The connection is of no more use.
    Ended,
    /// A table or a procedure is not there.
    Missing,
    /// Any other.
    Failed,
}

pub(crate) fn outcome(error: &SqlError) -> ErrorClass {
    let SqlError::Server(error) = error else { return ErrorClass::Ended };
    match error.code {
        // A wait for a row that was too long, a deadlock, `NOWAIT` of MySQL, a row that has changed
        // since the transaction began, and a commit that a replication group has rolled back.
        1205 | 1213 | 3572 | 1020 | 3101 => ErrorClass::Conflict,
        1146 | 1305 => ErrorClass::Missing,
        // The server shuts down, or an operator has ended the connection or the statement, or it
        // took too long; the server has become read-only, as a replica; or it lacks something. A
        // procedure that was ended from outside leaves its transaction open: it ends with the
        // connection.
        code if may_pass(code) => ErrorClass::Ended,
        _ => ErrorClass::Failed,
    }
}

/// Whether the connection goes on after this error of a statement that opens no transaction:
/// another client or a time limit has ended it, or another transaction was in its way.
pub(crate) fn is_interrupted(error: &SqlError) -> bool {
    let SqlError::Server(server) = error else { return false };
    matches!(server.code, 1317 | 1969 | 3024) || outcome(error) == ErrorClass::Conflict
}

/// Returns the error of a statement.
pub(crate) fn error(settings: &Settings, error: &SqlError) -> Error {
    let name = settings.name();
    let said = said(settings, error);
    let SqlError::Server(server) = error else {
        return Error::unavailable(format!("the connection to {name} failed{said}"));
    };
    match server.code {
        1044 | 1142 | 1143 | 1227 | 1370 => Error::rejected(format!(
            "{name} does not let this user do what a lock needs{said}: grant EXECUTE, SELECT, INSERT, UPDATE, DELETE on the database; to make the tables also CREATE, CREATE ROUTINE, ALTER ROUTINE (see the engine's README)"
        )),
        1146 | 1305 => Error::rejected(format!(
            "the tables or procedures of the locks with the prefix `{}` are missing at {name}{said}: connect again to make them",
            settings.prefix
        )),
        1021 | 1114 => {
            Error::rejected(format!("the disk of {name} is full{said}: make room there"))
        }
        code if may_pass(code) => {
            Error::unavailable(format!("{name} did not carry out a statement{said}"))
        }
        _ => Error::rejected(format!("{name} refused a statement{said}")),
    }
}

/// Returns the error of a statement in a transaction of the caller's.
pub(crate) fn in_transaction(error: &SqlError) -> Error {
    let SqlError::Server(server) = error else {
        return Error::unavailable(format!(
            "the connection of the transaction failed: repeat the transaction ({})",
            first_words(&error.to_string())
        ));
    };
    let text = first_words(&server.message);
    match server.code {
        1044 | 1142 | 1143 => Error::rejected(format!(
            "the user of this transaction may not lock the row of the line (it says: {text}): see the engine's README for the rights"
        )),
        1046 | 1054 | 1146 => Error::rejected(format!(
            "the database of this transaction does not have the tables of the locks (it says: {text}): use the database and the prefix that keep the lock"
        )),
        code if may_pass(code) => Error::unavailable(format!(
            "the server did not carry out a statement (it says: {text}): roll back and repeat the transaction"
        )),
        _ => Error::rejected(format!("the server refused a statement (it says: {text})")),
    }
}

/// Whether an error may pass: transactions that were rolled back, too few resources, interventions
/// of the operator, and a log that could not be written. A commit that failed with 1180, 1598 or
/// 3100 may have been carried out.
fn may_pass(code: u16) -> bool {
    const SOME: [u16; 25] = [
        1020, 1026, 1030, 1037, 1038, 1040, 1041, 1053, 1180, 1203, 1205, 1206, 1213, 1226, 1290,
        1317, 1598, 1792, 1836, 1927, 1969, 3024, 3100, 3101, 3169,
    ];
    // Below 1000 are errors of files, which `ring_1` may meet behind a commit. From 2000 to 2999
    // are those of client libraries, and from 9000 on those of ProxySQL: a proxy has lost its
    // server.
    code < 1000
        || (2000..3000).contains(&code)
        || code >= 9000
        || SOME.contains(&code)
        || matches!(code, 3572 | 4031)
}

/// Returns the error of a login.
pub(crate) fn at_the_door(settings: &Settings, host: &HostOrSocket, error: &SqlError) -> Error {
    if let Some(error) = tls::certificate_error(&host.to_string(), error) {
        return error;
    }
    let said = said(settings, error);
    match error {
        SqlError::Driver(DriverError::NoClientSslFlagFromServer) => Error::rejected(format!(
            "{host} does not speak TLS: give it a certificate, or leave `ssl-mode` out"
        )),
        SqlError::Server(server) => match server.code {
            1045 | 1251 | 1698 => Error::rejected(format!(
                "{host} does not let this user in{said}: correct user, password or `ssl-mode` in the URL, where `%` is written `%25`"
            ))
            .with_reason(Reason::LoginRequired),
            1044 | 1049 => {
                Error::rejected(format!("{host} does not have this database, or the user may not use it{said}: create it, or grant the user rights on it"))
            }
            1040 | 1203 => Error::unavailable(format!("{host} has no connection left{said}: raise max_connections, and plan two for each client")),
            1129 | 1130 => Error::rejected(format!("{host} refuses this machine{said}: create an account for it, or execute FLUSH HOSTS after error 1129")),
            3159 => Error::rejected(format!(
                "{host} accepts TLS only{said}: write `ssl-mode=VERIFY_IDENTITY` in the URL, and `ssl-ca=FILE` if its authority is not public"
            )),
            1820 | 1862 | 3118 | 4151 => Error::rejected(format!(
                "{host} does not let this user in{said}: unlock the account, or set a new password"
            ))
            .with_reason(Reason::LoginRequired),
            _ => self::error(settings, error),
        },
        _ => Error::unavailable(format!("{host} did not open a connection{said}: check host and port, and whether the server runs")),
    }
}

/// The message of the server or the driver, behind a sentence. Empty if it shows the password.
fn said(settings: &Settings, error: &SqlError) -> String {
    let text = match error {
        SqlError::Server(error) => error.message.clone(),
        other => other.to_string(),
    };
    let text = redact(settings.password().into_iter(), first_words(&text));
    text.map_or_else(String::new, |text| format!(" (it says: {text})"))
}

pub(crate) fn no_answer(settings: &Settings) -> Error {
    Error::unavailable(format!("{} did not answer in time", settings.name()))
}

pub(crate) fn ended(settings: &Settings) -> Error {
    Error::unavailable(format!("the connection to {} has ended", settings.name()))
}

pub(crate) fn silent_host(host: &HostOrSocket) -> Error {
    Error::unavailable(format!(
        "{host} did not open a connection in time: check the network, or raise `connect_timeout`"
    ))
}

/// Another transaction has the row of a key for long.
pub(crate) fn locked_row(settings: &Settings, key: &Key) -> Error {
    Error::unavailable(format!(
        "another transaction has locked the row of {key:?} in a table with the prefix `{}` at {}: see information_schema.INNODB_TRX there",
        settings.prefix,
        settings.name()
    ))
    .with_key(key)
}

/// The tables or procedures could not be made.
pub(crate) fn incomplete(settings: &Settings) -> Error {
    Error::unavailable(format!(
        "the tables or procedures with the prefix `{}` at {} are incomplete, and others are in the way of making them: try again, or execute the SQL of `tenure setup --dry-run`",
        settings.prefix,
        settings.name()
    ))
}

/// The row of `meta` is gone.
pub(crate) fn no_meta(settings: &Settings) -> Error {
    Error::rejected(format!(
        "the table {}meta at {} has lost its row: drop the tables once no lock is held",
        settings.prefix,
        settings.name()
    ))
    .with_reason(Reason::ForeignData)
}

/// A row whose key is not one.
pub(crate) fn no_key(settings: &Settings) -> Error {
    Error::rejected(format!(
        "the table {}line at {} has a row whose key is not UTF-8: another program wrote it",
        settings.prefix,
        settings.name()
    ))
    .with_reason(Reason::ForeignData)
}

/// A value that is not text.
pub(crate) fn no_text(settings: &Settings, key: &Key) -> Error {
    Error::rejected(format!(
        "the value of {key:?} at {} is not UTF-8: another program wrote it",
        settings.name()
    ))
    .with_reason(Reason::UnreadableValue)
    .with_key(key)
}

#[cfg(test)]
mod tests {
    use mysql_async::{Error as SqlError, ServerError};
    use tenure_core::ErrorKind;

    use super::{ErrorClass, error, outcome};
    use crate::settings::Settings;

    #[test]
    fn a_commit_that_failed_is_unknown_and_one_that_was_rolled_back_is_repeated() {
        let settings = Settings::hosts(["h"], "d").unwrap();
        for code in [6, 1180, 1206, 1317, 1598, 1969, 2006, 2013, 3024, 3100, 9001] {
            let (message, state) = (String::new(), String::new());
            let failed = SqlError::Server(ServerError { code, message, state });
            assert_eq!(outcome(&failed), ErrorClass::Ended, "{code}");
            assert_eq!(error(&settings, &failed).kind(), ErrorKind::Unavailable, "{code}");
        }
        for code in [1205, 1213, 3101, 3572] {
            let (message, state) = (String::new(), String::new());
            let failed = SqlError::Server(ServerError { code, message, state });
            assert_eq!(outcome(&failed), ErrorClass::Conflict, "{code}");
        }
    }
}
