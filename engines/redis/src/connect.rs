//! Opening a connection to a server: its address, TLS, and the login.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    ProtocolVersion, RedisConnectionInfo, TlsCertificates,
};
use tenure_core::Result;
use tenure_kit::tls::Identity;
use tenure_kit::url::{Address, Login};

use crate::settings::Settings;
use crate::trouble;

/// Returns a client of the server at this address.
pub(crate) fn client(settings: &Settings, address: ConnectionAddr) -> Result<Client> {
    let info = info(address, settings)?;
    let client = match certificates(settings)? {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    };
    trouble::answered(settings, client)
}

/// Returns the address of a server for the driver.
pub(crate) fn address(host: &Address, settings: &Settings) -> ConnectionAddr {
    let Address { name, port } = host.clone();
    if settings.tls.is_some() {
        ConnectionAddr::TcpTls { host: name, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(name, port)
    }
}

/// Returns a server's address with the settings of the connection.
pub(crate) fn info(address: ConnectionAddr, settings: &Settings) -> Result<ConnectionInfo> {
    let info = trouble::answered(settings, address.into_connection_info())?;
    // Closing discards the data that a server which stands still has not received.
    let tcp = TcpSettings::default().set_linger_time(Duration::ZERO);
    Ok(info.set_tcp_settings(tcp).set_redis_settings(terms(settings)))
}

fn terms(settings: &Settings) -> RedisConnectionInfo {
    let Login { user, password } = &settings.login;
    let mut terms = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_db(settings.db.into())
        .set_lib_name("tenure", env!("CARGO_PKG_VERSION"));
    if let Some(user) = user {
        terms = terms.set_username(user);
    }
    if let Some(password) = password {
        terms = terms.set_password(password.reveal());
    }
    terms
}

/// Reads the certificates; `None` without TLS.
pub(crate) fn certificates(settings: &Settings) -> Result<Option<TlsCertificates>> {
    let Some(tls) = &settings.tls else { return Ok(None) };
    // Another crate may have installed a provider for the process, which does as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let identity = tls.read_identity()?;
    let client_tls = identity
        .map(|Identity { cert, key }| ClientTlsConfig { client_cert: cert, client_key: key });
    Ok(Some(TlsCertificates { client_tls, root_cert: tls.read_ca()? }))
}
