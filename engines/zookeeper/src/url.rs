//! The URLs of ZooKeeper's ensembles.

use tenure_core::Result;
use tenure_kit::options::{TIMES, Value};
use tenure_kit::tls::Tls;
use tenure_kit::url::Servers;

use crate::description::{DESCRIPTION, OPTIONS};
use crate::settings::{AclOwner, PORT, Settings, wrong_acl};

impl Settings {
    /// Reads the settings of a URL: `zookeeper://S1,S2,S3/CHROOT`, or `zookeepers://` with TLS.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if a part of the URL is wrong.
    pub fn from_url(url: impl AsRef<str>) -> Result<Self> {
        let url = DESCRIPTION.read(url.as_ref())?;
        let Servers { login, addresses, path } = url.servers(PORT)?;
        let settings = Self { login, ..Self::of(addresses) };
        let mut settings = settings.chroot_of(path.iter().map(String::as_str))?;
        if url.scheme() == "zookeepers" {
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
            "acl" => self.acl(owner(&value.text())?),
            "ca" | "cert" | "key" => {
                Tls::wanted(&mut self.tls, "zookeepers")?.set(name, value)?;
                Ok(self)
            }
            _ => unreachable!("`{name}` is an option of the engine's, and is not read"),
        }
    }
}

fn owner(text: &str) -> Result<AclOwner> {
    match text {
        "open" => Ok(AclOwner::Open),
        "creator" => Ok(AclOwner::Creator),
        other => match other.strip_prefix("digest:") {
            Some(id) => Ok(AclOwner::Digest(id.to_owned())),
            None => Err(wrong_acl()),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_kit::tls::Pem;

    use super::*;

    fn read(url: &str) -> Result<Settings> {
        let settings = Settings::from_url(url)?;
        settings.check().map(|()| settings)
    }

    #[test]
    fn terms_are_read_and_have_defaults() {
        let url = "zookeeper://me:p%40ss@a,b:5,[::1]/my/app?prefix=x/y&timeout=300ms&acl=digest:you:h4sh=";
        let settings = read(url).unwrap();
        assert_eq!(settings.ensemble(), "a:2181,b:5,[::1]:2181/my/app");
        assert_eq!(
            (settings.prefix.as_str(), settings.timeout),
            ("x/y", Duration::from_millis(300))
        );
        assert_eq!(settings.acl, Some(AclOwner::Digest("you:h4sh=".into())));
        let usual = read("zookeeper://h").unwrap();
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
    fn each_part_of_a_url_has_a_setter() {
        let usual = || Settings::servers(["h"]).unwrap().tls(Tls::new());
        let second = Duration::from_secs(1);
        let ca = || Tls::new().ca(Pem::File("ca".into()));
        let identity = || Tls::new().identity(Pem::File("cert".into()), Pem::File("key".into()));
        for option in OPTIONS {
            let (value, built) = match option.name {
                "prefix" => ("p", usual().prefix("p")),
                "timeout" => ("1s", usual().timeout(second)),
                "connect_timeout" => ("1s", usual().connect_timeout(second)),
                "acl" => ("digest:a:b", usual().acl(AclOwner::Digest("a:b".into()))),
                "ca" => ("ca", Ok(usual().tls(ca()))),
                "cert" => ("cert&key=key", Ok(usual().tls(identity()))),
                "key" => ("key&cert=cert", Ok(usual().tls(identity()))),
                other => panic!("`{other}` has no setter"),
            };
            let built = built.unwrap();
            let url = format!("zookeepers://h?{}={value}", option.name);
            assert_eq!(Settings::from_url(&url).unwrap(), built, "{url}");
            assert_ne!(built, usual(), "{url}");
        }
        let built = Settings::servers(["h", "[::1]:5"]).unwrap().login("me", "p@ss");
        let built = built.chroot("/my/app").unwrap().acl(AclOwner::Open).unwrap();
        assert_eq!(read("zookeeper://me:p%40ss@h,[::1]:5/my/app?acl=open").unwrap(), built);
    }

    #[test]
    fn a_wrong_value_has_the_same_sentence_in_code_as_in_a_url() {
        let usual = || Settings::servers(["h"]).unwrap();
        let ca = || Tls::new().ca(Pem::File("ca".into()));
        for (url, built) in [
            ("zookeeper://h:0", Settings::servers(["h:0"])),
            ("zookeeper://h/a/../b", usual().chroot("/a/../b")),
            ("zookeeper://h?prefix=a//b", usual().prefix("a//b")),
            ("zookeeper://h?timeout=0s", usual().timeout(Duration::ZERO)),
            (
                "zookeeper://h?connect_timeout=2h",
                usual().connect_timeout(Duration::from_secs(7200)),
            ),
            ("zookeeper://h?acl=digest:a", usual().acl(AclOwner::Digest("a".into()))),
            ("zookeeper://h?acl=creator", usual().acl(AclOwner::Creator)),
            ("zookeeper://me@h", Ok(usual().login("me", ""))),
            ("zookeeper://:secret@h", Ok(usual().login("", "secret"))),
            ("zookeeper://a%3Ab:secret@h", Ok(usual().login("a:b", "secret"))),
            ("zookeepers://h", Ok(usual().tls(Tls::new()))),
            // Without the feature `tls` both are refused for that.
            ("zookeepers://a..b?ca=ca", Settings::servers(["a..b"]).map(|it| it.tls(ca()))),
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
        let settings = settings.acl(AclOwner::Digest("me:secret".into())).unwrap();
        let shown = format!("{settings:?} {settings:#?}");
        assert!(!shown.contains("secret") && !shown.contains("115"), "{shown}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_without_its_password() {
        for (url, sentence) in [
            (
                "zookeeper://:secret@h",
                "the login has a password and no user: give both, in a URL as user:password@ before the first server",
            ),
            (
                "zookeeper://h/a/../b",
                "a chroot is made of letters, digits and the signs . _ - :, with slashes between, and none of them is `zookeeper`, `.` or `..`: write zookeeper://SERVER/my/app",
            ),
            (
                "zookeeper://h?prefix=a//b",
                "`prefix` takes 1 to 128 letters, digits and the signs . _ - :, with slashes between them",
            ),
            (
                "zookeeper://h?prefix=a/zookeeper",
                "`prefix` takes no part that is `zookeeper`, `.` or `..`: nodes cannot have these names",
            ),
            (
                "zookeeper://h?ca=secret",
                "`ca`, `cert` and `key` are for TLS: write zookeepers:// for it",
            ),
            (
                "zookeepers://h",
                "TLS to ZooKeeper has no default authorities: name the one that signed the servers' certificates as `ca`",
            ),
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
                "`acl=creator` is for a user that the servers know: write user:password@ before them, or name a certificate as `cert` and `key`",
            ),
        ] {
            let error = read(url).err().unwrap_or_else(|| panic!("{url} is taken"));
            assert_eq!(error.to_string(), sentence, "{url}");
        }
    }
}
