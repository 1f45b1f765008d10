//! The URLs of etcd's clusters.

use std::ops::RangeInclusive;
use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_kit::options::Value;
use tenure_kit::tls::Files;
use tenure_kit::url::Servers;

use crate::description::{DESCRIPTION, OPTIONS};
use crate::settings::Settings;

const PORT: u16 = 2379;
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

/// Reads a URL.
pub(crate) fn read(url: &str) -> Result<Settings> {
    let url = DESCRIPTION.read(url)?;
    let Servers { login, addresses, path } = url.servers(PORT)?;
    if !path.is_empty() {
        return Err(Error::invalid(
            "the URL has something behind its members: leave it out, and write ?prefix=TEXT for a prefix",
        ));
    }
    if login.password.is_some() && login.user.is_none() {
        return Err(Error::invalid(
            "the URL has a password and no user: write user:password@ before the first server",
        ));
    }
    let mut settings = Settings::of(addresses, login);
    if url.scheme() == "etcds" {
        settings.tls = Some(Files::default());
    }
    for (name, value) in url.options(OPTIONS)? {
        settings.set(name, value)?;
    }
    settings.tls.as_ref().map_or(Ok(()), Files::agree)?;
    Ok(settings)
}

impl Settings {
    fn set(&mut self, name: &str, value: Value) -> Result<()> {
        match name {
            "prefix" => self.prefix = prefix(value)?,
            "timeout" => self.timeout = value.time(TIMES)?,
            "connect_timeout" => self.connect_timeout = value.time(TIMES)?,
            "session_ttl" => self.session_ttl = value.time(TIMES)?,
            "ca" | "cert" | "key" => Files::wanted(&mut self.tls, "etcds")?.set(name, value)?,
            _ => unreachable!("`{name}` is an option of the engine's, and is not read"),
        }
        Ok(())
    }
}

fn prefix(value: Value) -> Result<String> {
    let plain = |letter: char| {
        letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | '/' | ':')
    };
    let wrong = value.wrong("1 to 128 letters, digits and the signs . _ - : /");
    let text = value.text();
    if text.is_empty() || text.len() > 128 || !text.chars().all(plain) {
        return Err(wrong);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use tenure_kit::secret::Secret;

    use super::*;

    #[test]
    fn terms_are_read_and_have_defaults() {
        let read =
            read("etcds://me:p%40ss@a,b:5?prefix=/my/app&timeout=300ms&session_ttl=9s&ca=/ca.pem")
                .unwrap();
        let members: Vec<_> = read.members.iter().map(ToString::to_string).collect();
        assert_eq!(members, ["a:2379", "b:5"]);
        assert_eq!((read.prefix.as_str(), read.timeout), ("/my/app", Duration::from_millis(300)));
        assert_eq!(read.session_ttl, Duration::from_secs(9));
        assert_eq!(read.tls.and_then(|tls| tls.ca), Some("/ca.pem".into()));
        assert_eq!(super::read("etcd://h").unwrap().prefix, "tenure");
    }

    #[test]
    fn a_password_may_have_any_sign() {
        let encoded = "etcd://me:%23%40%2F%25%3F%3A%26@h";
        for (url, password) in [(encoded, "#@/%?:&"), ("etcd://me:#@/:&@h", "#@/:&")] {
            let login = read(url).unwrap().login;
            assert_eq!(login.password.as_ref().map(Secret::reveal), Some(password), "{url}");
        }
    }

    #[test]
    fn every_option_is_read() {
        for option in OPTIONS {
            let mut settings = read("etcds://h").unwrap();
            let words = ["1s", "1", "on"];
            let read = words.map(|word| settings.set(option.name, Value::new("it", word)).is_ok());
            assert!(read.contains(&true), "{}", option.name);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_without_its_password() {
        for (url, sentence) in [
            (
                "etcd://me:secret@h/x",
                "the URL has something behind its members: leave it out, and write ?prefix=TEXT for a prefix",
            ),
            (
                "etcd://:secret@h",
                "the URL has a password and no user: write user:password@ before the first server",
            ),
            ("etcd://h?ca=secret", "`ca`, `cert` and `key` are for TLS: write etcds:// for it"),
            (
                "etcds://h?cert=a",
                "a client's certificate needs its key, and the other way round: give both `cert` and `key`",
            ),
            (
                "etcd://me:12%zzsecret@h",
                "the password has a % that is not followed by two hexadecimal digits: write %25 for a % itself",
            ),
            (
                "etcd://me:12?secret@h",
                "the URL has an option that `etcd:` does not have: there are `prefix`, `timeout`, `connect_timeout`, `session_ttl`, `ca`, `cert` and `key`; a question mark in a password is written %3F",
            ),
            (
                "etcd://h?prefix=*",
                "`prefix` takes 1 to 128 letters, digits and the signs . _ - : /",
            ),
        ] {
            let error = read(url).err().unwrap_or_else(|| panic!("{url} is taken"));
            assert_eq!(error.to_string(), sentence, "{url}");
        }
    }
}
