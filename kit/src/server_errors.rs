//! Errors from servers: the words of a server, and the errors of several hosts.

use tenure_core::Error;

/// Maximum letters of a server's message in an error.
const WORDS_MAX: usize = 160;

/// Returns the begin of a server's message, in one line.
pub fn first_words(text: &str) -> String {
    text.chars().take(WORDS_MAX).map(|one| if one.is_control() { ' ' } else { one }).collect()
}

/// Returns the error of a connection that no host gave. If one of the hosts may still become the
/// primary, a retry may help. `no_answer` is the error without hosts that answered.
pub fn of_hosts(no_answer: Error, mut errors: Vec<Error>) -> Error {
    match errors.len() {
        0 => no_answer,
        1 => errors.remove(0),
        _ if errors.iter().any(Error::is_retryable) => {
            let reason = errors.iter().find_map(Error::reason);
            let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
            let error = Error::unavailable(texts.join("; "));
            reason.map_or(error.clone(), |reason| error.with_reason(reason))
        }
        _ => errors.remove(0),
    }
}

#[cfg(test)]
mod tests {
    use super::{WORDS_MAX, first_words};

    #[test]
    fn the_words_of_a_server_are_one_short_line_without_control_characters() {
        assert_eq!(first_words("a\nb\u{1b}[2J\u{9b}c\u{7f}"), "a b [2J c ");
        assert_eq!(first_words(&"a".repeat(1000)).len(), WORDS_MAX);
    }
}
