//! TLS as URLs say it: files in PEM, which tell whom to trust and who one is.

mod distrust;

use std::fmt::Display;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tenure_core::{Error, Result};

use crate::options::Value;

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
    /// The files of URLs whose scheme says TLS; other URLs have no options for it.
    pub fn wanted<'a>(tls: &'a mut Option<Self>, scheme: &str) -> Result<&'a mut Self> {
        tls.as_mut().ok_or_else(|| {
            Error::invalid(format!("`ca`, `cert` and `key` are for TLS: write {scheme}:// for it"))
        })
    }

    /// What the option `ca`, `cert` or `key` says.
    pub fn set(&mut self, option: &str, value: Value) -> Result<()> {
        let file = match option {
            "ca" => &mut self.ca,
            "cert" => &mut self.cert,
            "key" => &mut self.key,
            _ => unreachable!("`{option}` is no option of TLS"),
        };
        *file = Some(value.file()?);
        Ok(())
    }

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
        self.ca.as_deref().map(|ca| read("ca", ca, &CERTIFICATE)).transpose()
    }

    /// Who one is, if that is named.
    pub fn identity(&self) -> Result<Option<Identity>> {
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else { return Ok(None) };
        let (cert, key) = (read("cert", cert, &CERTIFICATE)?, read("key", key, &KEY)?);
        Ok(Some(Identity { cert, key }))
    }

    /// What is said of files that have what they must, and cannot be used together.
    pub fn unusable(&self, why: impl Display) -> Error {
        let why = why.to_string();
        if let (Some(cert), Some(key)) = (&self.cert, &self.key)
            && why.contains(OF_ANOTHER)
        {
            let (cert, key) = (cert.display(), key.display());
            return Error::invalid(format!(
                "`key`: {key} does not belong to the certificate in `cert`, {cert}: name the key that the certificate was made with"
            ));
        }
        let files = [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)];
        let named = files.iter().filter_map(|(option, file)| {
            file.as_ref().map(|file| format!("`{option}` {}", file.display()))
        });
        let named: Vec<String> = named.collect();
        Error::invalid(format!("{} cannot be used for TLS: {why}", named.join(", ")))
    }
}

/// A file in PEM that has such a part, and whose parts are all whole: a parser would show what it trips over, which may be a key.
fn read(option: &str, path: &Path, wanted: &Part) -> Result<Vec<u8>> {
    let file = format!("`{option}`: {}", path.display());
    let unread = |error: io::Error| Error::invalid(format!("{file} cannot be read: {error}"));
    // To open a pipe waits for whoever writes into it, and what it gave once it does not give to the next connection.
    if !fs::metadata(path).map_err(unread)?.is_file() {
        return Err(Error::invalid(format!(
            "{file} is no regular file: it is read again for each connection, which a pipe or a directory cannot be"
        )));
    }
    let mut pem = Vec::new();
    fs::File::open(path)
        .and_then(|open| open.take(BYTES_MAX + 1).read_to_end(&mut pem))
        .map_err(unread)?;
    if pem.len() as u64 > BYTES_MAX {
        return Err(Error::invalid(format!(
            "{file} has more than a megabyte: that is no file of certificates or of a key"
        )));
    }
    let Some(labels) = labels(&pem) else {
        return Err(Error::invalid(format!(
            "{file} has a part in PEM that does not begin or end on a line of its own: were its lines joined, or its end cut off?"
        )));
    };
    if wanted.name == KEY.name && labels.contains(&ENCRYPTED) {
        return Err(Error::invalid(format!(
            "{file} has a private key that is locked with a password: write one without, with `openssl pkey`"
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

/// What TLS says of a key that does not belong to the certificate.
const OF_ANOTHER: &str = "KeyMismatch";

/// No file of certificates is larger.
const BYTES_MAX: u64 = 1024 * 1024;

/// What a file in PEM may have.
struct Part {
    name: &'static str,
    labels: &'static [&'static str],
}

const CERTIFICATE: Part = Part { name: "certificate", labels: &["CERTIFICATE"] };
const KEY: Part =
    Part { name: "private key", labels: &["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] };
const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";

/// What the parts of a file in PEM are; `None` if one of them is not whole.
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

/// How older keys say that they are locked with a password.
const LOCKED: &[u8] = b"Proc-Type: 4,ENCRYPTED";

/// What a line that begins a part, or ends one, is about: nothing that is known, if there is more on it than that.
fn label<'a>(line: &'a [u8], start: &[u8]) -> Option<&'a str> {
    let rest = line.strip_prefix(start)?;
    let label = rest.strip_suffix(b"-----").and_then(|label| std::str::from_utf8(label).ok());
    Some(label.filter(|label| !label.contains("-----")).unwrap_or_default())
}
