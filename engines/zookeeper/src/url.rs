//! The URLs of ZooKeeper's ensembles.

use std::ops::RangeInclusive;
use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_kit::options::Value;
use tenure_kit::tls::Files;
use tenure_kit::url::Servers;

use crate::description::{DESCRIPTION, OPTIONS};
use crate::settings::{Settings, Whom};
use crate::tls;

const PORT: u16 = 2181;
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

/// Reads a URL.
pub(crate) fn read(url: &str) -> Result<Settings> {
    let url = DESCRIPTION.read(url)?;
    let Servers { login, addresses, path } = url.servers(PORT)?;
    if login.password.is_some() && login.user.is_none() {
        return Err(Error::invalid(
            "the URL has a password and no user: write user:password@ before the first server",
        ));
    }
    if login.user.as_ref().is_some_and(|user| user.contains(':')) {
        return Err(Error::invalid(
            "the user of the URL has a colon in it, which ZooKeeper's cannot",
        ));
    }
    let mut settings = Settings::of(addresses, login);
    if url.scheme() == "zookeepers" {
        settings.tls = Some(Files::default());
    }
    for part in path {
        if !is_plain(&part) {
            return Err(Error::invalid(
                "a chroot is made of letters, digits and the signs . _ - :, with slashes between, and none of them is `zookeeper`, `.` or `..`: write zookeeper://SERVER/my/app",
            ));
        }
        settings.chroot = format!("{}/{part}", settings.chroot);
    }
    for (name, value) in url.options(OPTIONS)? {
        settings.set(name, value)?;
    }
    if let Some(files) = &settings.tls {
        files.agree()?;
        if files.ca.is_none() {
            return Err(Error::invalid(
                "zookeepers:// wants to know whom to trust: name the authority that signed the servers' certificates as `ca=FILE`",
            ));
        }
    }
    if settings.tls.is_some() {
        tls::check(&settings.servers)?;
    }
    let has_certificate = settings.tls.as_ref().is_some_and(|files| files.cert.is_some());
    if settings.acl == Some(Whom::Creator) && settings.login.user.is_none() && !has_certificate {
        return Err(Error::invalid(
            "`acl=creator` is for somebody whom the servers know: write user:password@ before them, or name a certificate as `cert` and `key`",
        ));
    }
    Ok(settings)
}

impl Settings {
    fn set(&mut self, name: &str, value: Value) -> Result<()> {
        match name {
            "prefix" => self.prefix = prefix(value)?,
            "timeout" => self.timeout = value.time(TIMES)?,
            "connect_timeout" => self.connect_timeout = value.time(TIMES)?,
            "acl" => self.acl = Some(whom(value)?),
            "ca" | "cert" | "key" => {
                Files::wanted(&mut self.tls, "zookeepers")?.set(name, value)?;
            }
            _ => unreachable!("`{name}` is an option of the engine's, and is not read"),
        }
        Ok(())
    }
}

fn prefix(value: Value) -> Result<String> {
    let wrong = value.wrong("1 to 128 letters, digits and the signs . _ - :, with slashes between, and none of them is `zookeeper`, `.` or `..`");
    let text = value.text();
    if text.len() > 128 || !text.split('/').all(is_plain) {
        return Err(wrong);
    }
    Ok(text)
}

fn whom(value: Value) -> Result<Whom> {
    let wrong = value.wrong("open, creator or digest:USER:HASH");
    match value.text().as_str() {
        "open" => Ok(Whom::Everybody),
        "creator" => Ok(Whom::Creator),
        other => match other.strip_prefix("digest:") {
            Some(id) if id.split(':').filter(|part| !part.is_empty()).count() == 2 => {
                Ok(Whom::Digest(id.to_owned()))
            }
            _ => Err(wrong),
        },
    }
}

/// Returns whether this may be the name of a node.
fn is_plain(part: &str) -> bool {
    let plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | ':');
    !part.is_empty() && part.chars().all(plain) && !matches!(part, "." | ".." | "zookeeper")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_and_have_defaults() {
        let url = "zookeeper://me:p%40ss@a,b:5,[::1]/my/app?prefix=x/y&timeout=300ms&acl=digest:you:h4sh=";
        let read = read(url).unwrap();
        assert_eq!(read.ensemble(), "a:2181,b:5,[::1]:2181/my/app");
        assert_eq!((read.prefix.as_str(), read.timeout), ("x/y", Duration::from_millis(300)));
        assert_eq!(read.acl, Some(Whom::Digest("you:h4sh=".into())));
        let usual = super::read("zookeeper://h").unwrap();
        assert_eq!((usual.prefix.as_str(), usual.chroot.as_str()), ("tenure", ""));
    }

    #[test]
    fn nodes_belong_to_who_logs_in_and_else_to_everybody() {
        let scheme = |url: &str| read(url).unwrap().acls()[0].scheme().to_owned();
        assert_eq!(scheme("zookeeper://h"), "world");
        assert_eq!(scheme("zookeeper://me:pass@h"), "auth");
        assert_eq!(scheme("zookeeper://me:pass@h?acl=open"), "world");
        assert_eq!(scheme("zookeeper://h?acl=digest:me:hash"), "digest");
    }

    #[test]
    fn every_option_is_read() {
        for option in OPTIONS {
            let mut settings = read("zookeeper://h").unwrap();
            settings.tls = Some(Files::default());
            let words = ["1s", "a", "open"];
            let read = words.map(|word| settings.set(option.name, Value::new("it", word)).is_ok());
            assert!(read.contains(&true), "{}", option.name);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_without_its_password() {
        for (url, sentence) in [
            (
                "zookeeper://:secret@h",
                "the URL has a password and no user: write user:password@ before the first server",
            ),
            (
                "zookeeper://h/a/../b",
                "a chroot is made of letters, digits and the signs . _ - :, with slashes between, and none of them is `zookeeper`, `.` or `..`: write zookeeper://SERVER/my/app",
            ),
            (
                "zookeeper://h?prefix=a//b",
                "`prefix` takes 1 to 128 letters, digits and the signs . _ - :, with slashes between, and none of them is `zookeeper`, `.` or `..`",
            ),
            (
                "zookeeper://h?ca=secret",
                "`ca`, `cert` and `key` are for TLS: write zookeepers:// for it",
            ),
            #[cfg(feature = "tls")]
            (
                "zookeepers://h",
                "zookeepers:// wants to know whom to trust: name the authority that signed the servers' certificates as `ca=FILE`",
            ),
            #[cfg(feature = "tls")]
            (
                "zookeepers://h?ca=ca.pem&cert=secret",
                "a client's certificate needs its key, and the other way round: give both `cert` and `key`",
            ),
            #[cfg(feature = "tls")]
            (
                "zookeepers://a..b?ca=ca.pem",
                "\"a..b\" can be no name in a certificate: write the servers as their certificates name them",
            ),
            #[cfg(not(feature = "tls"))]
            (
                "zookeepers://h?ca=ca.pem",
                "TLS to ZooKeeper is not a part of this program: build it with the feature `zookeeper-tls`, which is `tls` in the crate tenure-zookeeper",
            ),
            ("zookeeper://h?acl=secret", "`acl` takes open, creator or digest:USER:HASH"),
            (
                "zookeeper://h?acl=creator",
                "`acl=creator` is for somebody whom the servers know: write user:password@ before them, or name a certificate as `cert` and `key`",
            ),
        ] {
            let error = read(url).err().unwrap_or_else(|| panic!("{url} is taken"));
            assert_eq!(error.to_string(), sentence, "{url}");
        }
    }
}
