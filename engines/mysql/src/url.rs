//! The URLs of databases.

use tenure_core::{Error, Result};
use tenure_kit::options::{TIMES, Value};
use tenure_kit::tls::Tls;
use tenure_kit::url::Servers;

use crate::Settings;
use crate::description::{DESCRIPTION, OPTIONS};
use crate::settings::{HostOrSocket, PORT};

/// Whether each mode is TLS. The modes that do not check the certificate are absent.
const TLS_MODES: &[(&str, bool)] = &[("VERIFY_IDENTITY", true), ("DISABLED", false)];

impl Settings {
    /// Reads the settings of a URL: `mariadb://USER:PASSWORD@HOST,HOST/DATABASE?option=value`. The
    /// options for TLS, `socket` and `connect_timeout` have the names that the command `mysql` has.
    /// With `socket`, a host is still required, and does not count.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if a part of the URL is wrong.
    pub fn from_url(url: impl AsRef<str>) -> Result<Self> {
        let url = DESCRIPTION.read(url.as_ref())?;
        let options = url.options(OPTIONS)?;
        let Servers { login, addresses, path } = url.servers(PORT)?;
        let database = match &path[..] {
            [] => String::new(),
            [database] => database.clone(),
            _ => {
                return Err(Error::invalid(
                    "the URL has more than the name of the database behind its hosts: a slash in \
                     the name is written %2F",
                ));
            }
        };
        let socket = options.iter().find(|(name, _)| *name == "socket");
        let hosts = match socket {
            Some((_, value)) => vec![HostOrSocket::Socket(value.clone().text())],
            None => addresses.into_iter().map(HostOrSocket::Tcp).collect(),
        };
        let mut settings = Self { login, ..Self::of(hosts, database)? };
        for (name, value) in &options {
            if *name == "ssl-mode" && value.one_of(TLS_MODES)? {
                settings = settings.tls(Tls::new());
            }
        }
        for (name, value) in options {
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
            "ssl-ca" | "ssl-cert" | "ssl-key" => {
                let tls = self.tls.as_mut().ok_or_else(|| {
                    Error::invalid(format!(
                        "`{name}` is for TLS: write ssl-mode=VERIFY_IDENTITY for it"
                    ))
                })?;
                tls.set(name.trim_start_matches("ssl-"), value)?;
                Ok(self)
            }
            // Read already.
            "ssl-mode" | "socket" => Ok(self),
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
    fn the_parts_of_a_url_are_read_and_have_defaults() {
        let settings = read("mysql://me:p%40ss@a,b:5/shop?prefix=my_&timeout=300ms").unwrap();
        let hosts: Vec<_> = settings.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["a:3306", "b:5"]);
        assert_eq!(settings.login.password.as_ref().map(Secret::reveal), Some("p@ss"));
        assert_eq!((settings.database.as_str(), settings.prefix.as_str()), ("shop", "my_"));
        assert_eq!(settings.timeout, Duration::from_millis(300));
        let settings = read("mariadb://me@h/shop").unwrap();
        assert_eq!(settings.prefix, "tenure_");
        assert!(settings.tls.is_none());
    }

    #[test]
    fn each_option_of_a_url_has_a_setter() {
        let usual = || Settings::hosts(["h"], "d").unwrap().login("me", "").tls(Tls::new());
        let secs = Duration::from_secs;
        let ca = || Tls::new().ca(Pem::File("ca".into()));
        let identity = || Tls::new().identity(Pem::File("cert".into()), Pem::File("key".into()));
        for option in OPTIONS {
            let (value, built) = match option.name {
                "prefix" => ("p", usual().prefix("p")),
                "timeout" => ("1s", usual().timeout(secs(1))),
                "connect_timeout" => ("1s", usual().connect_timeout(secs(1))),
                "ssl-ca" => ("ca", Ok(usual().tls(ca()))),
                "ssl-cert" => ("cert&ssl-key=key", Ok(usual().tls(identity()))),
                "ssl-key" => ("key&ssl-cert=cert", Ok(usual().tls(identity()))),
                "ssl-mode" | "socket" => continue,
                other => panic!("`{other}` has no setter"),
            };
            let built = built.unwrap();
            let url = format!("mysql://me@h/d?ssl-mode=VERIFY_IDENTITY&{}={value}", option.name);
            assert_eq!(read(&url).unwrap(), built, "{url}");
        }
        let socket = Settings::socket("/run/my.sock", "d").unwrap().login("me", "");
        assert_eq!(read("mysql://me@localhost/d?socket=/run/my.sock").unwrap(), socket);
        let plain = Settings::hosts(["h"], "d").unwrap().login("me", "");
        assert_eq!(read("mysql://me@h/d?ssl-mode=DISABLED").unwrap(), plain);
    }

    #[test]
    fn a_wrong_part_is_named_and_no_password_is_repeated() {
        for (url, part) in [
            ("mysql://h/d", "no user"),
            ("mysql://me:secret@h", "no database"),
            ("mysql://me:secret@h/a/b", "%2F"),
            ("mysql://me:secret@h/d?ssl-mode=REQUIRED", "`ssl-mode` takes `VERIFY_IDENTITY`"),
            ("mysql://me:secret@h/d?ssl-ca=f", "ssl-mode=VERIFY_IDENTITY"),
            ("mysql://me:secret@h/d?ssl-mode=VERIFY_IDENTITY&ssl-cert=f", "key"),
            ("mysql://me:secret@h/d?ssl-mode=VERIFY_IDENTITY&socket=/s", "no TLS"),
            ("mysql://me:secret@h/d?prefix=A", "`prefix`"),
            ("mysql://me:secret@h/d?prefix=a`b", "`prefix`"),
            ("mysql://me:secret@h/d?timeout=0s", "`timeout`"),
        ] {
            let error = read(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
            assert!(!error.contains("secret"), "{url}: {error}");
        }
    }
}
