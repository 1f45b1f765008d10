//! The URLs of databases.

use tenure_core::{Error, Result};
use tenure_kit::options::{TIMES, Value};
use tenure_kit::tls::Tls;
use tenure_kit::url::Servers;

use crate::Settings;
use crate::description::{DESCRIPTION, OPTIONS};
use crate::settings::{Host, PORT};

impl Settings {
    /// Reads the settings of a URL: `postgres://USER:PASSWORD@HOST,HOST/DATABASE?option=value`. The
    /// options have the names that `libpq` has for them. With `host`, the directory of a Unix
    /// socket, the host before the path only gives the port.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if a part of the URL is wrong.
    pub fn from_url(url: impl AsRef<str>) -> Result<Self> {
        let url = DESCRIPTION.read(url.as_ref())?;
        let options = url.options(OPTIONS)?;
        let socket = options.iter().find(|(name, _)| *name == "host");
        let socket = socket.map(|(_, value)| value.clone().file()).transpose()?;
        let Servers { login, addresses, path } = url.servers(PORT)?;
        let hosts = match socket {
            None => addresses.into_iter().map(Host::Tcp).collect(),
            Some(directory) => {
                let port = addresses.first().map_or(PORT, |address| address.port);
                vec![Host::Socket(directory.join(format!(".s.PGSQL.{port}")))]
            }
        };
        let mut settings = Self { login, ..Self::of(hosts) };
        match &path[..] {
            [] => {}
            [database] => settings = settings.database(database),
            _ => {
                return Err(Error::invalid(
                    "the URL has more than the name of the database behind its hosts: a slash in \
                     the name is written %2F",
                ));
            }
        }
        let is_tls = |(name, value): &(&str, Value)| match *name {
            "sslmode" => value.one_of(TLS_MODES),
            _ => Ok(false),
        };
        for option in &options {
            if is_tls(option)? {
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
            "schema" => self.schema(value.text()),
            "application_name" => Ok(self.application_name(value.text())),
            "timeout" => self.timeout(value.time(TIMES)?),
            "connect_timeout" => self.connect_timeout(value.time(TIMES)?),
            "notify" if value.one_of(&[("auto", false), ("poll", true)])? => Ok(self.poll()),
            "notify_host" => self.notify_host(value.text()),
            "target_session_attrs" => {
                value.one_of(&[("read-write", ()), ("primary", ())]).map(|()| self)
            }
            "sslrootcert" | "sslcert" | "sslkey" => {
                let option = match name {
                    "sslrootcert" => "ca",
                    "sslcert" => "cert",
                    _ => "key",
                };
                let tls = self.tls.as_mut().ok_or_else(|| {
                    Error::invalid(format!("`{name}` is for TLS: write sslmode=verify-full for it"))
                })?;
                tls.set(option, value)?;
                Ok(self)
            }
            // Read already.
            "notify" | "host" | "sslmode" => Ok(self),
            _ => unreachable!("`{name}` is an option of the engine's, and is not read"),
        }
    }
}

/// Whether each mode is TLS. The modes that do not check the certificate are absent.
const TLS_MODES: &[(&str, bool)] = &[("verify-full", true), ("disable", false)];

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
        let settings =
            read("postgresql://me:p%40ss@a,b:5/shop?schema=My%20locks&timeout=300ms").unwrap();
        let hosts: Vec<_> = settings.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["a:5432", "b:5"]);
        assert_eq!(settings.login.password.as_ref().map(Secret::reveal), Some("p@ss"));
        assert_eq!(settings.database.as_deref(), Some("shop"));
        assert_eq!(settings.quoted_schema(), "\"My locks\"");
        assert_eq!(settings.timeout, Duration::from_millis(300));
        let settings = read("postgres://me@h").unwrap();
        assert_eq!((settings.schema.as_str(), settings.database), ("tenure", None));
        assert!(settings.tls.is_none() && settings.is_notified);
    }

    #[test]
    fn a_schema_is_quoted() {
        let settings = read("postgres://me@h?schema=a%22b").unwrap();
        assert_eq!(settings.quoted_schema(), "\"a\"\"b\"");
    }

    #[test]
    fn each_option_of_a_url_has_a_setter() {
        let usual = || Settings::hosts(["h"]).unwrap().login("me", "").tls(Tls::new());
        let secs = Duration::from_secs;
        let ca = || Tls::new().ca(Pem::File("ca".into()));
        let identity = || Tls::new().identity(Pem::File("cert".into()), Pem::File("key".into()));
        for option in OPTIONS {
            let (value, built) = match option.name {
                "schema" => ("s", usual().schema("s")),
                "application_name" => ("a", Ok(usual().application_name("a"))),
                "timeout" => ("1s", usual().timeout(secs(1))),
                "connect_timeout" => ("1s", usual().connect_timeout(secs(1))),
                "notify" => ("poll", Ok(usual().poll())),
                "notify_host" => ("n:6", usual().notify_host("n:6")),
                "sslrootcert" => ("ca", Ok(usual().tls(ca()))),
                "sslcert" => ("cert&sslkey=key", Ok(usual().tls(identity()))),
                "sslkey" => ("key&sslcert=cert", Ok(usual().tls(identity()))),
                // They choose what is built: see below.
                "sslmode" | "host" | "target_session_attrs" => continue,
                other => panic!("`{other}` has no setter"),
            };
            let built = built.unwrap();
            let url = format!("postgres://me@h?sslmode=verify-full&{}={value}", option.name);
            assert_eq!(read(&url).unwrap(), built, "{url}");
            assert_ne!(built, usual(), "{url}");
        }
        let socket = Settings::socket("/run/pg").login("me", "");
        assert_eq!(read("postgres://me@localhost?host=/run/pg").unwrap(), socket);
        let plain = Settings::hosts(["h"]).unwrap().login("me", "");
        let url = "postgres://me@h?sslmode=disable&target_session_attrs=read-write";
        assert_eq!(read(url).unwrap(), plain);
    }

    #[test]
    fn a_wrong_part_is_named_and_no_password_is_repeated() {
        for (url, part) in [
            ("postgres://:secret@h", "no user"),
            ("postgres://me:secret@h/a/b", "%2F"),
            ("postgres://me:secret@h?sslmode=require", "`sslmode` takes `verify-full`"),
            ("postgres://me:secret@h?sslrootcert=f", "sslmode=verify-full"),
            ("postgres://me:secret@h?sslmode=verify-full&sslcert=f", "key"),
            ("postgres://me:secret@h?sslmode=verify-full&host=/run/pg", "no TLS"),
            ("postgres://me:secret@h?schema=pg_x", "`schema`"),
            ("postgres://me:secret@h?schema=", "`schema`"),
            ("postgres://me:secret@h?timeout=0s", "`timeout`"),
            ("postgres://me:secret@h?notify=never", "`notify`"),
            ("postgres://me:secret@h?target_session_attrs=any", "`target_session_attrs`"),
        ] {
            let error = read(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
            assert!(!error.contains("secret"), "{url}: {error}");
        }
    }
}
