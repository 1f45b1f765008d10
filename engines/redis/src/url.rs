//! The URLs of Redis servers.

use tenure_core::{Error, Result};
use tenure_kit::options::{TIMES, Value};
use tenure_kit::tls::Tls;
use tenure_kit::url::{Servers, Url};

use crate::description::{DESCRIPTION, OPTIONS};
use crate::settings::{AfterRestart, At, DeploymentKind, PORT, SENTINEL_PORT, Settings};

impl Settings {
    /// Reads the settings of a URL of any of the schemes that [`connect`](crate::connect()) lists.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if a part of the URL is wrong.
    pub fn from_url(url: impl AsRef<str>) -> Result<Self> {
        let url = DESCRIPTION.read(url.as_ref())?;
        let mut settings = match url.scheme() {
            "redis+unix" => Self::socket(url.path()?),
            _ => with_servers(&url)?,
        };
        if url.scheme() == "rediss" {
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
            "prefix" => return self.prefix(value.text()),
            "timeout" => return self.timeout(value.time(TIMES)?),
            "connect_timeout" => return self.connect_timeout(value.time(TIMES)?),
            "ttl_max" => return self.ttl_max(value.time(TIMES)?),
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
            "after_restart" => {
                self.after_restart = value
                    .one_of(&[("trust", AfterRestart::Trust), ("refuse", AfterRestart::Refuse)])?;
            }
            "db" => self.db = value.number(0..=u16::MAX)?,
            "user" => self.login.user = Some(value.text()),
            "password" => self.login.password = Some(value.secret()),
            "sentinel_user" => self.sentinel_login.user = Some(value.text()),
            "sentinel_password" => self.sentinel_login.password = Some(value.secret()),
            _ => unreachable!("`{name}` is an option of the engine's, and is not read"),
        }
        Ok(self)
    }
}

fn with_servers(url: &Url<'_>) -> Result<Settings> {
    let scheme = url.scheme();
    let port = if scheme == "redis+sentinel" { SENTINEL_PORT } else { PORT };
    let Servers { login, addresses, path } = url.servers(port)?;
    let mut path = path.into_iter();
    let kind = match scheme {
        "redis+sentinel" => {
            let service = path.next().unwrap_or_default();
            DeploymentKind::One(At::Sentinels { sentinels: addresses, service })
        }
        "redis+cluster" => DeploymentKind::Cluster(addresses),
        "redlock" => DeploymentKind::Redlock(addresses),
        _ => {
            let [server] = &addresses[..] else {
                return Err(Error::invalid(format!(
                    "{scheme}:// names one server: for several write redis+sentinel://, redis+cluster:// or redlock://"
                )));
            };
            DeploymentKind::One(At::Server(server.clone()))
        }
    };
    let mut settings = Settings { login, ..Settings::of(kind) };
    if let Some(db) = path.next() {
        settings.db = Value::new("the database", db).number(0..=u16::MAX)?;
    }
    if path.next().is_some() {
        return Err(Error::invalid(
            "the URL has more behind its servers than the number of a database: leave it out",
        ));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_kit::secret::Secret;
    use tenure_kit::tls::Pem;
    use tenure_kit::url::{Address, Login};

    use super::*;

    fn read(url: &str) -> Result<Settings> {
        let settings = Settings::from_url(url)?;
        settings.check().map(|()| settings)
    }

    fn at(name: &str, port: u16) -> Address {
        Address { name: name.to_owned(), port }
    }

    #[test]
    fn every_kind_of_place_is_read() {
        let kind = |url| read(url).unwrap().kind;
        assert_eq!(kind("redis://h"), DeploymentKind::One(At::Server(at("h", 6379))));
        assert_eq!(kind("redis://[::1]:7/3"), DeploymentKind::One(At::Server(at("::1", 7))));
        assert_eq!(kind("rediss://h:1?ca=/a.pem"), DeploymentKind::One(At::Server(at("h", 1))));
        assert_eq!(
            kind("redis+unix:///run/r%20s.sock?db=2"),
            DeploymentKind::One(At::Socket("/run/r s.sock".into()))
        );
        assert_eq!(
            kind("redis+sentinel://a,b:5,c/main/2"),
            DeploymentKind::One(At::Sentinels {
                sentinels: vec![at("a", 26379), at("b", 5), at("c", 26379)],
                service: "main".into()
            })
        );
        assert_eq!(
            kind("redis+cluster://a,b"),
            DeploymentKind::Cluster(vec![at("a", 6379), at("b", 6379)])
        );
        assert_eq!(read("redlock://a,b,c").unwrap().name, "a:6379, b:6379, c:6379");
    }

    #[test]
    fn terms_are_read_and_have_defaults() {
        let settings = read(
            "redis://us%40er:p%3Aw@h/5?prefix=my:app&timeout=300ms&connect_timeout=1s&acks=2&after_restart=refuse&ttl_max=2m",
        )
        .unwrap();
        assert_eq!(settings.login.user.as_deref(), Some("us@er"));
        assert_eq!(settings.login.password.as_ref().map(Secret::reveal), Some("p:w"));
        assert_eq!(
            (settings.db, settings.acks, settings.after_restart),
            (5, 2, AfterRestart::Refuse)
        );
        assert_eq!(settings.channels(), "my:app:inbox:");
        assert_eq!(settings.timeout, Duration::from_millis(300));
        assert_eq!(settings.ttl_max, Duration::from_secs(120));
        let password_only = read("redis://:secret@h").unwrap();
        assert_eq!(
            password_only.login,
            Login { user: None, password: Some(Secret::new("secret")) }
        );
        assert!(!format!("{:?}", password_only.login).contains("secret"));
        assert_eq!(read("redlock://a,b,c").unwrap().after_restart, AfterRestart::Refuse);
        assert_eq!(read("redis://a").unwrap().after_restart, AfterRestart::Trust);
    }

    #[test]
    fn each_option_of_a_url_has_a_setter() {
        let usual = || Settings::sentinel(["h"], "main").unwrap();
        let second = Duration::from_secs(1);
        let ca = || Tls::new().ca(Pem::File("ca".into()));
        let identity = || Tls::new().identity(Pem::File("cert".into()), Pem::File("key".into()));
        for option in OPTIONS {
            let (value, built) = match option.name {
                "prefix" => ("p", usual().prefix("p").unwrap()),
                "timeout" => ("1s", usual().timeout(second).unwrap()),
                "connect_timeout" => ("1s", usual().connect_timeout(second).unwrap()),
                "ttl_max" => ("1s", usual().ttl_max(second).unwrap()),
                "tls" => ("on", usual().tls(Tls::new())),
                "ca" => ("ca", usual().tls(ca())),
                "cert" => ("cert&key=key", usual().tls(identity())),
                "key" => ("key&cert=cert", usual().tls(identity())),
                "acks" => ("1", usual().acks(1)),
                "after_restart" => ("refuse", usual().after_restart(AfterRestart::Refuse)),
                "db" => ("5", usual().database(5)),
                "user" => ("me&password=p", usual().login("me", "p")),
                "password" => ("p", usual().password("p")),
                "sentinel_user" => ("me&sentinel_password=p", usual().sentinel_login("me", "p")),
                "sentinel_password" => ("p", usual().sentinel_login("", "p")),
                other => panic!("`{other}` has no setter"),
            };
            let url = format!("redis+sentinel://h/main?{}={value}", option.name);
            assert_eq!(read(&url).unwrap(), built, "{url}");
            assert_ne!(built, usual(), "{url}");
        }
    }

    #[test]
    fn each_kind_of_deployment_has_a_constructor() {
        for (url, built) in [
            (
                "redis://me:p%40ss@h:5/2",
                Settings::server("h:5").map(|it| it.login("me", "p@ss").database(2)),
            ),
            (
                "rediss://:p@[::1]",
                Settings::server("[::1]").map(|it| it.password("p").tls(Tls::new())),
            ),
            ("redis+unix:///a.sock?db=2", Ok(Settings::socket("/a.sock").database(2))),
            ("redis+sentinel://a,b:5/main", Settings::sentinel(["a", "b:5"], "main")),
            ("redis+cluster://a,b:5", Settings::cluster(["a", "b:5"])),
            ("redlock://a,b:5,c", Settings::redlock(["a", "b:5", "c"])),
        ] {
            assert_eq!(read(url).unwrap(), built.unwrap(), "{url}");
        }
    }

    #[test]
    fn a_wrong_value_has_the_same_sentence_in_code_as_in_a_url() {
        let usual = || Settings::server("h").unwrap();
        let cluster = || Settings::cluster(["a"]).unwrap();
        let long = Duration::from_secs(3601);
        for (url, built) in [
            ("redis://h:0", Settings::server("h:0")),
            ("redis+cluster://a,", Settings::cluster(["a", ""])),
            ("redis://h?prefix=*", usual().prefix("*")),
            ("redis://h?timeout=0s", usual().timeout(Duration::ZERO)),
            ("redis://h?connect_timeout=2h", usual().connect_timeout(long)),
            ("redis://h?ttl_max=2h", usual().ttl_max(long)),
            ("redis://me@h", Ok(usual().login("me", ""))),
            ("redis://h?sentinel_password=p", Ok(usual().sentinel_login("", "p"))),
            ("redis+unix:/a?tls=on", Ok(Settings::socket("/a").tls(Tls::new()))),
            ("redis+sentinel://a", Settings::sentinel(["a"], "")),
            ("redis+cluster://a/1", Ok(cluster().database(1))),
            (
                "redis+cluster://a?after_restart=refuse",
                Ok(cluster().after_restart(AfterRestart::Refuse)),
            ),
            ("redlock://a,b", Settings::redlock(["a", "b"])),
            ("redlock://a,b,a", Settings::redlock(["a", "b", "a"])),
            ("redlock://a,b,c?acks=1", Settings::redlock(["a", "b", "c"]).map(|it| it.acks(1))),
        ] {
            let built = built.and_then(|built| built.check()).unwrap_err();
            assert_eq!(built.to_string(), read(url).unwrap_err().to_string(), "{url}");
        }
    }

    #[test]
    fn no_password_and_no_key_is_printed() {
        let pem = |text: &str| Pem::Bytes(text.into());
        let tls = Tls::new().ca(pem("secret")).identity(pem("secret"), pem("secret"));
        let settings = Settings::server("h").unwrap().login("me", "secret").tls(tls);
        let settings = settings.sentinel_login("me", "secret");
        let shown = format!("{settings:?} {settings:#?}");
        assert!(!shown.contains("secret") && !shown.contains("115"), "{shown}");
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
                "`prefix` takes 1 to 128 letters, digits and the signs . _ - :, with slashes between them",
            ),
            (
                "redis://:secret@h?prefix=",
                "`prefix` takes 1 to 128 letters, digits and the signs . _ - :, with slashes between them",
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
            ("redis://:secret@h?after_restart=secret", "`after_restart` takes `trust` or `refuse`"),
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
                "the login has a user and no password: give both, in a URL as user:password@ before the first server, or for a socket as `user` and `password`",
            ),
            (
                "redis+sentinel://:secret@a,b",
                "the sentinels must be told which master is meant: write redis+sentinel://S1,S2,S3/SERVICE",
            ),
            (
                "redis+cluster://:secret@a/1",
                "a cluster has no databases but 0: leave the number of the database out",
            ),
            (
                "redis+cluster://:secret@a?after_restart=refuse",
                "`after_restart=refuse` is not kept on a cluster, whose servers come and go unseen: leave it out",
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
