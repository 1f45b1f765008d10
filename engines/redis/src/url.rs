//! The URLs of Redis servers.

use std::ops::RangeInclusive;
use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_kit::options::Value;
use tenure_kit::tls::Files;
use tenure_kit::url::{Address, Login, Servers, Url};

use crate::description::{DESCRIPTION, OPTIONS};
use crate::settings::{At, Deployment, Settings, Young};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

/// Reads a URL of one server, found in any way.
pub(crate) fn one(url: &str) -> Result<(At, Settings)> {
    match read(url)? {
        (Deployment::One(at), settings) => Ok((at, settings)),
        (_, Settings { name, .. }) => Err(Error::invalid(format!(
            "{name} is more than one server, and one was asked for: write redis:// or redis+sentinel://"
        ))),
    }
}

/// Reads a URL of a cluster.
pub(crate) fn cluster(url: &str) -> Result<(Vec<Address>, Settings)> {
    match read(url)? {
        (Deployment::Cluster(seeds), settings) => Ok((seeds, settings)),
        _ => Err(Error::invalid("a cluster was asked for: write redis+cluster://S1,S2,S3")),
    }
}

/// Reads a URL of a `RedLock`.
pub(crate) fn redlock(url: &str) -> Result<(Vec<Address>, Settings)> {
    match read(url)? {
        (Deployment::Redlock(servers), settings) => Ok((servers, settings)),
        _ => Err(Error::invalid("a RedLock is over several servers: write redlock://S1,S2,S3")),
    }
}

/// Reads a URL of any of the schemes.
pub(crate) fn read(url: &str) -> Result<(Deployment, Settings)> {
    let url = DESCRIPTION.read(url)?;
    let (deployment, mut settings) = match url.scheme() {
        "redis+unix" => {
            let deployment = Deployment::One(At::Socket(url.path()?));
            let settings = Settings::of(&deployment);
            (deployment, settings)
        }
        _ => with_servers(&url)?,
    };
    if url.scheme() == "rediss" {
        settings.tls = Some(Files::default());
    }
    for (name, value) in url.options(OPTIONS)? {
        settings.set(name, value)?;
    }
    agree(&deployment, &settings)?;
    Ok((deployment, settings))
}

impl Settings {
    /// Returns the settings of a URL of one of these unit tests.
    #[cfg(test)]
    pub(crate) fn of_url(url: &str) -> Self {
        read(url).unwrap().1
    }

    fn set(&mut self, name: &str, value: Value) -> Result<()> {
        match name {
            "prefix" => self.prefix = prefix(value)?,
            "timeout" => self.timeout = value.time(TIMES)?,
            "connect_timeout" => self.connect_timeout = value.time(TIMES)?,
            "ttl_max" => self.ttl_max = value.time(TIMES)?,
            "tls" => match (value.switch()?, &self.tls) {
                (true, _) => drop(self.tls.get_or_insert_default()),
                (false, None) => {}
                (false, Some(_)) => {
                    return Err(Error::invalid(
                        "the URL asks for TLS and has `tls=off`: leave one of them out",
                    ));
                }
            },
            "ca" | "cert" | "key" => self.tls.get_or_insert_default().set(name, value)?,
            "acks" => self.acks = value.number(0..=u16::MAX)?,
            "young" => {
                self.young = value.one_of(&[("trust", Young::Trust), ("refuse", Young::Refuse)])?;
            }
            "db" => self.db = value.number(0..=u16::MAX)?,
            "user" => self.login.user = Some(value.text()),
            "password" => self.login.password = Some(value.secret()),
            "sentinel_user" => self.sentinel_login.user = Some(value.text()),
            "sentinel_password" => self.sentinel_login.password = Some(value.secret()),
            _ => unreachable!("`{name}` is an option of the engine's, and is not read"),
        }
        Ok(())
    }
}

/// Refuses options that contradict each other.
fn agree(deployment: &Deployment, settings: &Settings) -> Result<()> {
    let refuse = |sentence: &str| Err(Error::invalid(sentence));
    if settings.login.user.is_some() && settings.login.password.is_none() {
        return refuse(
            "the URL has a user and no password: write user:password@ before the first server, or for a socket give `user` and `password`",
        );
    }
    if let Some(files) = &settings.tls {
        files.agree()?;
        if matches!(deployment, Deployment::One(At::Socket(_))) {
            return refuse("a socket of this machine has no TLS: leave out the options for it");
        }
    }
    match deployment {
        Deployment::Cluster(_) if settings.db != 0 => {
            refuse("a cluster has no databases but 0: leave the number out of the URL")
        }
        Deployment::Cluster(_) if settings.young == Young::Refuse => refuse(
            "`young=refuse` is not kept on a cluster, whose servers come and go unseen: leave it out",
        ),
        Deployment::Redlock(servers) if servers.len() < 3 => refuse(
            "redlock:// needs at least 3 servers that know nothing of each other: write redlock://S1,S2,S3",
        ),
        Deployment::Redlock(_) if settings.acks > 0 => refuse(
            "the servers of a RedLock have no replicas to wait for: leave out `acks`, its majority is better",
        ),
        Deployment::One(At::Sentinels { .. }) => Ok(()),
        _ if settings.sentinel_login != Login::default() => {
            refuse("`sentinel_user` and `sentinel_password` are for redis+sentinel://")
        }
        _ => Ok(()),
    }
}

fn with_servers(url: &Url<'_>) -> Result<(Deployment, Settings)> {
    let scheme = url.scheme();
    let port = if scheme == "redis+sentinel" { SENTINEL_PORT } else { PORT };
    let Servers { login, addresses, path } = url.servers(port)?;
    let mut path = path.into_iter();
    let deployment = match scheme {
        "redis+sentinel" => {
            let service = path.next().ok_or_else(|| {
                Error::invalid(
                    "the sentinels must be told which master is meant: write redis+sentinel://S1,S2,S3/SERVICE",
                )
            })?;
            Deployment::One(At::Sentinels { sentinels: addresses, service })
        }
        "redis+cluster" => Deployment::Cluster(addresses),
        "redlock" => {
            let twice = |(at, server): (usize, &Address)| addresses[..at].contains(server);
            if addresses.iter().enumerate().any(twice) {
                return Err(Error::invalid(
                    "redlock:// names a server twice: each has one vote, name each once",
                ));
            }
            Deployment::Redlock(addresses)
        }
        _ => {
            let [server] = &addresses[..] else {
                return Err(Error::invalid(format!(
                    "{scheme}:// names one server: for several write redis+sentinel://, redis+cluster:// or redlock://"
                )));
            };
            Deployment::One(At::Server(server.clone()))
        }
    };
    let mut settings = Settings { login, ..Settings::of(&deployment) };
    if let Some(db) = path.next() {
        settings.db = Value::new("the database", db).number(0..=u16::MAX)?;
    }
    if path.next().is_some() {
        return Err(Error::invalid(
            "the URL has more behind its servers than the number of a database: leave it out",
        ));
    }
    Ok((deployment, settings))
}

fn prefix(value: Value) -> Result<String> {
    let plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | ':');
    let wrong = value.wrong("1 to 64 letters, digits and the signs . _ - :");
    let text = value.text();
    if text.is_empty() || text.len() > 64 || !text.chars().all(plain) {
        return Err(wrong);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use tenure_kit::secret::Secret;

    use super::*;

    fn at(name: &str, port: u16) -> Address {
        Address { name: name.to_owned(), port }
    }

    #[test]
    fn every_kind_of_place_is_read() {
        let deployment = |url| read(url).unwrap().0;
        assert_eq!(deployment("redis://h"), Deployment::One(At::Server(at("h", 6379))));
        assert_eq!(deployment("redis://[::1]:7/3"), Deployment::One(At::Server(at("::1", 7))));
        assert_eq!(deployment("rediss://h:1?ca=/a.pem"), Deployment::One(At::Server(at("h", 1))));
        assert_eq!(
            deployment("redis+unix:///run/r%20s.sock?db=2"),
            Deployment::One(At::Socket("/run/r s.sock".into()))
        );
        assert_eq!(
            deployment("redis+sentinel://a,b:5,c/main/2"),
            Deployment::One(At::Sentinels {
                sentinels: vec![at("a", 26379), at("b", 5), at("c", 26379)],
                service: "main".into()
            })
        );
        assert_eq!(
            deployment("redis+cluster://a,b"),
            Deployment::Cluster(vec![at("a", 6379), at("b", 6379)])
        );
        assert_eq!(Settings::of_url("redlock://a,b,c").name.to_string(), "a:6379, b:6379, c:6379");
    }

    #[test]
    fn terms_are_read_and_have_defaults() {
        let settings = Settings::of_url(
            "redis://us%40er:p%3Aw@h/5?prefix=my:app&timeout=300ms&connect_timeout=1s&acks=2&young=refuse&ttl_max=2m",
        );
        assert_eq!(settings.login.user.as_deref(), Some("us@er"));
        assert_eq!(settings.login.password.as_ref().map(Secret::reveal), Some("p:w"));
        assert_eq!((settings.db, settings.acks, settings.young), (5, 2, Young::Refuse));
        assert_eq!(settings.channels(), "my:app:inbox:");
        assert_eq!(settings.timeout, Duration::from_millis(300));
        assert_eq!(settings.ttl_max, Duration::from_secs(120));
        let password_only = Settings::of_url("redis://:secret@h");
        assert_eq!(
            password_only.login,
            Login { user: None, password: Some(Secret::new("secret")) }
        );
        assert!(!format!("{:?}", password_only.login).contains("secret"));
        assert_eq!(Settings::of_url("redlock://a,b,c").young, Young::Refuse);
        assert_eq!(Settings::of_url("redis://a").young, Young::Trust);
    }

    #[test]
    fn every_option_is_read() {
        for option in OPTIONS {
            let mut settings = Settings::of_url("redis://h");
            let words = ["1s", "1", "on", "trust"];
            let read = words.map(|word| settings.set(option.name, Value::new("it", word)).is_ok());
            assert!(read.contains(&true), "{}", option.name);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_without_its_password() {
        let tls = "a client's certificate needs its key, and the other way round: give both `cert` and `key`";
        for (url, sentence) in [
            (
                "redis://:secret@a,b",
                "redis:// names one server: for several write redis+sentinel://, redis+cluster:// or redlock://",
            ),
            ("redis://:secret@h/x", "the database takes a number from 0 to 65535"),
            (
                "redis://:secret@h/1/2",
                "the URL has more behind its servers than the number of a database: leave it out",
            ),
            (
                "redis://:secret@h?prefix={}",
                "`prefix` takes 1 to 64 letters, digits and the signs . _ - :",
            ),
            (
                "redis://:secret@h?prefix=",
                "`prefix` takes 1 to 64 letters, digits and the signs . _ - :",
            ),
            (
                "redis://:secret@h?timeout=0s",
                "`timeout` takes a time from 1ms to 1h, such as 500ms, 2s or 1m",
            ),
            ("redis://:secret@h?tls=secret", "`tls` takes `on` or `off`"),
            (
                "rediss://:secret@h?tls=off",
                "the URL asks for TLS and has `tls=off`: leave one of them out",
            ),
            ("redis://:secret@h?young=secret", "`young` takes `trust` or `refuse`"),
            ("redis://:secret@h?acks=-1", "`acks` takes a number from 0 to 65535"),
            ("redis://:secret@h?cert=a", tls),
            (
                "redis://:secret@h?sentinel_password=secret",
                "`sentinel_user` and `sentinel_password` are for redis+sentinel://",
            ),
            (
                "redis+unix://secret",
                "the URL names another machine, and redis+unix: is for paths of this one: write redis+unix:PATH or redis+unix:///PATH",
            ),
            (
                "redis+unix:///a?ca=secret",
                "a socket of this machine has no TLS: leave out the options for it",
            ),
            (
                "redis+unix:///a?user=secret",
                "the URL has a user and no password: write user:password@ before the first server, or for a socket give `user` and `password`",
            ),
            (
                "redis+sentinel://:secret@a,b",
                "the sentinels must be told which master is meant: write redis+sentinel://S1,S2,S3/SERVICE",
            ),
            (
                "redis+cluster://:secret@a/1",
                "a cluster has no databases but 0: leave the number out of the URL",
            ),
            (
                "redis+cluster://:secret@a?young=refuse",
                "`young=refuse` is not kept on a cluster, whose servers come and go unseen: leave it out",
            ),
            (
                "redlock://:secret@a,b",
                "redlock:// needs at least 3 servers that know nothing of each other: write redlock://S1,S2,S3",
            ),
            (
                "redlock://:secret@a,b,a",
                "redlock:// names a server twice: each has one vote, name each once",
            ),
            (
                "redlock://:secret@a,b,c?acks=1",
                "the servers of a RedLock have no replicas to wait for: leave out `acks`, its majority is better",
            ),
        ] {
            let error = read(url).err().unwrap_or_else(|| panic!("{url} is taken"));
            assert_eq!(error.to_string(), sentence, "{url}");
        }
    }
}
