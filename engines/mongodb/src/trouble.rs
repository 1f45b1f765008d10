//! Errors of the servers and the driver as errors of this project: what to do now, and no
//! passwords.

use mongodb::error::{CommandError, ErrorKind};
use tenure_core::{Error, Key, Reason, errors};
use tenure_kit::secret::redact;

use crate::location::Location;
use crate::name::Name;
use crate::readable::{MARK, NO_NUMBER_MARK};

/// Another command inserted the record at the same time.
pub(crate) const DUPLICATE_KEY: i32 = 11_000;
/// Error codes of a server that is no primary any more: `InterruptedAtShutdown`,
/// `InterruptedDueToReplStateChange`, `ShutdownInProgress`, `PrimarySteppedDown`,
/// `NotWritablePrimary`, `NotPrimaryNoSecondaryOk`, `NotPrimaryOrSecondary`.
const NOT_PRIMARY: [i32; 7] = [11_600, 11_602, 91, 189, 10_107, 13_435, 13_436];
/// The command was ended, and may have been carried out: `MaxTimeMSExpired`, `ExceededTimeLimit`,
/// `NetworkTimeout`, `HostUnreachable`, `HostNotFound`, `WriteConflict`, `Interrupted`,
/// `NetworkInterfaceExceededTimeLimit`, `WriteConcernTimeout`, `LockTimeout`, `SocketException`,
/// `StaleConfig`, `FailedToSatisfyReadPreference`.
const UNKNOWN: [i32; 13] = [50, 262, 89, 6, 7, 112, 11_601, 202, 64, 24, 9001, 13_388, 133];

/// The driver's message for an answer with an impossible length.
const GARBLED: &str = "out of range integral type conversion";

/// Maximum letters of a server's message in an error.
const WORDS_MAX: usize = 160;

/// Converts an error of the servers or of the connection. The driver's own error is not kept: it
/// may repeat a password.
pub(crate) fn error(name: &Name, trouble: &mongodb::error::Error) -> Error {
    let servers = &name.servers;
    match &*trouble.kind {
        ErrorKind::Command(command) => refused(name, command),
        ErrorKind::Write(_) => Error::unavailable(format!(
            "a majority of {servers} did not confirm in time{}: it may be carried out all the same",
            it_says(name, &trouble.kind.to_string())
        )),
        ErrorKind::Authentication { message, .. } => Error::rejected(format!(
            "{servers} does not know this user and password: write user:password@ before the servers, and name the database of the user as `authSource`{}",
            it_says(name, message)
        )),
        // The driver gives only text.
        ErrorKind::InvalidArgument { message, .. } if message.contains(GARBLED) => {
            Error::unavailable(format!(
                "the answer of {servers} is not MongoDB's: is it another service's port?"
            ))
        }
        ErrorKind::InvalidArgument { message, .. }
        | ErrorKind::InvalidTlsConfig { message, .. } => {
            Error::invalid(format!("the way to {servers} is wrong{}", it_says(name, message)))
        }
        ErrorKind::IncompatibleServer { message, .. } => Error::rejected(format!(
            "{servers} is not a MongoDB that Tenure can use: it needs 4.4 or later{}",
            it_says(name, message)
        )),
        ErrorKind::ServerSelection { message, .. } => unreached(name, message),
        ErrorKind::DnsResolve { message, .. } => Error::unavailable(format!(
            "the servers of {servers} are not found in DNS{}",
            it_says(name, message)
        )),
        ErrorKind::Io(error) => Error::unavailable(format!(
            "the connection to {servers} failed{}",
            it_says(name, &error.to_string())
        )),
        kind => Error::unavailable(format!(
            "{servers} gave no answer{}",
            it_says(name, &kind.to_string())
        )),
    }
}

/// Returns whether a server refused one document, and not the command.
pub fn is_about_one(error: &Error) -> bool {
    error.reason() == Some(Reason::DocumentRefused)
}

/// Returns whether a server refused an insert because the `_id` exists already: another command was
/// quicker. The index of the `_id` is the only one in which two inserts of one record can collide.
pub(crate) fn is_inserted(error: &mongodb::error::Error) -> bool {
    let index = error.server_response().and_then(|answer| answer.get_document("keyPattern").ok());
    index.is_none_or(|index| index.iter().flatten().all(|(name, _)| name.as_str() == "_id"))
}

fn refused(name: &Name, command: &CommandError) -> Error {
    let servers = &name.servers;
    let says = it_says(name, &command.message);
    // The server gives only text.
    match command.code {
        _ if command.message.contains(MARK) => errors::unreadable_ticket(),
        _ if command.message.contains(NO_NUMBER_MARK) => errors::unreadable_number(),
        18 => Error::rejected(format!("{servers} does not know this user and password{says}")),
        13 if command.message.contains("requires authentication") => Error::rejected(format!(
            "{servers} wants a user: write user:password@ before the servers, and name the user's database as `authSource`"
        ))
        .with_reason(Reason::LoginRequired),
        13 => Error::rejected(format!(
            "{servers} does not let this user do what a lock needs: see the engine's README for the role{says}"
        )),
        66 => other_id(&says),
        121 => Error::rejected(format!(
            "{servers} refuses the write because of the collection's validator: what is written does not pass it, or it forbids the field that has the locks{says}"
        ))
        .with_reason(Reason::DocumentRefused),
        10_334 | 17_419 | 17_420 => {
            Error::rejected(format!("the record of this line is too long for {servers}{says}"))
                .with_reason(Reason::DocumentRefused)
        }
        code if NOT_PRIMARY.contains(&code) => Error::unavailable(format!(
            "{servers} has no primary at the moment, or another one{says}"
        )),
        code if UNKNOWN.contains(&code) => Error::unavailable(format!(
            "{servers} did not confirm the command in time: it may be carried out all the same{says}"
        )),
        DUPLICATE_KEY => Error::rejected(format!(
            "a unique index of {servers} refuses the document, because another one has the same value: change the value, or drop the index{says}"
        )),
        code => Error::rejected(format!(
            "{servers} refused the command with the code {code}: check the filter, the order or the update that the program gave, or look up the code in MongoDB's manual{says}"
        )),
    }
}

/// Words in the driver's message about a server, and what to do about them. The hints that help
/// most come first.
const HINTS: [(&str, &str); 9] = [
    ("Connection refused", "no server listens there: is the server running?"),
    (
        "tls handshake eof",
        "the connection ended before TLS came about: does the server speak it? `tls=false` goes without",
    ),
    ("unexpected end of file", RUDE),
    ("Connection reset", RUDE),
    ("roken pipe", RUDE),
    ("invalid reply", "the answer there is not MongoDB's: is it another service's port?"),
    ("RsPrimary", NOT_AGAIN),
    ("ReplicaSetWithPrimary", NOT_AGAIN),
    ("timed out", SILENT),
];

const RUDE: &str = "the connection ended before a word: does the server want `tls=true`, or is it another service's port?";

const SILENT: &str =
    "the server there says nothing: is it stopped or overloaded, or is it another service's port?";

const NOT_AGAIN: &str = "it was not found again in time";

/// The error if no server was found that takes writes, with a hint from the driver's message.
fn unreached(name: &Name, message: &str) -> Error {
    let servers = &name.servers;
    // The driver gives only text.
    let why = if message.contains("Authentication failed") || message.contains("SCRAM failure") {
        return Error::rejected(format!(
            "{servers} does not know this user and password: name the database of the user as `authSource`"
        ));
    } else if message.contains("certificate") || message.contains("UnknownIssuer") {
        return Error::rejected(format!(
            "{servers} and this client do not trust each other's certificates: see `tlsCAFile` and `tlsCertificateKeyFile`"
        ));
        // The driver gives only text.
    } else if message.contains("RsSecondary") && !message.contains("RsPrimary") {
        "members of it are there and have none: an election takes some ten seconds, and `timeout=20s` in the URL lets a call wait for it"
    } else if let Some(name) = unknown_name(message) {
        return Error::unavailable(format!(
            "no DNS server or hosts file knows the name of {name}: is it spelt right?"
        ));
        // The driver gives only text.
    } else if !message.contains("Servers: [") {
        "none of them is in the replica set that `replicaSet` names"
    } else if let Some((_, hint)) = HINTS.iter().find(|(words, _)| message.contains(words)) {
        hint
    } else if told_of(message).all(|server| server.contains("Type: Unknown"))
        && !message.contains("Error: ")
    {
        SILENT
    } else {
        "none of them takes writes, or none answers as MongoDB: are the addresses, `replicaSet` and `tls` right?"
    };
    Error::unavailable(format!("no primary was found among {servers}: {why}"))
        .with_reason(Reason::NoPrimary)
}

/// Returns the first server whose name could not be looked up.
fn unknown_name(message: &str) -> Option<&str> {
    told_of(message).find(|server| server.contains("failed to lookup"))?.split(',').next()
}

/// Returns the driver's message about each server, from its address on.
fn told_of(message: &str) -> impl Iterator<Item = &str> {
    message.split("Address: ").skip(1)
}

/// The error if the primary carried out a write that may not last.
pub(crate) fn unconfirmed(name: &Name, code: i64, message: &str) -> Error {
    Error::unavailable(format!(
        "a majority of {} did not confirm the write in time (code {code}): it may last or be undone{}",
        name.servers,
        it_says(name, message)
    ))
}

/// The error if no server answered within the time of one call.
pub(crate) fn late(name: &Name) -> Error {
    Error::unavailable(format!(
        "{} did not answer in time: is a server running there, and one of them the primary?",
        name.servers
    ))
}

/// The error if other clients inserted and deleted the record again and again.
pub(crate) fn contended(name: &Name) -> Error {
    Error::unavailable(format!(
        "other clients of {} insert and delete the same record again and again: try again later",
        name.servers
    ))
}

/// The error if a ticket left its line between two reads of it.
pub(crate) fn ended(name: &Name) -> Error {
    Error::unavailable(format!(
        "{} lost the ticket between two commands: its lease ended, or another client broke it",
        name.servers
    ))
}

/// The error if a document would get another `_id`.
pub fn other_id(says: &str) -> Error {
    Error::invalid(format!(
        "an _id cannot be changed: the value that replaces a document has the same one, or none{says}"
    ))
}

/// The error for an answer that no verb of Tenure's gives.
pub(crate) fn strange(name: &Name) -> Error {
    Error::rejected(format!(
        "{} gave an answer that Tenure's records do not give: give Tenure a `collection` of its own",
        name.servers
    ))
}

/// Adds the place of the record to an error about the contents of a record.
pub(crate) fn in_record(error: Error, collection: &str, record: &str, key: &Key) -> Error {
    let place = format!("as the record {record} of the collection {collection}");
    errors::with_place(error, key, &place)
}

/// The same for a line, which may be in a field of a program's document.
pub(crate) fn in_line(error: Error, collection: &str, spot: &Location, key: &Key) -> Error {
    let Some(field) = spot.kit.answers.field_name() else {
        return in_record(error, collection, &spot.record, key);
    };
    let place = format!("as the field `{field}` of that document in the collection {collection}");
    errors::with_place(error, key, &place)
}

/// Returns the driver's or the server's own message, for the end of a sentence, without parts of a
/// password.
fn it_says(name: &Name, words: &str) -> String {
    // The driver wraps an error into another one with all its fields.
    let words = words.split(", labels: {").next().unwrap_or(words).replace("Kind: ", "");
    let words: Vec<&str> = words.split_whitespace().collect();
    match redact(name.secrets.iter(), words.join(" ")) {
        // A server may repeat the whole command.
        Some(words) if words.chars().count() > WORDS_MAX => {
            let first: String = words.chars().take(WORDS_MAX).collect();
            format!(": it says `{first}…`")
        }
        Some(words) if !words.is_empty() => format!(": it says `{words}`"),
        _ => String::new(),
    }
}
