//! TLS to the servers, with the feature `tls`.

use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, ClientConfig, Error as TlsError, RootCertStore};
use tenure_core::{Error, Result};
use tenure_kit::tls::{Identity, Tls, certificate_error, tls_error};
use tenure_kit::url::Address;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zookeeper_client::{Client, Connector, Error as Said, TlsOptions};

/// Refuses names for which no server can have a certificate: the client crate would end the whole
/// program.
pub(crate) fn check(servers: &[Address]) -> Result<()> {
    match servers.iter().find(|server| named(server).is_err()) {
        Some(server) => Err(Error::invalid(format!(
            "{:?} can be no name in a certificate: write the servers as their certificates name them",
            server.name
        ))),
        None => Ok(()),
    }
}

/// The PEM of the settings, read once: the checked content is used.
struct Content {
    authorities: Vec<u8>,
    identity: Option<Identity>,
}

impl Content {
    fn read(tls: &Tls) -> Result<Self> {
        // Settings without authorities are refused before.
        let authorities = tls.read_ca()?.unwrap_or_default();
        Ok(Self { authorities, identity: tls.read_identity()? })
    }
}

/// Opens a session by TLS. The files are read each time, so that new certificates count from the
/// next session on.
pub(crate) async fn connect(
    connector: Connector,
    tls: &Tls,
    ensemble: &str,
) -> Result<Result<Client, Said>> {
    let pem = Content::read(tls)?;
    // This check has a better error than the client crate later.
    config(tls, &pem)?;
    let options = options(tls, &pem)?;
    Ok(connector.with_tls(options).secure_connect(ensemble).await)
}

fn options(tls: &Tls, pem: &Content) -> Result<TlsOptions> {
    let text = |pem: &[u8]| String::from_utf8_lossy(pem).into_owned();
    let unusable = |_: Said| tls.unusable(UNREADABLE);
    let options = TlsOptions::new().with_pem_ca(&text(&pem.authorities)).map_err(unusable)?;
    let Some(Identity { cert, key }) = &pem.identity else { return Ok(options) };
    options.with_pem_identity(&text(cert), &text(key)).map_err(unusable)
}

/// Opens TLS with the same settings for a connection of the engine's own, which asks a server for
/// its report.
pub(crate) async fn secured(
    stream: TcpStream,
    tls: &Tls,
    server: &Address,
) -> io::Result<TlsStream<TcpStream>> {
    let config = Content::read(tls).and_then(|pem| config(tls, &pem));
    let config = config.map_err(io::Error::other)?;
    let name = named(server).map_err(io::Error::other)?;
    TlsConnector::from(config).connect(name, stream).await
}

/// Refuses a server with which TLS fails however often it is tried.
pub(crate) fn refuse(server: &Address, error: &io::Error) -> Result<()> {
    let server = format!("ZooKeeper at {server}");
    if let Some(TlsError::AlertReceived(AlertDescription::ProtocolVersion)) = tls_error(error) {
        return Err(Error::rejected(format!(
            "{server} speaks neither TLS 1.2 nor 1.3: allow one of them with `ssl.enabledProtocols`"
        )));
    }
    certificate_error(&server, error).map_or(Ok(()), Err)
}

fn named(server: &Address) -> Result<ServerName<'static>, InvalidDnsNameError> {
    ServerName::try_from(server.name.clone())
}

/// Message for unreadable files. A parser's own message may quote a key.
const UNREADABLE: &str = "one of them is damaged, or of a kind that is not known";

fn config(tls: &Tls, pem: &Content) -> Result<Arc<ClientConfig>> {
    // The client crate brings a second provider of cryptography, and asks for the choice of the
    // process. Another crate may have chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let unreadable = |_: rustls::pki_types::pem::Error| tls.unusable(UNREADABLE);
    let certificates = |pem: &[u8]| -> Result<Vec<CertificateDer<'static>>> {
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(unreadable)
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(&pem.authorities)?);
    if added == 0 {
        return Err(tls.unusable("none of the certificates in `ca` is an authority's"));
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let config = match &pem.identity {
        None => builder.with_no_client_auth(),
        Some(Identity { cert, key }) => {
            let (chain, key) = (certificates(cert)?, PrivateKeyDer::from_pem_slice(key));
            let with = builder.with_client_auth_cert(chain, key.map_err(unreadable)?);
            with.map_err(|error| tls.unusable(error))?
        }
    };
    Ok(Arc::new(config))
}
