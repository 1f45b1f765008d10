//! TLS to the servers, with the feature `tls`.

use std::io;

use rustls::pki_types::{InvalidDnsNameError, ServerName};
use rustls::{AlertDescription, Error as TlsError};
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

/// Opens a session by TLS. The files are read each time, so that new certificates count from the
/// next session on.
pub(crate) async fn connect(
    connector: Connector,
    tls: &Tls,
    ensemble: &str,
) -> Result<Result<Client, Said>> {
    // The client crate brings a second provider of cryptography, and asks for the choice of the
    // process. Another crate may have chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // This check has a better error than the client crate later.
    tls.client_config(&[])?;
    Ok(connector.with_tls(options(tls)?).secure_connect(ensemble).await)
}

fn options(tls: &Tls) -> Result<TlsOptions> {
    let text = |pem: &[u8]| String::from_utf8_lossy(pem).into_owned();
    // Its own message may quote a key.
    let unusable = |_: Said| tls.unusable("the client crate cannot read them");
    // Settings without authorities are refused before.
    let authorities = tls.read_ca()?.unwrap_or_default();
    let options = TlsOptions::new().with_pem_ca(&text(&authorities)).map_err(unusable)?;
    let Some(Identity { cert, key }) = tls.read_identity()? else { return Ok(options) };
    options.with_pem_identity(&text(&cert), &text(&key)).map_err(unusable)
}

/// Opens TLS with the same settings for a connection of the engine's own, which asks a server for
/// its report.
pub(crate) async fn secured(
    stream: TcpStream,
    tls: &Tls,
    server: &Address,
) -> io::Result<TlsStream<TcpStream>> {
    let config = tls.client_config(&[]).map_err(io::Error::other)?;
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
