//! TLS as URLs say it: files in PEM, which tell whom to trust and who one is.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use tenure_core::{Error, Result};

/// Files in PEM: whom to trust, and who one is.
///
/// ```
/// use tenure_kit::tls::Files;
///
/// let files = Files { cert: Some("me.pem".into()), ..Files::default() };
/// assert!(files.agree().is_err(), "a certificate is of no use without its key");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The authorities that are trusted: the option `ca`.
    pub ca: Option<PathBuf>,
    /// The certificate of this client: the option `cert`.
    pub cert: Option<PathBuf>,
    /// The key of that certificate: the option `key`.
    pub key: Option<PathBuf>,
}

/// A certificate and its key, in PEM.
pub struct Identity {
    /// The certificate, and those between it and an authority.
    pub cert: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
}

impl Files {
    /// Refuses a certificate without its key, and a key without its certificate.
    pub fn agree(&self) -> Result<()> {
        if self.cert.is_some() == self.key.is_some() {
            return Ok(());
        }
        Err(Error::invalid(
            "a client's certificate needs its key, and the other way round: give both `cert` and `key`",
        ))
    }

    /// Whom to trust, if that is named.
    pub fn authorities(&self) -> Result<Option<Vec<u8>>> {
        self.ca.as_deref().map(|ca| read("ca", ca, CERTIFICATE)).transpose()
    }

    /// Who one is, if that is named.
    pub fn identity(&self) -> Result<Option<Identity>> {
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else { return Ok(None) };
        let (cert, key) = (read("cert", cert, CERTIFICATE)?, read("key", key, KEY)?);
        Ok(Some(Identity { cert, key }))
    }

    /// What is said of files that have what they must, and cannot be used together.
    pub fn unusable(&self, why: impl Display) -> Error {
        let files = [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)];
        let named = files.iter().filter_map(|(option, file)| {
            file.as_ref().map(|file| format!("`{option}` {}", file.display()))
        });
        let named: Vec<String> = named.collect();
        Error::invalid(format!("{} cannot be used for TLS: {why}", named.join(", ")))
    }
}

/// What is said of servers whose TLS ended because of a certificate, if that is what was heard: to ask again does not help.
pub fn distrust(whom: &str, heard: &str) -> Option<Error> {
    let is_distrust = heard.to_ascii_lowercase().contains("certificate");
    is_distrust.then(|| {
        Error::rejected(format!(
            "{whom} and this client do not trust each other's certificates: name the authority that signed the servers' as `ca=FILE`, and a certificate of the client's own, if they want one, as `cert=FILE` and `key=FILE` (it says: {heard})"
        ))
    })
}

/// A file in PEM, which has such a part.
fn read(option: &str, path: &Path, wanted: Part) -> Result<Vec<u8>> {
    let shown = path.display();
    let pem = fs::read(path)
        .map_err(|error| Error::invalid(format!("`{option}`: {shown} cannot be read: {error}")))?;
    if wanted.is_in(&pem) {
        return Ok(pem);
    }
    let others = [CERTIFICATE, KEY].into_iter().find(|other| other.is_in(&pem));
    let has = others.map_or(String::new(), |other| format!(", but a {}", other.name));
    Err(Error::invalid(format!("`{option}`: {shown} has no {} in PEM{has}", wanted.name)))
}

/// What a file in PEM may have.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    begins: &'static str,
}

const CERTIFICATE: Part = Part { name: "certificate", begins: "CERTIFICATE-----" };
const KEY: Part = Part { name: "private key", begins: "PRIVATE KEY-----" };

impl Part {
    fn is_in(self, pem: &[u8]) -> bool {
        let text = String::from_utf8_lossy(pem);
        let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix("-----BEGIN "));
        lines.any(|line| line.ends_with(self.begins))
    }
}
