//! Errors in the words of this project: what to do now, and no passwords.

use std::error::Error as _;
use std::io;

use tenure_core::{Error, Key, Reason};
use tenure_kit::secret::redact;
use tenure_kit::server_errors::first_words;
use tenure_kit::tls;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::settings::{Host, Settings};

/// The consequence of a statement's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlOutcome {
    /// Another transaction has the row, or has rolled this one back.
    Conflict,
    /// The connection is of no more use.
    Ended,
    /// A table or a function is not there.
    Missing,
    /// Any other.
    Failed,
}

pub(crate) fn outcome(error: &tokio_postgres::Error) -> SqlOutcome {
    let Some(code) = error.code() else { return SqlOutcome::Ended };
    match code.code() {
        _ if ends_session(error) => SqlOutcome::Ended,
        "55P03" | "40001" | "40P01" => SqlOutcome::Conflict,
        "42P01" | "42883" | "3F000" => SqlOutcome::Missing,
        // The same from a pooler, and the whole class of connection exceptions.
        // `read_only_sql_transaction` and `object_not_in_prerequisite_state`: the primary has
        // become a standby behind this address.
        "57P01" | "57P02" | "57P03" | "57P05" | "25006" | "55000" => SqlOutcome::Ended,
        other if other.starts_with("08") => SqlOutcome::Ended,
        _ => SqlOutcome::Failed,
    }
}

/// Whether the server ends the session, perhaps behind the commit of a statement.
fn ends_session(error: &tokio_postgres::Error) -> bool {
    let severity = error.as_db_error().and_then(DbError::parsed_severity);
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

/// Returns the error of a statement.
pub(crate) fn error(settings: &Settings, error: &tokio_postgres::Error) -> Error {
    let name = settings.name();
    let said = said(settings, error);
    let Some(code) = error.code() else {
        return Error::unavailable(format!("the connection to {name} failed{said}"));
    };
    let schema = &settings.schema;
    match code {
        &SqlState::INSUFFICIENT_PRIVILEGE => Error::rejected(format!(
            "{name} does not let this user do what a lock needs{said}: the end of the SQL of `tenure setup --dry-run` shows the rights that users need"
        )),
        _ if ends_session(error) => {
            Error::unavailable(format!("{name} has ended the connection{said}"))
        }
        &SqlState::UNDEFINED_COLUMN => Error::rejected(format!(
            "the schema {schema:?} of {name} has tables of another program{said}: set the option `schema` to another name"
        )),
        &SqlState::UNDEFINED_TABLE
        | &SqlState::UNDEFINED_FUNCTION
        | &SqlState::INVALID_SCHEMA_NAME => Error::rejected(format!(
            "the tables of the locks are not in the schema {schema:?} of {name}{said}: connect again to make them"
        )),
        &SqlState::DISK_FULL => Error::rejected(format!("the disk of {name} is full{said}")),
        _ if may_pass(code) => {
            Error::unavailable(format!("{name} did not carry out a statement{said}"))
        }
        _ => Error::rejected(format!("{name} refused a statement{said}")),
    }
}

/// Whether an error may pass: connection exceptions, transactions that were rolled back, too few
/// resources, and interventions of the operator.
fn may_pass(code: &SqlState) -> bool {
    matches!(code.code().get(..2), Some("08" | "25" | "40" | "53" | "55" | "57"))
}

/// Returns the error of a login.
pub(crate) fn at_the_door(
    settings: &Settings,
    host: &Host,
    error: &tokio_postgres::Error,
) -> Error {
    let said = said(settings, error);
    let Some(code) = error.code() else {
        let text = error.to_string();
        if text.contains("password missing") || said.contains("password missing") {
            return Error::rejected(format!(
                "{host} wants a password: write USER:PASSWORD@ before the first host"
            ))
            .with_reason(Reason::LoginRequired);
        }
        return Error::unavailable(format!(
            "{host} did not open a connection{said}: is it PostgreSQL's port?"
        ));
    };
    match code.code() {
        "28000" | "28P01" => Error::rejected(format!(
            "{host} does not let this user in{said}: correct user, password, database or `sslmode` in the URL, where `%` is written `%25`"
        ))
        .with_reason(Reason::LoginRequired),
        "3D000" => Error::rejected(format!("{host} does not have this database{said}")),
        "53300" => Error::unavailable(format!("{host} has no connection left{said}")),
        other if other != "42501" && !may_pass(code) => {
            Error::rejected(format!("{host} refused the login{said}"))
        }
        _ => self::error(settings, error),
    }
}

/// The message of the server or the driver, behind a sentence. Empty if it shows the password.
fn said(settings: &Settings, error: &tokio_postgres::Error) -> String {
    let text = match (error.as_db_error(), error.source()) {
        (Some(said), _) => said.message().to_owned(),
        (None, Some(source)) => source.to_string(),
        (None, None) => error.to_string(),
    };
    let text = redact(settings.password().into_iter(), first_words(&text));
    text.map_or_else(String::new, |text| format!(" (it says: {text})"))
}

/// Returns the error of a statement in a transaction of the user's.
pub(crate) fn in_transaction(error: &tokio_postgres::Error) -> Error {
    let Some(said) = error.as_db_error() else {
        return Error::unavailable(format!(
            "the connection of the transaction failed: repeat the transaction ({error})"
        ));
    };
    let (code, text) = (said.code(), first_words(said.message()));
    match code {
        &SqlState::INSUFFICIENT_PRIVILEGE => Error::rejected(format!(
            "the user of this transaction may not lock the row of the line (it says: {text}): see the engine's README for the rights"
        )),
        &SqlState::UNDEFINED_TABLE | &SqlState::UNDEFINED_COLUMN => Error::rejected(format!(
            "the database of this transaction does not have the tables of the locks (it says: {text}): use the database and the schema that keep the lock"
        )),
        _ if may_pass(code) => Error::unavailable(format!(
            "PostgreSQL did not carry out a statement (it says: {text}): roll back and repeat the transaction"
        )),
        _ => Error::rejected(format!("PostgreSQL refused a statement (it says: {text})")),
    }
}

pub(crate) fn no_answer(settings: &Settings) -> Error {
    Error::unavailable(format!("{} did not answer in time", settings.name()))
}

pub(crate) fn silent_host(host: &Host) -> Error {
    Error::unavailable(format!("{host} did not open a connection in time"))
}

pub(crate) fn unreached(host: &Host, error: &io::Error) -> Error {
    Error::unavailable(format!("{host} cannot be reached: {error}"))
}

pub(crate) fn without_tls(host: &Host) -> Error {
    Error::rejected(format!(
        "{host} does not speak TLS: set `ssl` to on there, or leave `sslmode` out"
    ))
}

pub(crate) fn untrusted(host: &Host, error: &io::Error) -> Error {
    tls::certificate_error(&host.to_string(), error).unwrap_or_else(|| {
        Error::unavailable(format!("the TLS connection to {host} failed: {error}"))
    })
}

/// Whether another client makes the tables at the same time.
pub(crate) fn is_made_twice(error: &tokio_postgres::Error) -> bool {
    // `unique_violation`, `duplicate_table`, `duplicate_schema`, `duplicate_object`, and a type of
    // the catalogue that another transaction updates.
    let code = error.code().map(SqlState::code);
    matches!(code, Some("23505" | "42P07" | "42P06" | "42710" | "XX000" | "40P01"))
}

/// The tables cannot be made.
pub(crate) fn not_made(settings: &Settings, error: &tokio_postgres::Error) -> Error {
    if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        return Error::rejected(format!(
            "the tables or functions of the locks are missing in the schema {:?}, and this user may not make them{}: have an administrator execute the SQL of `tenure setup --dry-run`, or GRANT CREATE ON DATABASE; for another schema, set the option `schema`",
            settings.schema,
            said(settings, error)
        ));
    }
    self::error(settings, error)
}

/// Another transaction has a row for too long.
pub(crate) fn locked_row(settings: &Settings, key: &Key) -> Error {
    Error::unavailable(format!(
        "another transaction has locked the row of {key:?}, or a table in the schema {:?}, of {}: see pg_locks there",
        settings.schema,
        settings.name()
    ))
    .with_key(key)
}

/// Another transaction has a table of the locks.
pub(crate) fn locked_table(settings: &Settings) -> Error {
    Error::unavailable(format!(
        "another transaction has locked a table in the schema {:?} of {}: see pg_locks there",
        settings.schema,
        settings.name()
    ))
}

/// The row of `meta` is gone.
pub(crate) fn no_meta(settings: &Settings) -> Error {
    Error::rejected(format!(
        "the table meta in the schema {:?} of {} has lost its row: drop the schema once no lock is held",
        settings.schema,
        settings.name()
    ))
    .with_reason(Reason::ForeignData)
}

/// A row whose key is not one.
pub(crate) fn no_key(settings: &Settings) -> Error {
    Error::rejected(format!(
        "the table line in the schema {:?} of {} has a row whose key is not UTF-8: another program wrote it",
        settings.schema,
        settings.name()
    ))
    .with_reason(Reason::ForeignData)
}

/// A value that is not text.
pub(crate) fn no_text(settings: &Settings, key: &Key) -> Error {
    Error::rejected(format!(
        "the value of {key:?} in the schema {:?} of {} is not UTF-8: another program wrote it",
        settings.schema,
        settings.name()
    ))
    .with_reason(Reason::UnreadableValue)
    .with_key(key)
}
