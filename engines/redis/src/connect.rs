//! How a connection to one server is opened: straight, or by asking sentinels who the master is.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo,
    IntoConnectionInfo as _, ProtocolVersion, RedisConnectionInfo, TlsCertificates,
};
use tenure_core::{Error, Result};
use tenure_kit::url::{Address, Login};

use crate::sentinel::Sentinels;
use crate::settings::{At, Settings, Tls};
use crate::trouble;

/// How a certificate in PEM begins.
const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// How to reach one server, which may be another one tomorrow.
pub(crate) struct Door {
    settings: Settings,
    leads: Leads,
}

enum Leads {
    Straight(Box<Client>),
    Sentinel(Arc<Sentinels>),
}

impl Door {
    pub(crate) fn new(at: &At, settings: &Settings) -> Result<Self> {
        let leads = match at {
            At::Server(server) => {
                Leads::Straight(Box::new(client(settings, address(server, settings))?))
            }
            At::Socket(path) => {
                Leads::Straight(Box::new(client(settings, ConnectionAddr::Unix(path.clone()))?))
            }
            At::Sentinels { sentinels, service } => {
                Leads::Sentinel(Sentinels::new(settings, sentinels, service)?)
            }
        };
        Ok(Self { settings: settings.clone(), leads })
    }

    /// A new connection, and the address that it leads to.
    pub(crate) async fn open(
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
            let connected = client.get_multiplexed_async_connection_with_config(&config).await;
            let connected = connected.map_err(|it| trouble::no_way_in(&self.settings, &it))?;
            Ok((connected, address))
        });
        went.await.unwrap_or_else(|_| {
            Err(Error::unavailable(format!(
                "the server {} took longer than {limit:?} to take a connection",
                self.settings.name
            )))
        })
    }

    /// Where it led, there is no master. Whether there is another sentinel, who may know better.
    pub(crate) async fn doubt(&self) -> bool {
        match &self.leads {
            Leads::Straight(_) => false,
            Leads::Sentinel(sentinels) => sentinels.doubt().await,
        }
    }

    /// The sentinels that say where the server is, if the URL does not.
    pub(crate) fn sentinels(&self) -> Option<&Arc<Sentinels>> {
        match &self.leads {
            Leads::Straight(_) => None,
            Leads::Sentinel(sentinels) => Some(sentinels),
        }
    }

    async fn client(&self) -> Result<Client> {
        match &self.leads {
            Leads::Straight(client) => Ok(Client::clone(client)),
            Leads::Sentinel(sentinels) => {
                let master = sentinels.master().await;
                let master = master.map_err(|it| trouble::of_sentinels(&self.settings, &it))?;
                client(&self.settings, address(&master, &self.settings))
            }
        }
    }
}

/// A client of the server at this address.
pub(crate) fn client(settings: &Settings, address: ConnectionAddr) -> Result<Client> {
    let info = info(address, settings)?;
    let client = match certificates(settings)? {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    };
    trouble::answered(settings, client)
}

/// Where a server is, for a client that knows how to get there.
pub(crate) fn address(host: &Address, settings: &Settings) -> ConnectionAddr {
    let Address { name, port } = host.clone();
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
        terms = terms.set_password(password.reveal());
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
