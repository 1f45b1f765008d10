//! A URL of a store: `file:PATH`, with options behind a question mark.

use std::ffi::OsString;
use std::path::PathBuf;

use tenure_core::{Error, Result};

use crate::Settings;

/// Reads `file:relative/path`, `file:/absolute/path` or `file:///absolute/path`, percent-encoded.
pub(crate) fn parse(url: &str) -> Result<(PathBuf, Settings)> {
    let Some(rest) = url.strip_prefix("file:") else {
        return Err(Error::invalid("that is no URL of a file store: write file:PATH"));
    };
    let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
    let path = match path.strip_prefix("//") {
        None => path,
        Some(local) => {
            let local = local.strip_prefix("localhost").unwrap_or(local);
            if !local.starts_with('/') {
                // What it names may be a user with a password: it is not told again.
                return Err(Error::invalid(
                    "the URL names another machine: a file store is local, write file:PATH or file:///PATH",
                ));
            }
            local
        }
    };
    if path.is_empty() {
        return Err(Error::invalid(format!("`{url}` has no path: write file:PATH")));
    }
    let mut settings = Settings::default();
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("network", "allow")) => settings.allow_network = true,
            Some(("network", "refuse")) => settings.allow_network = false,
            Some(("others", "allow")) => settings.allow_others = true,
            Some(("others", "refuse")) => settings.allow_others = false,
            _ => {
                return Err(Error::invalid(format!(
                    "`{option}` is no option of a file store: there are `network=allow` and `others=allow`"
                )));
            }
        }
    }
    Ok((decode(path, url)?, settings))
}

/// A path of bytes, as Unix has it.
fn decode(text: &str, url: &str) -> Result<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        match (digit(), digit()) {
            (Some(high), Some(low)) if high + low > 0 => {
                bytes.push(u8::try_from(high * 16 + low).expect("two digits are a byte"));
            }
            _ => {
                return Err(Error::invalid(format!(
                    "`{url}` has a % that is not followed by two hexadecimal digits of a byte that a path can have: write %25 for the sign itself"
                )));
            }
        }
    }
    Ok(PathBuf::from(os_string(bytes, url)?))
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
fn os_string(bytes: Vec<u8>, _url: &str) -> Result<OsString> {
    use std::os::unix::ffi::OsStringExt as _;
    Ok(OsString::from_vec(bytes))
}

#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>, url: &str) -> Result<OsString> {
    let text = String::from_utf8(bytes);
    text.map(OsString::from)
        .map_err(|_| Error::invalid(format!("the path of `{url}` is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_in_every_form() {
        for (url, path) in [
            ("file:locks", "locks"),
            ("file:./a/b", "./a/b"),
            ("file:/var/locks", "/var/locks"),
            ("file:///var/locks", "/var/locks"),
            ("file://localhost/var/locks", "/var/locks"),
            ("file:/my%20locks/%c3%bc%25", "/my locks/ü%"),
        ] {
            let (read, settings) = parse(url).unwrap();
            assert_eq!(read, PathBuf::from(path), "{url}");
            assert!(!settings.allow_network);
        }
        assert!(parse("file:/x?network=allow").unwrap().1.allow_network);
        assert!(parse("file:/x?network=refuse&others=allow").unwrap().1.allow_others);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_way_out() {
        for (url, sentence) in [
            ("redis://u:secret@x", "that is no URL of a file store: write file:PATH"),
            ("file:", "`file:` has no path: write file:PATH"),
            (
                "file:/x?ttl=3",
                "`ttl=3` is no option of a file store: there are `network=allow` and `others=allow`",
            ),
            (
                "file://u:secret@host/x",
                "the URL names another machine: a file store is local, write file:PATH or file:///PATH",
            ),
        ] {
            assert_eq!(parse(url).unwrap_err().to_string(), sentence);
        }
        for url in ["file:/%", "file:/%2", "file:/%zz", "file:/%00"] {
            assert!(parse(url).is_err(), "{url}");
        }
    }
}
