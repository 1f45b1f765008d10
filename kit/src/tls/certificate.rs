//! Errors that a certificate caused, recognised by the type of rustls' error.

use std::error::Error as StdError;
use std::fmt::Display;
use std::io;
use std::iter::successors;
use std::sync::Arc;

use rustls::AlertDescription as Alert;
use tenure_core::Error;

/// The alerts by which a server refuses the certificate of a client.
const CERTIFICATE_ALERTS: [Alert; 11] = [
    Alert::NoCertificate,
    Alert::BadCertificate,
    Alert::UnsupportedCertificate,
    Alert::CertificateRevoked,
    Alert::CertificateExpired,
    Alert::CertificateUnknown,
    Alert::UnknownCA,
    Alert::CertificateUnobtainable,
    Alert::BadCertificateStatusResponse,
    Alert::BadCertificateHashValue,
    Alert::CertificateRequired,
];

/// Returns the first error of rustls among `error` and its causes.
pub fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    successors(Some(error), |error| cause(*error)).find_map(|error| error.downcast_ref())
}

/// Returns the next error of the chain. [`StdError::source`] of an I/O error and of a shared error
/// skips the error that they contain.
fn cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    if let Some(io) = error.downcast_ref::<io::Error>() {
        io.get_ref().map(|inner| inner as &(dyn StdError + 'static))
    } else if let Some(shared) = error.downcast_ref::<Arc<dyn StdError + Send + Sync>>() {
        Some(&**shared)
    } else {
        error.source()
    }
}

/// Returns the error to report if a certificate caused `error`. A retry does not help then.
///
/// ```
/// use std::io;
///
/// use tenure_kit::tls::certificate_error;
///
/// let alert = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
/// let error = certificate_error("etcd at h", &io::Error::other(alert)).unwrap();
/// assert!(error.to_string().contains("`cert=FILE` and `key=FILE`"));
/// let reset = io::Error::from(io::ErrorKind::ConnectionReset);
/// assert!(certificate_error("etcd at h", &reset).is_none());
/// ```
pub fn certificate_error(server: &str, error: &(dyn StdError + 'static)) -> Option<Error> {
    match tls_error(error)? {
        why @ rustls::Error::InvalidCertificate(_) => Some(server_refused(server, why)),
        why @ rustls::Error::AlertReceived(alert) if CERTIFICATE_ALERTS.contains(alert) => {
            Some(client_refused(server, why))
        }
        _ => None,
    }
}

/// Does the same as [`certificate_error`] for a driver that keeps only the text of a cause.
pub fn certificate_error_in_text(server: &str, text: &str) -> Option<Error> {
    // The driver gives only text: h2 turns the error of a connection into a string, and so does the
    // cluster client of `redis` with the error of its first connection.
    if text.contains("invalid peer certificate: ") {
        return Some(server_refused(server, text));
    }
    let mut alerts = CERTIFICATE_ALERTS.into_iter().map(rustls::Error::AlertReceived);
    let alert = alerts.find(|alert| text.contains(&alert.to_string()))?;
    Some(client_refused(server, alert))
}

fn server_refused(server: &str, why: impl Display) -> Error {
    Error::rejected(format!(
        "the certificate of {server} is not accepted ({why}): check the server's name in the URL, and the authority in `ca=FILE` (`ssl-ca` for MySQL, `sslrootcert` for PostgreSQL)"
    ))
}

fn client_refused(server: &str, why: impl Display) -> Error {
    Error::rejected(format!(
        "{server} does not accept the certificate of this client ({why}): check `cert=FILE` and `key=FILE` (`ssl-cert` and `ssl-key` for MySQL, `sslcert` and `sslkey` for PostgreSQL)"
    ))
}
