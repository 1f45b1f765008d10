//! The way to a server: straight, or by asking sentinels who the master is.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo,
    IntoConnectionInfo as _, ProtocolVersion, RedisConnectionInfo, TlsCertificates, TlsMode,
};
use tenure_core::{Error, Result};
use tokio::sync::Mutex;

use crate::settings::{Host, Login, Place, Settings, Tls};
use crate::trouble;

/// How a certificate in PEM begins.
const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Leads to one server, which may be another one tomorrow.
pub(crate) struct Way {
    settings: Settings,
    leads: Leads,
}

enum Leads {
    Straight(Client),
    Sentinel(Mutex<SentinelClient>),
}

impl Way {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let place = &settings.place;
        let leads = match place {
            Place::Server(host) => Leads::Straight(client(settings, address(host, settings))?),
            Place::Socket(path) => {
                Leads::Straight(client(settings, ConnectionAddr::Unix(path.clone()))?)
            }
            Place::Sentinel { sentinels, service } => {
                Leads::Sentinel(Mutex::new(asking(settings, sentinels, service)?))
            }
            Place::Cluster(_) | Place::Redlock(_) => {
                return Err(Error::invalid(format!("{place} is more than one server")));
            }
        };
        Ok(Self { settings: settings.clone(), leads })
    }

    pub(crate) fn place(&self) -> &Place {
        &self.settings.place
    }

    /// A new connection, and the address that it leads to.
    pub(crate) async fn go(
        &self,
        pushes: Option<impl AsyncPushSender>,
    ) -> Result<(MultiplexedConnection, String)> {
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.settings.connect_timeout))
            // Every verb has a time of its own, in which it may also wait for other things.
            .set_response_timeout(None);
        if let Some(pushes) = pushes {
            config = config.set_push_sender(pushes);
        }
        // A sentinel, or a server that accepts and says nothing, must not hold this up for longer.
        let limit = self.settings.connect_timeout + self.settings.timeout;
        let went = tokio::time::timeout(limit, async {
            let client = self.client().await?;
            let address = client.get_connection_info().addr().to_string();
            let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            Ok((connection, address))
        });
        let place = self.place();
        match went.await {
            Ok(went) => went.map_err(|trouble| trouble::no_way_in(&self.settings, &trouble)),
            Err(_) => Err(Error::unavailable(format!(
                "the server {place} took longer than {limit:?} to take a connection"
            ))),
        }
    }

    /// Where a connection would lead now.
    pub(crate) async fn master(&self) -> Result<String> {
        let client = trouble::answered(&self.settings, self.client().await)?;
        Ok(client.get_connection_info().addr().to_string())
    }

    async fn client(&self) -> redis::RedisResult<Client> {
        match &self.leads {
            Leads::Straight(client) => Ok(client.clone()),
            Leads::Sentinel(sentinels) => sentinels.lock().await.async_get_client().await,
        }
    }
}

fn client(settings: &Settings, address: ConnectionAddr) -> Result<Client> {
    let info = info(address, settings)?;
    let client = match certificates(settings)? {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    };
    trouble::answered(settings, client)
}

fn asking(settings: &Settings, sentinels: &[Host], service: &str) -> Result<SentinelClient> {
    let addresses = sentinels.iter().map(|host| address(host, settings));
    let built =
        SentinelClientBuilder::new(addresses, service, SentinelServerType::Master).map(|asking| {
            let mut asking = asking
                .set_client_to_redis_protocol(ProtocolVersion::RESP3)
                .set_client_to_redis_db(settings.db.into());
            if let Some(user) = &settings.login.user {
                asking = asking.set_client_to_redis_username(user);
            }
            if let Some(password) = &settings.login.password {
                asking = asking.set_client_to_redis_password(password);
            }
            if let Some(user) = &settings.sentinel_login.user {
                asking = asking.set_client_to_sentinel_username(user);
            }
            if let Some(password) = &settings.sentinel_login.password {
                asking = asking.set_client_to_sentinel_password(password);
            }
            asking
        });
    let mut asking = trouble::answered(settings, built)?;
    if let Some(certificates) = certificates(settings)? {
        asking = asking
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_tls_mode(TlsMode::Secure)
            .set_client_to_sentinel_certificates(certificates);
    }
    trouble::answered(settings, asking.build())
}

/// Where a server is, for a client that knows how to get there.
pub(crate) fn address(host: &Host, settings: &Settings) -> ConnectionAddr {
    let Host { name, port } = host.clone();
    if settings.tls.is_some() {
        ConnectionAddr::TcpTls { host: name, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(name, port)
    }
}

/// A server's address, and what is said to it first.
pub(crate) fn info(address: ConnectionAddr, settings: &Settings) -> Result<ConnectionInfo> {
    let info = trouble::answered(settings, address.into_connection_info())?;
    // What a server that stands still has not taken in by the time it is given up is taken back.
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
        terms = terms.set_password(password);
    }
    terms
}

/// Whom to trust and who one is, read from the files; `None` without TLS.
pub(crate) fn certificates(settings: &Settings) -> Result<Option<TlsCertificates>> {
    let Some(Tls { ca, cert, key }) = &settings.tls else { return Ok(None) };
    // Whoever came first has chosen for the whole process, and that is as good.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    let read = |path: &Option<PathBuf>| match path {
        None => Ok(None),
        Some(path) => fs::read(path).map(Some).map_err(|error| trouble::file(path, &error)),
    };
    let client_tls = match (read(cert)?, read(key)?) {
        (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig { client_cert, client_key }),
        _ => None,
    };
    let root_cert = read(ca)?;
    if let (Some(path), Some(bytes)) = (ca, &root_cert)
        && !bytes.windows(CERTIFICATE.len()).any(|part| part == CERTIFICATE)
    {
        return Err(Error::invalid(format!("{} has no certificate in PEM", path.display())));
    }
    Ok(Some(TlsCertificates { client_tls, root_cert }))
}
