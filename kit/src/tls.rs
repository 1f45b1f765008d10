//! The options of URLs for TLS: PEM files with the trusted authorities and the client's
//! certificate.

#[cfg(feature = "tls")]
mod certificate;

use std::fmt::Display;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tenure_core::{Error, Result};

#[cfg(feature = "tls")]
pub use certificate::{certificate_error, certificate_error_in_text, tls_error};

use crate::options::Value;

/// The PEM files that a URL names.
///
/// ```
/// use tenure_kit::tls::Files;
///
/// let files = Files { cert: Some("me.pem".into()), ..Files::default() };
/// assert!(files.agree().is_err(), "a certificate needs its key");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The trusted authorities: the option `ca`.
    pub ca: Option<PathBuf>,
    /// The certificate of this client: the option `cert`.
    pub cert: Option<PathBuf>,
    /// The key of that certificate: the option `key`.
    pub key: Option<PathBuf>,
}

/// A client's certificate and its key, in PEM.
pub struct Identity {
    /// The certificate chain.
    pub cert: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

impl Files {
    /// Returns the files of a URL with TLS.
    ///
    /// # Errors
    ///
    /// The URL is one without TLS. `scheme` is the one to write.
    pub fn wanted<'a>(tls: &'a mut Option<Self>, scheme: &str) -> Result<&'a mut Self> {
        tls.as_mut().ok_or_else(|| {
            Error::invalid(format!("`ca`, `cert` and `key` are for TLS: write {scheme}:// for it"))
        })
    }

    /// Sets the option `ca`, `cert` or `key`.
    ///
    /// # Errors
    ///
    /// The value is not a path.
    ///
    /// # Panics
    ///
    /// Panics for another option.
    pub fn set(&mut self, option: &str, value: Value) -> Result<()> {
        let file = match option {
            "ca" => &mut self.ca,
            "cert" => &mut self.cert,
            "key" => &mut self.key,
            _ => unreachable!("`{option}` is not an option of TLS"),
        };
        *file = Some(value.file()?);
        Ok(())
    }

    /// Checks that certificate and key are given together.
    ///
    /// # Errors
    ///
    /// One of them is missing.
    pub fn agree(&self) -> Result<()> {
        if self.cert.is_some() == self.key.is_some() {
            return Ok(());
        }
        Err(Error::invalid(
            "a client's certificate needs its key, and the other way round: give both `cert` and `key`",
        ))
    }

    /// Reads the trusted authorities, if `ca` is given.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or contains no certificate in PEM.
    pub fn authorities(&self) -> Result<Option<Vec<u8>>> {
        self.ca.as_deref().map(|ca| read("ca", ca, &CERTIFICATE)).transpose()
    }

    /// Reads the client's certificate and key, if `cert` and `key` are given.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or does not contain its part in PEM.
    pub fn identity(&self) -> Result<Option<Identity>> {
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else { return Ok(None) };
        let (cert, key) = (read("cert", cert, &CERTIFICATE)?, read("key", key, &KEY)?);
        Ok(Some(Identity { cert, key }))
    }

    /// Returns the error for files that rustls refuses for the reason `why`.
    pub fn unusable(&self, why: impl Display) -> Error {
        let files = [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)];
        let named = files.iter().filter_map(|(option, file)| {
            file.as_ref().map(|file| format!("`{option}` {}", file.display()))
        });
        let named: Vec<String> = named.collect();
        Error::invalid(format!("{} cannot be used for TLS: {why}", named.join(", ")))
    }
}

/// Reads a PEM file that contains the `wanted` part. Refuses a damaged file, because the error of a
/// parser would repeat a part of it, which may be a key.
fn read(option: &str, path: &Path, wanted: &Part) -> Result<Vec<u8>> {
    let file = format!("`{option}`: {}", path.display());
    let unread = |error: io::Error| Error::invalid(format!("{file} cannot be read: {error}"));
    // Opening a pipe would block until a program writes to it.
    if !fs::metadata(path).map_err(unread)?.is_file() {
        return Err(Error::invalid(format!(
            "{file} is not a regular file: name a file that can be read again for each connection"
        )));
    }
    let mut pem = Vec::new();
    fs::File::open(path)
        .and_then(|open| open.take(BYTES_MAX + 1).read_to_end(&mut pem))
        .map_err(unread)?;
    if pem.len() as u64 > BYTES_MAX {
        return Err(Error::invalid(format!(
            "{file} is larger than 1 MiB: name a file with certificates or a key"
        )));
    }
    let Some(labels) = labels(&pem) else {
        return Err(Error::invalid(format!(
            "{file} has a PEM header or footer that does not stand alone on a line: check for joined lines and a missing end"
        )));
    };
    if wanted.name == KEY.name && labels.contains(&ENCRYPTED) {
        return Err(Error::invalid(format!(
            "{file} has an encrypted private key: remove the password with `openssl pkey`"
        )));
    }
    if labels.iter().any(|label| wanted.labels.contains(label)) {
        return Ok(pem);
    }
    let others = [&CERTIFICATE, &KEY].into_iter();
    let mut others = others.filter(|other| labels.iter().any(|it| other.labels.contains(it)));
    let has = others.next().map_or(String::new(), |other| format!(", but a {}", other.name));
    Err(Error::invalid(format!("{file} has no {} in PEM{has}", wanted.name)))
}

/// Maximum size of a file.
const BYTES_MAX: u64 = 1024 * 1024;

/// A part of a PEM file, with the labels that mark it.
struct Part {
    name: &'static str,
    labels: &'static [&'static str],
}

const CERTIFICATE: Part = Part { name: "certificate", labels: &["CERTIFICATE"] };
const KEY: Part =
    Part { name: "private key", labels: &["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] };
const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";

/// Returns the labels of all parts of a PEM file, or `None` if one of them is damaged.
fn labels(pem: &[u8]) -> Option<Vec<&str>> {
    let mut labels = Vec::new();
    let mut open: Option<&str> = None;
    for line in pem.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii_end();
        let begins = label(line, b"-----BEGIN ");
        let ends = label(line, b"-----END ");
        match (begins, ends, open) {
            (Some(""), ..) | (_, Some(""), _) => return None,
            (Some(label), _, None) => open = Some(label),
            (_, Some(label), Some(begun)) if label == begun => {
                labels.push(begun);
                open = None;
            }
            (None, None, Some(_)) if line == LOCKED => labels.push(ENCRYPTED),
            (None, None, _) => {}
            _ => return None,
        }
    }
    open.is_none().then_some(labels)
}

/// The header of an encrypted key in the format of PEM before PKCS#8.
const LOCKED: &[u8] = b"Proc-Type: 4,ENCRYPTED";

/// Returns the label of a line that begins or ends a part, `None` for other lines. The label is
/// empty if the line contains anything else.
fn label<'a>(line: &'a [u8], start: &[u8]) -> Option<&'a str> {
    let rest = line.strip_prefix(start)?;
    let label = rest.strip_suffix(b"-----").and_then(|label| std::str::from_utf8(label).ok());
    Some(label.filter(|label| !label.contains("-----")).unwrap_or_default())
}
