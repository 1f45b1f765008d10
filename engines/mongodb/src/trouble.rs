//! Errors of the servers and the driver as errors of this project: what to do now, and no
//! passwords.

use mongodb::error::{CommandError, ErrorKind};
use tenure_core::{Error, Key, Reason, errors};
use tenure_kit::secret::redact;

use crate::location::Location;
use crate::readable::{MARK, NO_NUMBER_MARK};
use crate::server_label::ServerLabel;

/// Another command inserted the record at the same time.
pub(crate) const DUPLICATE_KEY: i32 = 11_000;
/// The driver's message for an answer with an impossible length.
const GARBLED: &str = "out of range integral type conversion";
/// Maximum letters of a server's message in an error.
const WORDS_MAX: usize = 160;

type Make = fn(String) -> Error;

const UNAVAILABLE: Make = |text| Error::unavailable(text);
const REJECTED: Make = |text| Error::rejected(text);
const INVALID: Make = |text| Error::invalid(text);
const REFUSED_DOCUMENT: Make = |text| Error::rejected(text).with_reason(Reason::DocumentRefused);

const LOGIN: &str = "{} does not know this user and password: write user:password@ before the servers, and name the database of the user as `authSource`";

/// The sentence for each code of a refused command, with `{}` for the servers.
const REFUSALS: &[(&[i32], Make, &str)] = &[
    (
        &[13],
        REJECTED,
        "{} does not let this user do what a lock needs: see the engine's README for the role",
    ),
    (&[18], REJECTED, LOGIN),
    (
        &[121],
        REFUSED_DOCUMENT,
        "{} refuses the write because of the collection's validator: what is written does not pass it, or it forbids the field that has the locks",
    ),
    (&[10_334, 17_419, 17_420], REFUSED_DOCUMENT, "the record of this line is too long for {}"),
    (
        &[DUPLICATE_KEY],
        REJECTED,
        "a unique index of {} refuses the document, because another one has the same value: change the value, or drop the index",
    ),
    // `InterruptedAtShutdown`, `InterruptedDueToReplStateChange`, `ShutdownInProgress`,
    // `PrimarySteppedDown`, `NotWritablePrimary`, `NotPrimaryNoSecondaryOk`,
    // `NotPrimaryOrSecondary`.
    (
        &[11_600, 11_602, 91, 189, 10_107, 13_435, 13_436],
        UNAVAILABLE,
        "{} has no primary at the moment, or another one",
    ),
    // `MaxTimeMSExpired`, `ExceededTimeLimit`, `NetworkTimeout`, `HostUnreachable`,
    // `HostNotFound`, `WriteConflict`, `Interrupted`, `NetworkInterfaceExceededTimeLimit`,
    // `WriteConcernTimeout`, `LockTimeout`, `SocketException`, `StaleConfig`,
    // `FailedToSatisfyReadPreference`.
    (
        &[50, 262, 89, 6, 7, 112, 11_601, 202, 64, 24, 9001, 13_388, 133],
        UNAVAILABLE,
        "{} did not confirm the command in time: it may be carried out all the same",
    ),
];

/// Further codes of commands that the server has refused for good, because of their contents or of
/// its own settings. The record is not changed. With any other code the outcome is unknown.
const REFUSED_FOR_GOOD: &[i32] = &[
    // `BadValue`, `NoSuchKey`, `FailedToParse`, `CannotMutateObject`, `UserNotFound`,
    // `TypeMismatch`, `Overflow`, `InvalidLength`, `IllegalOperation`, `EmptyArrayOperation`,
    // `InvalidBSON`, `NamespaceNotFound`, `IndexNotFound`, `PathNotViable`, `NonExistentPath`,
    // `InvalidPath`.
    2, 4, 9, 10, 11, 14, 15, 16, 20, 21, 22, 26, 27, 28, 29, 30,
    // `ConflictingUpdateOperators`, `DollarPrefixedFieldName`, `InvalidIdField`,
    // `NotSingleValueField`, `InvalidDBRef`, `EmptyFieldName`, `DottedFieldName`,
    // `CommandNotFound`, `ShardKeyNotFound`, `InvalidOptions`, `InvalidNamespace`,
    // `NotExactValueField`, `CommandNotSupported`, `DocTooLargeForCapped`, `NotAReplicaSet`,
    // `JSInterpreterFailure`.
    40, 52, 53, 54, 55, 56, 57, 59, 61, 72, 73, 111, 115, 116, 123, 139,
    // `ReadConcernMajorityNotEnabled`, `CommandNotSupportedOnView`, `OptionNotSupportedOnView`,
    // `InvalidPipelineOperator`, `CannotIndexParallelArrays`, `CannotBuildIndexKeys`,
    // `AuthenticationRestrictionUnmet`, `QueryFeatureNotAllowed`, `MaxSubPipelineDepthExceeded`,
    // `InternalErrorNotSupported`, `NotImplemented`, `ConversionFailure`, `CannotCreateCollection`,
    // `WouldChangeOwningShard`, `QueryExceededMemoryLimitNoDiskUseAllowed`, `APIVersionError`.
    148, 166, 167, 168, 171, 201, 214, 224, 232, 235, 238, 241, 242, 283, 292, 322,
    // `APIStrictError`, `APIDeprecationError`, `MechanismUnavailable`, `APIMismatchError`,
    // `InvalidBSONType`, `ChangeStreamNotEnabled`, `NonConformantBSON`, `QueryRejectedBySettings`,
    // `AtlasError`, `CannotGrowDocumentInCappedNamespace`, `DatabaseDifferCase`,
    // `IDLDuplicateField`, `IDLFailedToParse`, `IDLUnknownField`.
    323, 324, 334, 347, 357, 376, 378, 411, 8000, 10_003, 13_297, 40_413, 40_414, 40_415,
];
/// Start of the name of a numbered assertion. The server checks the contents of a command by
/// thousands of these, and one that fails undoes the command.
const ASSERTION: &str = "Location";

/// Converts an error of the servers or of the connection. The driver's own error is not kept: it
/// may repeat a password.
pub(crate) fn error(servers: &ServerLabel, trouble: &mongodb::error::Error) -> Error {
    let text = trouble.kind.to_string();
    let (make, sentence, words) = match &*trouble.kind {
        ErrorKind::Command(command) => return refused(servers, command),
        ErrorKind::ServerSelection { message, .. } => return unreached(servers, message),
        ErrorKind::Write(_) => (
            UNAVAILABLE,
            "a majority of {} did not confirm in time: it may be carried out all the same",
            &text,
        ),
        ErrorKind::Authentication { message, .. } => (REJECTED, LOGIN, message),
        // The driver gives only text.
        ErrorKind::InvalidArgument { message, .. } if message.contains(GARBLED) => (
            UNAVAILABLE,
            "the answer of {} is not MongoDB's: is it another service's port?",
            message,
        ),
        ErrorKind::InvalidArgument { message, .. }
        | ErrorKind::InvalidTlsConfig { message, .. } => {
            (INVALID, "the way to {} is wrong", message)
        }
        ErrorKind::IncompatibleServer { message, .. } => {
            (REJECTED, "{} is not a MongoDB that Tenure can use: it needs 4.4 or later", message)
        }
        ErrorKind::DnsResolve { message, .. } => {
            (UNAVAILABLE, "the servers of {} are not found in DNS", message)
        }
        ErrorKind::Io(error) => {
            return said(servers, UNAVAILABLE, "the connection to {} failed", &error.to_string());
        }
        _ => (UNAVAILABLE, "{} gave no answer", &text),
    };
    said(servers, make, sentence, words)
}

/// Makes the error of a sentence, with the servers in it and the message behind it.
fn said(servers: &ServerLabel, make: Make, sentence: &str, words: &str) -> Error {
    make(sentence.replace("{}", &servers.label) + &it_says(servers, words))
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

fn refused(servers: &ServerLabel, command: &CommandError) -> Error {
    let message = command.message.as_str();
    // The server gives only text.
    match command.code {
        // A server that refuses the user repeats the command, and so the marks.
        code if code != 13 && message.contains(MARK) => errors::unreadable_ticket(),
        code if code != 13 && message.contains(NO_NUMBER_MARK) => errors::unreadable_number(),
        13 if message.contains("requires authentication") => Error::rejected(format!(
            "{} wants a user: write user:password@ before the servers, and name the user's database as `authSource`",
            servers.label
        ))
        .with_reason(Reason::LoginRequired),
        66 => other_id(&it_says(servers, message)),
        code => {
            let known = REFUSALS.iter().find(|(codes, ..)| codes.contains(&code));
            if let Some((_, make, sentence)) = known {
                return said(servers, *make, sentence, message);
            }
            if REFUSED_FOR_GOOD.contains(&code) || command.code_name.starts_with(ASSERTION) {
                let why = format!(
                    "{{}} refused the command with the code {code}: check the filter, the order or the update that the program gave, or look up the code in MongoDB's manual"
                );
                return said(servers, REJECTED, &why, message);
            }
            let why = format!(
                "{{}} ended the command with the code {code}: it may be carried out all the same; try again later, or look up the code in MongoDB's manual"
            );
            said(servers, UNAVAILABLE, &why, message)
        }
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
fn unreached(servers: &ServerLabel, message: &str) -> Error {
    // The driver gives only text.
    let has = |words: &str| message.contains(words);
    if has("Authentication failed") || has("SCRAM failure") {
        return said(servers, REJECTED, LOGIN, "");
    }
    if has("certificate") || has("UnknownIssuer") {
        let why = "{} and this client do not trust each other's certificates: see `tlsCAFile` and `tlsCertificateKeyFile`";
        return said(servers, REJECTED, why, "");
    }
    let why = if has("RsSecondary") && !has("RsPrimary") {
        "members of it are there and have none: an election takes some ten seconds, and `timeout=20s` in the URL lets a call wait for it"
    } else if let Some(name) = unknown_name(message) {
        return Error::unavailable(format!(
            "no DNS server or hosts file knows the name of {name}: is it spelt right?"
        ));
    } else if !has("Servers: [") {
        "none of them is in the replica set that `replicaSet` names"
    } else if let Some((_, hint)) = HINTS.iter().find(|(words, _)| has(words)) {
        hint
    } else if told_of(message).all(|server| server.contains("Type: Unknown")) && !has("Error: ") {
        SILENT
    } else {
        "none of them takes writes, or none answers as MongoDB: are the addresses, `replicaSet` and `tls` right?"
    };
    said(servers, UNAVAILABLE, &format!("no primary was found among {{}}: {why}"), "")
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
pub(crate) fn unconfirmed(servers: &ServerLabel, code: i64, message: &str) -> Error {
    let why = format!(
        "a majority of {{}} did not confirm the write in time (code {code}): it may last or be undone"
    );
    said(servers, UNAVAILABLE, &why, message)
}

/// The error if no server answered within the time of one call.
pub(crate) fn late(servers: &ServerLabel) -> Error {
    let why = "{} did not answer in time: is a server running there, and one of them the primary?";
    said(servers, UNAVAILABLE, why, "")
}

/// The error if other clients inserted and deleted the record again and again.
pub(crate) fn contended(servers: &ServerLabel) -> Error {
    let why =
        "other clients of {} insert and delete the same record again and again: try again later";
    said(servers, UNAVAILABLE, why, "")
}

/// The error if a ticket left its line between two reads of it.
pub(crate) fn ended(servers: &ServerLabel) -> Error {
    let why =
        "{} lost the ticket between two commands: its lease ended, or another client broke it";
    said(servers, UNAVAILABLE, why, "")
}

/// The error if a document would get another `_id`.
pub fn other_id(says: &str) -> Error {
    Error::invalid(format!(
        "an _id cannot be changed: the value that replaces a document has the same one, or none{says}"
    ))
}

/// The error for an answer that no verb of Tenure's gives.
pub(crate) fn strange(servers: &ServerLabel) -> Error {
    let why = "{} gave an answer that Tenure's records do not give: give Tenure a `collection` of its own";
    said(servers, REJECTED, why, "")
}

/// Adds the place of the record to an error about the contents of a record.
pub(crate) fn in_record(error: Error, collection: &str, record: &str, key: &Key) -> Error {
    let place = format!("as the record {record} of the collection {collection}");
    errors::with_place(error, key, &place)
}

/// The same for a line, which may be in a field of a program's document.
pub(crate) fn in_line(error: Error, collection: &str, location: &Location, key: &Key) -> Error {
    let Some(field) = location.pipelines.answers.field_name() else {
        return in_record(error, collection, &location.record, key);
    };
    let place = format!("as the field `{field}` of that document in the collection {collection}");
    errors::with_place(error, key, &place)
}

/// Returns the driver's or the server's own message, for the end of a sentence, without parts of a
/// password.
fn it_says(servers: &ServerLabel, words: &str) -> String {
    // The driver wraps an error into another one with all its fields.
    let words = words.split(", labels: {").next().unwrap_or(words).replace("Kind: ", "");
    let words: Vec<&str> = words.split_whitespace().collect();
    match redact(servers.secrets.iter(), words.join(" ")) {
        // A server may repeat the whole command.
        Some(words) if words.chars().count() > WORDS_MAX => {
            let first: String = words.chars().take(WORDS_MAX).collect();
            format!(": it says `{first}…`")
        }
        Some(words) if !words.is_empty() => format!(": it says `{words}`"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{deserialize_from_document, doc};
    use tenure_core::ErrorKind;

    use super::*;

    /// Returns the kind of the error for an answer with this code.
    fn kind(code: i32, name: &str) -> ErrorKind {
        let answer = doc! { "code": code, "codeName": name, "errmsg": "no" };
        refused(&ServerLabel::unknown(), &deserialize_from_document(answer).unwrap()).kind()
    }

    #[test]
    fn a_code_that_is_no_definite_refusal_leaves_the_outcome_open() {
        for code in [1, 8, 90, 134, 175, 279, 365, 371, 10_058, 14_031, 46_841, 91_331] {
            assert_eq!(kind(code, "ItMayPass"), ErrorKind::Unavailable, "{code}");
        }
        for code in [2, 9, 13, 14, 18, 26, 59, 61, 72, 73, 115, 121, 166, 10_334, 11_000, 17_419] {
            assert_eq!(kind(code, "Refused"), ErrorKind::Rejected, "{code}");
        }
        assert_eq!(kind(66, "ImmutableField"), ErrorKind::Invalid);
        assert_eq!(kind(16_020, "Location16020"), ErrorKind::Rejected, "a failed assertion");
        assert_eq!(kind(11_600, "InterruptedAtShutdown"), ErrorKind::Unavailable);
    }
}
