//! A URL of Redis servers, read part by part; what may be a password is never told again.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tenure_core::{Error, Result};

use crate::settings::{Host, Login, Place, Settings, Tls, Young};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
const HOSTS_MAX: usize = 64;
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);
const OPTIONS: &str = "`prefix`, `timeout`, `connect_timeout`, `tls`, `ca`, `cert`, `key`, `acks`, `young`, `ttl_max`, \
     `sentinel_user`, `sentinel_password`, and for a socket `user`, `password` and `db`";

impl Settings {
    /// Reads a URL of any of the schemes.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(Error::invalid(
                "a URL of Redis begins with redis://, rediss://, redis+unix://, redis+sentinel://, redis+cluster:// or redlock://",
            ));
        };
        let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
        let mut settings = match scheme {
            "redis+unix" => Self::of(Place::Socket(socket(address)?)),
            _ => with_hosts(scheme, address)?,
        };
        if scheme == "rediss" {
            settings.tls = Some(Tls::default());
        }
        for option in options.split('&').filter(|option| !option.is_empty()) {
            settings.set(option)?;
        }
        settings.agree()?;
        Ok(settings)
    }

    fn set(&mut self, option: &str) -> Result<()> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = decode(name, value)?;
        match name {
            "prefix" => self.prefix = prefix(&value)?,
            "timeout" => self.timeout = duration(name, &value)?,
            "connect_timeout" => self.connect_timeout = duration(name, &value)?,
            "ttl_max" => self.ttl_max = duration(name, &value)?,
            "tls" => match &*value {
                "on" => drop(self.tls.get_or_insert_default()),
                "off" if self.tls.is_none() => {}
                _ => return Err(one_of(name, "`on`, and `off`, which is the default")),
            },
            "ca" => self.tls.get_or_insert_default().ca = Some(file(name, &value)?),
            "cert" => self.tls.get_or_insert_default().cert = Some(file(name, &value)?),
            "key" => self.tls.get_or_insert_default().key = Some(file(name, &value)?),
            "acks" => self.acks = number(name, &value)?,
            "young" => {
                self.young = match &*value {
                    "trust" => Young::Trust,
                    "refuse" => Young::Refuse,
                    _ => return Err(one_of(name, "`trust` and `refuse`")),
                }
            }
            "db" => self.db = number(name, &value)?,
            "user" => self.login.user = Some(value.into_owned()),
            "password" => self.login.password = Some(value.into_owned()),
            "sentinel_user" => self.sentinel_login.user = Some(value.into_owned()),
            "sentinel_password" => self.sentinel_login.password = Some(value.into_owned()),
            _ => {
                return Err(Error::invalid(format!(
                    "the URL has an option that Redis does not: there are {OPTIONS}"
                )));
            }
        }
        Ok(())
    }

    /// What cannot be at the same time.
    fn agree(&self) -> Result<()> {
        let refuse = |sentence: &str| Err(Error::invalid(sentence));
        if self.login.user.is_some() && self.login.password.is_none() {
            return refuse("the URL has a user and no password: write user:password@host");
        }
        if let Some(Tls { cert, key, .. }) = &self.tls {
            if cert.is_some() != key.is_some() {
                return refuse(
                    "a client's certificate needs its key, and the other way round: give both `cert` and `key`",
                );
            }
            if matches!(self.place, Place::Socket(_)) {
                return refuse("a socket of this machine has no TLS: leave out the options for it");
            }
        }
        match &self.place {
            Place::Cluster(_) if self.db != 0 => {
                refuse("a cluster has no databases but 0: leave the number out of the URL")
            }
            Place::Cluster(_) if self.young == Young::Refuse => refuse(
                "`young=refuse` is not kept on a cluster, whose servers come and go unseen: leave it out",
            ),
            Place::Redlock(hosts) if hosts.len() < 3 => refuse(
                "redlock:// needs at least 3 servers that know nothing of each other: write redlock://h1,h2,h3",
            ),
            Place::Redlock(_) if self.acks > 0 => refuse(
                "the servers of a RedLock have no replicas to wait for: leave out `acks`, its majority is better",
            ),
            Place::Sentinel { .. } => Ok(()),
            _ if self.sentinel_login != Login::default() => {
                refuse("`sentinel_user` and `sentinel_password` are for redis+sentinel://")
            }
            _ => Ok(()),
        }
    }
}

fn with_hosts(scheme: &str, address: &str) -> Result<Settings> {
    // A password may contain an @ by mistake, a host never does.
    let (login, address) =
        address.rsplit_once('@').map_or((None, address), |(login, rest)| (Some(login), rest));
    let (hosts, path) = address.split_once('/').unwrap_or((address, ""));
    let port = if scheme == "redis+sentinel" { SENTINEL_PORT } else { PORT };
    let hosts =
        hosts.split(',').map(|host| read_host(host, port)).collect::<Result<Vec<Host>>>()?;
    if hosts.len() > HOSTS_MAX {
        return Err(Error::invalid(format!("a URL names at most {HOSTS_MAX} servers")));
    }
    let mut db = path;
    let place = match scheme {
        "redis" | "rediss" => {
            let [host] = &hosts[..] else {
                return Err(Error::invalid(format!(
                    "{scheme}:// names one server: for several write redis+sentinel://, redis+cluster:// or redlock://"
                )));
            };
            Place::Server(host.clone())
        }
        "redis+sentinel" => {
            let (service, rest) = path.split_once('/').unwrap_or((path, ""));
            db = rest;
            if service.is_empty() {
                return Err(Error::invalid(
                    "the sentinels must be told which master is meant: write redis+sentinel://h1,h2,h3/SERVICE",
                ));
            }
            let service = decode("service", service)?.into_owned();
            Place::Sentinel { sentinels: hosts, service }
        }
        "redis+cluster" => Place::Cluster(hosts),
        "redlock" => {
            let twice = |(at, host): (usize, &Host)| hosts[..at].contains(host);
            if hosts.iter().enumerate().any(twice) {
                return Err(Error::invalid(
                    "redlock:// names a server twice: each has one vote, name each once",
                ));
            }
            Place::Redlock(hosts)
        }
        _ => {
            return Err(Error::invalid(format!(
                "`{scheme}://` is no scheme of Redis: there are redis, rediss, redis+unix, redis+sentinel, redis+cluster and redlock"
            )));
        }
    };
    let mut settings = Settings::of(place);
    if !db.is_empty() {
        settings.db = number("the database", db)?;
    }
    if let Some(login) = login {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let set = |text: &str, what| match text {
            "" => Ok(None),
            text => decode(what, text).map(|text| Some(text.into_owned())),
        };
        settings.login =
            Login { user: set(user, "the user")?, password: set(password, "the password")? };
    }
    Ok(settings)
}

fn read_host(text: &str, default: u16) -> Result<Host> {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) => (name, rest.strip_prefix(':').or(rest.is_empty().then_some(""))),
        None => text.split_once(':').map_or((text, Some("")), |(name, port)| (name, Some(port))),
    };
    let port = match port {
        Some("") => Some(default),
        Some(port) => port.parse().ok().filter(|port| *port > 0),
        None => None,
    };
    match port {
        Some(port) if !name.is_empty() => Ok(Host { name: name.to_owned(), port }),
        _ => Err(Error::invalid(
            "the URL has a server without a name or with no proper port: write host or host:port, and [::1]:port for an IPv6 address",
        )),
    }
}

fn socket(address: &str) -> Result<PathBuf> {
    if !address.starts_with('/') {
        return Err(Error::invalid(
            "redis+unix:// names a socket by its whole path: write redis+unix:///path/to/redis.sock",
        ));
    }
    Ok(PathBuf::from(&*decode("the path", address)?))
}

fn prefix(text: &str) -> Result<String> {
    let plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | ':');
    if text.is_empty() || text.len() > 64 || !text.chars().all(plain) {
        return Err(Error::invalid("`prefix` takes 1 to 64 letters, digits and the signs . _ - :"));
    }
    Ok(text.to_owned())
}

fn file(name: &str, text: &str) -> Result<PathBuf> {
    if text.is_empty() {
        return Err(Error::invalid(format!("`{name}` takes the path of a file in PEM")));
    }
    Ok(PathBuf::from(text))
}

fn duration(name: &str, text: &str) -> Result<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let time = count.parse().ok().and_then(|count: u64| match unit {
        "ms" => Some(Duration::from_millis(count)),
        "s" => Some(Duration::from_secs(count)),
        "m" => count.checked_mul(60).map(Duration::from_secs),
        _ => None,
    });
    match time {
        Some(time) if !time.is_zero() && time <= TIMEOUT_MAX => Ok(time),
        _ => Err(Error::invalid(format!(
            "`{name}` takes a time from 1ms to 60m, such as 500ms, 2s or 1m"
        ))),
    }
}

fn number(name: &str, text: &str) -> Result<u16> {
    text.parse().map_err(|_| Error::invalid(format!("{name} must be a number from 0 to 65535")))
}

fn one_of(name: &str, values: &str) -> Error {
    Error::invalid(format!("`{name}` takes {values}"))
}

fn decode<'a>(name: &str, text: &'a str) -> Result<Cow<'a, str>> {
    percent_decode_str(text).decode_utf8().map_err(|_| {
        Error::invalid(format!("{name} is not UTF-8 where the URL has it behind % signs"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        Host { name: name.to_owned(), port }
    }

    #[test]
    fn every_kind_of_place_is_read() {
        let place = |url| Settings::parse(url).unwrap().place;
        assert_eq!(place("redis://h"), Place::Server(host("h", 6379)));
        assert_eq!(place("redis://[::1]:7/3"), Place::Server(host("::1", 7)));
        assert_eq!(place("rediss://h:1?ca=/a.pem"), Place::Server(host("h", 1)));
        assert_eq!(
            place("redis+unix:///run/r%20s.sock?db=2"),
            Place::Socket("/run/r s.sock".into())
        );
        assert_eq!(
            place("redis+sentinel://a,b:5,c/main/2"),
            Place::Sentinel {
                sentinels: vec![host("a", 26379), host("b", 5), host("c", 26379)],
                service: "main".into()
            }
        );
        assert_eq!(
            place("redis+cluster://a,b"),
            Place::Cluster(vec![host("a", 6379), host("b", 6379)])
        );
        assert_eq!(place("redlock://a,b,c").to_string(), "a:6379, b:6379, c:6379");
    }

    #[test]
    fn terms_are_read_and_have_defaults() {
        let settings = Settings::parse(
            "redis://us%40er:p%3Aw@h/5?prefix=my:app&timeout=300ms&connect_timeout=1s&acks=2&young=refuse&ttl_max=2m",
        )
        .unwrap();
        assert_eq!(settings.login.user.as_deref(), Some("us@er"));
        assert_eq!(settings.login.password.as_deref(), Some("p:w"));
        assert_eq!((settings.db, settings.acks, settings.young), (5, 2, Young::Refuse));
        assert_eq!(settings.channels(), "my:app:inbox:");
        assert_eq!(settings.timeout, Duration::from_millis(300));
        assert_eq!(settings.ttl_max, Duration::from_secs(120));
        let password_only = Settings::parse("redis://:secret@h").unwrap();
        assert_eq!(password_only.login, Login { user: None, password: Some("secret".into()) });
        assert!(!format!("{:?}", password_only.login).contains("secret"));
        assert_eq!(Settings::parse("redlock://a,b,c").unwrap().young, Young::Refuse);
        assert_eq!(Settings::parse("redis://a").unwrap().young, Young::Trust);
    }

    #[test]
    fn what_makes_no_sense_is_refused_without_its_password() {
        for url in [
            "redis:h",
            "redis://:secret@",
            "redis://:secret@h:0",
            "redis://:secret@h:x",
            "redis://:secret@a,b",
            "redis://secret@h",
            "redis://:secret@h/x",
            "redis://:secret@h?secret=1",
            "redis://:secret@h?prefix={}",
            "redis://:secret@h?prefix=",
            "redis://:secret@h?timeout=0s",
            "redis://:secret@h?timeout=5",
            "redis://:secret@h?timeout=2h",
            "redis://:secret@h?cert=a",
            "redis://:secret@h?tls=secret",
            "redis://:secret@h?young=secret",
            "redis://:secret@h?acks=-1",
            "redis://:secret@h?sentinel_password=secret",
            "redis://:%ff@h",
            "rediss://:secret@h?tls=off",
            "redis+unix://secret",
            "redis+unix:///a?ca=secret",
            "redis+sentinel://:secret@a,b",
            "redis+cluster://:secret@a/1",
            "redis+cluster://:secret@a?young=refuse",
            "redlock://:secret@a,b",
            "redlock://:secret@a,b,a",
            "redlock://:secret@a,b,c?acks=1",
            "redis+x://:secret@a",
        ] {
            let error = Settings::parse(url).err().unwrap_or_else(|| panic!("{url} is taken"));
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
