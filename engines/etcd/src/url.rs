//! The URLs of etcd's clusters.

use tenure_core::{Error, Result};
use tenure_kit::options::{TIMES, Value};
use tenure_kit::tls::Tls;
use tenure_kit::url::Servers;

use crate::Settings;
use crate::description::{DESCRIPTION, OPTIONS};
use crate::settings::PORT;

impl Settings {
    /// Reads the settings of a URL: `etcd://M1,M2,M3`, or `etcds://` with TLS.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if a part of the URL is wrong.
    pub fn from_url(url: impl AsRef<str>) -> Result<Self> {
        let url = DESCRIPTION.read(url.as_ref())?;
        let Servers { login, addresses, path } = url.servers(PORT)?;
        if !path.is_empty() {
            return Err(Error::invalid(
                "the URL has something behind its members: leave it out, and write ?prefix=TEXT for a prefix",
            ));
        }
        let mut settings = Self { login, ..Self::of(addresses) };
        if url.scheme() == "etcds" {
            settings = settings.tls(Tls::new());
        }
        for (name, value) in url.options(OPTIONS)? {
            settings = settings.with(name, value)?;
        }
        Ok(settings)
    }

    /// Sets an option of a URL.
    fn with(mut self, name: &str, value: Value) -> Result<Self> {
        match name {
            "prefix" => self.prefix(value.text()),
            "timeout" => self.timeout(value.time(TIMES)?),
            "connect_timeout" => self.connect_timeout(value.time(TIMES)?),
            "session_ttl" => self.session_ttl(value.time(TIMES)?),
            "ca" | "cert" | "key" => {
                Tls::wanted(&mut self.tls, "etcds")?.set(name, value)?;
                Ok(self)
            }
            _ => unreachable!("`{name}` is an option of the engine's, and is not read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_kit::secret::Secret;
    use tenure_kit::tls::Pem;

    use super::*;

    fn read(url: &str) -> Result<Settings> {
        let settings = Settings::from_url(url)?;
        settings.check().map(|()| settings)
    }

    #[test]
    fn terms_are_read_and_have_defaults() {
        let settings =
            read("etcds://me:p%40ss@a,b:5?prefix=/my/app&timeout=300ms&session_ttl=9s").unwrap();
        let members: Vec<_> = settings.members.iter().map(ToString::to_string).collect();
        assert_eq!(members, ["a:2379", "b:5"]);
        assert_eq!(
            (settings.prefix.as_str(), settings.timeout),
            ("/my/app", Duration::from_millis(300))
        );
        assert_eq!(settings.session_ttl, Duration::from_secs(9));
        assert_eq!(read("etcd://h").unwrap().prefix, "tenure");
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
    fn each_part_of_a_url_has_a_setter() {
        let usual = || Settings::servers(["h"]).unwrap().tls(Tls::new());
        let secs = Duration::from_secs;
        let ca = || Tls::new().ca(Pem::File("ca".into()));
        let identity = || Tls::new().identity(Pem::File("cert".into()), Pem::File("key".into()));
        for option in OPTIONS {
            let (value, built) = match option.name {
                "prefix" => ("p", usual().prefix("p")),
                "timeout" => ("1s", usual().timeout(secs(1))),
                "connect_timeout" => ("1s", usual().connect_timeout(secs(1))),
                "session_ttl" => ("1s", usual().session_ttl(secs(1))),
                "ca" => ("ca", Ok(usual().tls(ca()))),
                "cert" => ("cert&key=key", Ok(usual().tls(identity()))),
                "key" => ("key&cert=cert", Ok(usual().tls(identity()))),
                other => panic!("`{other}` has no setter"),
            };
            let built = built.unwrap();
            let url = format!("etcds://h?{}={value}", option.name);
            assert_eq!(read(&url).unwrap(), built, "{url}");
            assert_ne!(built, usual(), "{url}");
        }
        let built = Settings::servers(["h", "[::1]:5"]).unwrap().login("me", "p@ss");
        assert_eq!(read("etcd://me:p%40ss@h,[::1]:5").unwrap(), built);
    }

    #[test]
    fn a_wrong_value_has_the_same_sentence_in_code_as_in_a_url() {
        let usual = || Settings::servers(["h"]).unwrap();
        let long = Duration::from_secs(3601);
        for (url, built) in [
            ("etcd://h:0", Settings::servers(["h:0"])),
            ("etcd://h?prefix=*", usual().prefix("*")),
            ("etcd://h?timeout=0s", usual().timeout(Duration::ZERO)),
            ("etcd://h?connect_timeout=2h", usual().connect_timeout(long)),
            ("etcd://h?session_ttl=2h", usual().session_ttl(long)),
            ("etcd://me@h", Ok(usual().login("me", ""))),
            ("etcd://:secret@h", Ok(usual().login("", "secret"))),
        ] {
            let built = built.and_then(|built| built.check()).unwrap_err();
            assert_eq!(built.to_string(), read(url).unwrap_err().to_string(), "{url}");
        }
    }

    #[test]
    fn no_password_and_no_key_is_printed() {
        let pem = |text: &str| Pem::Bytes(text.into());
        let tls = Tls::new().ca(pem("secret")).identity(pem("secret"), pem("secret"));
        let settings = Settings::servers(["h"]).unwrap().login("me", "secret").tls(tls);
        let shown = format!("{settings:?} {settings:#?}");
        assert!(!shown.contains("secret") && !shown.contains("115"), "{shown}");
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
                "the login has a password and no user: give both, in a URL as user:password@ before the first server",
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
                "`prefix` takes 1 to 128 letters, digits and the signs . _ - :, with slashes between them",
            ),
        ] {
            let error = read(url).err().unwrap_or_else(|| panic!("{url} is taken"));
            assert_eq!(error.to_string(), sentence, "{url}");
        }
    }
}
