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
    /// options have the names that `libpq` has for them. With `host`, the directory of a Unix socket,
    /// the host before the path only gives the port.
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
