//! TLS to the servers, which the feature `tls` brings.

use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tenure_core::{Error, Result};
use tenure_kit::tls::{Files, Identity};
use tenure_kit::url::Address;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zookeeper_client::{Client, Connector, Error as Said, TlsOptions};

/// Refuses what no server can show a certificate for: the client would end the whole program over it.
pub(crate) fn check(servers: &[Address]) -> Result<()> {
    match servers.iter().find(|server| named(server).is_err()) {
        Some(server) => Err(Error::invalid(format!(
            "{:?} can be no name in a certificate: write the servers as their certificates name them",
            server.name
        ))),
        None => Ok(()),
    }
}

/// Opens a session by TLS. The files are read each time, so that new certificates count from the next connection on.
pub(crate) async fn connect(
    connector: Connector,
    files: &Files,
    ensemble: &str,
) -> Result<Result<Client, Said>> {
    // What the client would say of them later, it says less well.
    config(files)?;
    let options = options(files)?;
    Ok(connector.with_tls(options).secure_connect(ensemble).await)
}

fn options(files: &Files) -> Result<TlsOptions> {
    let text = |pem: &[u8]| String::from_utf8_lossy(pem).into_owned();
    let mut options = TlsOptions::new();
    if let Some(authorities) = files.authorities()? {
        let with = options.with_pem_ca(&text(&authorities));
        options = with.map_err(|said| files.unusable(said))?;
    }
    if let Some(Identity { cert, key }) = files.identity()? {
        let with = options.with_pem_identity(&text(&cert), &text(&key));
        options = with.map_err(|said| files.unusable(said))?;
    }
    Ok(options)
}

/// The same terms for a connection of the engine's own, over which a server is asked what it is.
pub(crate) async fn secured(
    stream: TcpStream,
    files: &Files,
    server: &Address,
) -> io::Result<TlsStream<TcpStream>> {
    let config = config(files).map_err(io::Error::other)?;
    let name = named(server).map_err(io::Error::other)?;
    TlsConnector::from(config).connect(name, stream).await
}

fn named(server: &Address) -> Result<ServerName<'static>, InvalidDnsNameError> {
    ServerName::try_from(server.name.clone())
}

fn config(files: &Files) -> Result<Arc<ClientConfig>> {
    // The client brings a second provider of cryptography, and asks which one the process has chosen. Another crate may have
    // chosen already.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    let unusable = |error: &dyn std::error::Error| files.unusable(error);
    let certificates = |pem: &[u8]| -> Result<Vec<CertificateDer<'static>>> {
        CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(&error))
    };
    let mut roots = RootCertStore::empty();
    if let Some(authorities) = files.authorities()? {
        let (added, _) = roots.add_parsable_certificates(certificates(&authorities)?);
        if added == 0 {
            return Err(files.unusable("none of the certificates in `ca` is an authority's"));
        }
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let config = match files.identity()? {
        None => builder.with_no_client_auth(),
        Some(Identity { cert, key }) => {
            let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| unusable(&error))?;
            let chain = certificates(&cert)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| unusable(&error))?
        }
    };
    Ok(Arc::new(config))
}
