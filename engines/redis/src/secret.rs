//! What a server says, without the passwords that it may repeat.

use redis::RedisError;

use crate::settings::Settings;

/// So many bytes of a password in a row are a hint: a server may have cut what it repeats.
const HINT_BYTES: usize = 4;
/// Behind these words Redis repeats what it was told, which may be the beginning of a password.
const REPEATS: &str = "with args beginning with";

/// What the server said, in one line, if no part of a password is in it; else only its code.
pub(crate) fn said(settings: &Settings, trouble: &RedisError) -> String {
    let words = words(trouble);
    if !settings.passwords().any(|password| hints_at(password, &words)) {
        return words;
    }
    let code = trouble.code().filter(|code| {
        code.bytes().all(|letter| letter.is_ascii_uppercase())
            && !settings.passwords().any(|password| hints_at(password, code))
    });
    format!("{} …", code.unwrap_or("ERR"))
}

/// The same where no password is known: what Redis repeats is left out.
pub(crate) fn words(trouble: &RedisError) -> String {
    let words = match (trouble.code(), trouble.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => trouble.to_string(),
    };
    let told =
        words.split_once(REPEATS).map_or(&*words, |(told, _)| told.trim_end_matches([' ', ',']));
    told.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether this has a part of the password that helps to guess it, as it is or as Redis escapes it.
fn hints_at(password: &str, words: &str) -> bool {
    let words = words.to_lowercase();
    let plain = password.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let escaped: String = password.bytes().map(escape).collect::<String>().to_lowercase();
    [plain, escaped].iter().any(|secret| {
        let window = HINT_BYTES.min(secret.len()).max(1);
        secret.as_bytes().windows(window).any(|part| contains(words.as_bytes(), part))
    })
}

fn contains(words: &[u8], part: &[u8]) -> bool {
    words.windows(part.len()).any(|window| window == part)
}

fn escape(byte: u8) -> String {
    match byte {
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(with: &str) -> RedisError {
        let answer = redis::parse_redis_value(format!("-{with}\r\n").as_bytes());
        answer.unwrap().extract_error().unwrap_err()
    }

    fn said_to(login: &str, with: &str) -> String {
        let settings = Settings::parse(&format!("redis://{login}@h")).unwrap();
        said(&settings, &refused(with))
    }

    #[test]
    fn what_has_no_password_in_it_is_told_as_it_is() {
        assert_eq!(
            said_to(":s3cret", "ERR  DB index is out of range"),
            "ERR DB index is out of range"
        );
        let noperm = "NOPERM User clerk has no permissions to run the 'set' command";
        assert_eq!(said_to("clerk:s3cret", noperm), noperm);
    }

    #[test]
    fn what_redis_repeats_is_left_out() {
        let with = "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 's3cr";
        assert_eq!(said_to(":s3cret", with), "ERR unknown command 'HELLO'");
        assert_eq!(words(&refused(with)), "ERR unknown command 'HELLO'");
    }

    #[test]
    fn no_part_of_a_password_is_told_in_any_form() {
        for (password, with) in [
            ("s3cret", "ERR no s3cret here"),
            ("s3cret", "ERR it begins with s3cr"),
            ("s3cret", "ERR it ends with CRET"),
            ("ab", "ERR ab"),
            ("a%20%20b", "ERR a b"),
            ("%C3%A4%C3%B6", "ERR \\xc3\\xa4\\xc3\\xb6"),
        ] {
            assert_eq!(said_to(&format!(":{password}"), with), "ERR …", "{with}");
        }
        assert_eq!(said_to(":SECRETS", "SECRETS are out"), "ERR …", "even a code may be one");
    }
}
