//! The settings of TLS: the trusted authorities and the client's certificate, from PEM files or
//! from memory.

#[cfg(feature = "tls")]
mod certificate;
#[cfg(feature = "client-tls")]
mod client_config;

use std::fmt::{self, Display};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tenure_core::{Error, Result};

#[cfg(feature = "tls")]
pub use certificate::{certificate_error, certificate_error_in_text, tls_error};

use crate::options::Value;

/// The authorities that a client trusts, and the certificate that it shows.
///
/// The default trusts the authorities of the system, and shows no certificate.
///
/// ```
/// use tenure_kit::tls::{Pem, Tls};
///
/// let ca = b"-----BEGIN CERTIFICATE-----"; // the program has it from elsewhere
/// let tls = Tls::new()
///     .ca(Pem::Bytes(ca.to_vec()))
///     .identity(Pem::File("client.pem".into()), Pem::File("client.key".into()));
/// # drop(tls);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Tls {
    ca: Option<Pem>,
    cert: Option<Pem>,
    key: Option<Pem>,
}

/// A certificate or a key in PEM.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// A file. It is read again for each new connection, so that a renewed certificate counts.
    File(PathBuf),
    /// The content, which the program has in memory. `Debug` does not print it.
    Bytes(Vec<u8>),
}

/// A client's certificate and its key, in PEM.
pub struct Identity {
    /// The certificate chain.
    pub cert: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

impl Tls {
    /// Creates the default: trusts the authorities of the system, and shows no certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the trusted authorities, which take the place of those of the system: the option `ca`.
    pub fn ca(self, ca: Pem) -> Self {
        Self { ca: Some(ca), ..self }
    }

    /// Sets the certificate of this client and its key: the options `cert` and `key`.
    pub fn identity(self, cert: Pem, key: Pem) -> Self {
        Self { cert: Some(cert), key: Some(key), ..self }
    }

    /// Returns whether the authorities were set.
    pub fn has_ca(&self) -> bool {
        self.ca.is_some()
    }

    /// Returns whether this client has a certificate.
    pub fn has_identity(&self) -> bool {
        self.cert.is_some()
    }

    /// Returns the settings of a URL with TLS.
    ///
    /// # Errors
    ///
    /// The URL is one without TLS. `scheme` is the one to write.
    pub fn wanted<'a>(tls: &'a mut Option<Self>, scheme: &str) -> Result<&'a mut Self> {
        tls.as_mut().ok_or_else(|| {
            Error::invalid(format!("`ca`, `cert` and `key` are for TLS: write {scheme}:// for it"))
        })
    }

    /// Sets the option `ca`, `cert` or `key` of a URL.
    ///
    /// # Errors
    ///
    /// The value is not a path.
    ///
    /// # Panics
    ///
    /// Panics for another option.
    pub fn set(&mut self, option: &str, value: Value) -> Result<()> {
        let pem = match option {
            "ca" => &mut self.ca,
            "cert" => &mut self.cert,
            "key" => &mut self.key,
            _ => unreachable!("`{option}` is not an option of TLS"),
        };
        *pem = Some(Pem::File(value.file()?));
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

    /// Returns the trusted authorities, if `ca` is given.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or there is no certificate in PEM.
    pub fn read_ca(&self) -> Result<Option<Vec<u8>>> {
        self.ca.as_ref().map(|ca| ca.read("ca", &CERTIFICATE)).transpose()
    }

    /// Returns the client's certificate and key, if `cert` and `key` are given.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or one of them is not there in PEM.
    pub fn read_identity(&self) -> Result<Option<Identity>> {
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else { return Ok(None) };
        let (cert, key) = (cert.read("cert", &CERTIFICATE)?, key.read("key", &KEY)?);
        Ok(Some(Identity { cert, key }))
    }

    /// Returns the error for certificates or a key that rustls refuses for the reason `why`.
    pub fn unusable(&self, why: impl Display) -> Error {
        let parts = [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)];
        let named = parts.iter().filter_map(|(option, pem)| match pem.as_ref()? {
            Pem::File(path) => Some(format!("`{option}` {}", path.display())),
            Pem::Bytes(_) => Some(in_memory(option)),
        });
        let named: Vec<String> = named.collect();
        Error::invalid(format!("{} cannot be used for TLS: {why}", named.join(", ")))
    }
}

impl Pem {
    /// Returns the content, which has the `wanted` part.
    fn read(&self, option: &str, wanted: &Part) -> Result<Vec<u8>> {
        match self {
            Self::File(path) => {
                let file = format!("`{option}`: {}", path.display());
                checked(&file, read(&file, path)?, wanted)
            }
            Self::Bytes(bytes) => checked(&in_memory(option), bytes.clone(), wanted),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Bytes(_) => f.write_str("Bytes(…)"),
        }
    }
}

/// Returns the name of an option's content for an error message, which must not show a key.
fn in_memory(option: &str) -> String {
    format!("`{option}` in memory")
}

/// Reads a file up to the maximum size and one byte more.
fn read(file: &str, path: &Path) -> Result<Vec<u8>> {
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
    Ok(pem)
}

/// Returns the PEM if it contains the `wanted` part. Refuses damaged PEM, because the error of a
/// parser would repeat a part of it, which may be a key.
fn checked(place: &str, pem: Vec<u8>, wanted: &Part) -> Result<Vec<u8>> {
    if pem.len() as u64 > BYTES_MAX {
        return Err(Error::invalid(format!(
            "{place} is larger than 1 MiB: give certificates or a key"
        )));
    }
    let Some(labels) = labels(&pem) else {
        return Err(Error::invalid(format!(
            "{place} has a PEM header or footer that does not stand alone on a line: check for joined lines and a missing end"
        )));
    };
    if wanted.name == KEY.name && labels.contains(&ENCRYPTED) {
        return Err(Error::invalid(format!(
            "{place} has an encrypted private key: remove the password with `openssl pkey`"
        )));
    }
    if labels.iter().any(|label| wanted.labels.contains(label)) {
        return Ok(pem);
    }
    let others = [&CERTIFICATE, &KEY].into_iter();
    let mut others = others.filter(|other| labels.iter().any(|it| other.labels.contains(it)));
    let has = others.next().map_or(String::new(), |other| format!(", but a {}", other.name));
    Err(Error::invalid(format!("{place} has no {} in PEM{has}", wanted.name)))
}

/// Maximum size of a certificate or key.
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
