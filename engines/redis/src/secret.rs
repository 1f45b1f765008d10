//! Texts of a server without the passwords that it may repeat.

use redis::RedisError;
use tenure_kit::secret::redact;

use crate::settings::Settings;

/// Words before which Redis repeats the command, which may have the beginning of a password.
const REPEATS: &str = "with args beginning with";

/// Maximum characters of a server's text.
const SAID_MAX: usize = 256;

/// Returns the server's text, in one line. If a part of a password is in it, returns its code
/// alone, or `None` without a code.
pub(crate) fn said(settings: &Settings, trouble: &RedisError) -> Option<String> {
    let secrets = || settings.secrets();
    redact(secrets(), words(trouble)).or_else(|| {
        let is_telling =
            |code: &&str| *code != "ERR" && code.bytes().all(|letter| letter.is_ascii_uppercase());
        redact(secrets(), trouble.code().filter(is_telling)?.to_owned())
    })
}

/// The same without a known password: the part that Redis repeats is left out.
pub(crate) fn words(trouble: &RedisError) -> String {
    let words = match (trouble.code(), trouble.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => trouble.to_string(),
    };
    let told =
        words.split_once(REPEATS).map_or(&*words, |(told, _)| told.trim_end_matches([' ', ',']));
    let told = told.chars().take(SAID_MAX).collect::<String>();
    told.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(with: &str) -> RedisError {
        let answer = redis::parse_redis_value(format!("-{with}\r\n").as_bytes());
        answer.unwrap().extract_error().unwrap_err()
    }

    fn said_to(login: &str, with: &str) -> Option<String> {
        let settings = Settings::from_url(format!("redis://{login}@h")).unwrap();
        said(&settings, &refused(with))
    }

    #[test]
    fn what_has_no_password_in_it_is_told_as_it_is() {
        for (login, with, told) in [
            (":s3cret", "ERR  DB index is out of range", "ERR DB index is out of range"),
            (
                "clerk:s3cret",
                "NOPERM User clerk has no permissions to run the 'set' command",
                "NOPERM User clerk has no permissions to run the 'set' command",
            ),
        ] {
            assert_eq!(said_to(login, with).as_deref(), Some(told));
        }
    }

    #[test]
    fn what_redis_repeats_is_left_out() {
        let with = "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 's3cr";
        assert_eq!(said_to(":s3cret", with).as_deref(), Some("ERR unknown command 'HELLO'"));
        assert_eq!(words(&refused(with)), "ERR unknown command 'HELLO'");
    }

    #[test]
    fn what_is_too_long_for_a_sentence_is_cut() {
        let with = format!("ERR {}", "ü ".repeat(1 << 16));
        assert!(words(&refused(&with)).chars().count() <= SAID_MAX);
    }

    #[test]
    fn what_has_a_part_of_a_password_in_it_is_told_by_its_code_if_that_says_something() {
        assert_eq!(said_to(":s3cret", "NOPERM no s3cret").as_deref(), Some("NOPERM"));
        assert_eq!(said_to(":s3cret", "ERR it begins with s3cr"), None);
        assert_eq!(said_to(":SECRETS", "SECRETS are out"), None, "even a code may be one");
    }
}
