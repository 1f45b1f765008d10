//! Turns errors of the driver into errors of this project: one sentence with the remedy.

use mysql_async::{Error as DriverError, ServerError};
use tenure_core::{Error, Stale};

use crate::{NO_TOKEN, STALE};

/// Turns an error of a statement in a [`FencedTransaction`](crate::FencedTransaction) into one of
/// the kind [`Lost`](tenure_core::ErrorKind::Lost) if a newer holder wrote the row.
///
/// Other errors become `Unavailable` if the same transaction may succeed later, `Invalid` if the
/// program has to change, and `Rejected` otherwise.
pub fn into_error(error: DriverError) -> Error {
    let result = match &error {
        DriverError::Server(said) => match stale(said) {
            Some(stale) => return stale.into(),
            None => refused(said),
        },
        other => Error::unavailable(format!(
            "the server did not answer, and the write may be done or not: {}",
            in_a_line(&other.to_string())
        )),
    };
    result.caused_by(error)
}

/// Returns both tokens, if a trigger refused the write because of a newer one.
fn stale(said: &ServerError) -> Option<Stale> {
    let text = Some(&said.message).filter(|_| said.state == STALE)?;
    let (_, tokens) = text.rsplit_once(": ")?;
    let (token, newest) = tokens.split_once(" < ")?;
    Some(Stale { token: token.parse().ok()?, newest: newest.parse().ok()? })
}

fn refused(said: &ServerError) -> Error {
    let text = format!("{} ({}, {})", in_a_line(&said.message), said.code, said.state);
    match said.code {
        _ if said.state == NO_TOKEN => Error::invalid(format!(
            "{text}, and the statement changed nothing: begin the transaction with `Fence::begin`"
        )),
        // The server or an operator ends the session or the statement, or the log of the server
        // cannot be written. Below 1000 are errors of files; from 2000 to 2999 are those of clients
        // and from 9000 on those of ProxySQL, whose server is lost.
        1026
        | 1030
        | 1053
        | 1180
        | 1317
        | 1598
        | 1927
        | 1969
        | 3024
        | 3100
        | 4031
        | ..1000
        | 2000..3000
        | 9000.. => Error::unavailable(format!(
            "the server did not finish the statement, and the write may be done or not: {text}"
        )),
        // Another transaction was in the way, a resource is exhausted, or the server is read-only.
        1020 | 1021 | 1040 | 1114 | 1203 | 1205 | 1213 | 1226 | 1290 | 1614 | 1792 | 1836
        | 3572 => Error::unavailable(format!(
            "the server cannot write now: roll back and repeat the transaction: {text}"
        )),
        1046 | 1049 | 1054 | 1064 | 1136 | 1146 => Error::invalid(format!(
            "the server does not understand the statement, which changed nothing: {text}"
        )),
        _ => Error::rejected(format!(
            "the server refused the statement, which changed nothing: {text}"
        )),
    }
}

fn in_a_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use mysql_async::{Error as DriverError, ServerError};
    use tenure_core::ErrorKind;

    use super::into_error;

    #[test]
    fn a_commit_whose_outcome_is_unknown_is_not_reported_as_undone() {
        for code in [6, 1026, 1030, 1053, 1180, 1317, 1598, 2006, 2013, 3024, 3100, 9001] {
            let (message, state) = (String::new(), String::new());
            let error = into_error(DriverError::Server(ServerError { code, message, state }));
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{code}");
            assert!(error.to_string().contains("may be done or not"), "{code}: {error}");
        }
    }
}
