//! The address of one server, fixed or from sentinels.

use std::sync::Arc;

use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr};
use tenure_core::Result;

use crate::connect::{address, client};
use crate::sentinel::Sentinels;
use crate::settings::{At, Settings};
use crate::trouble;

/// The way to one server, which may be another one tomorrow.
pub(crate) struct Resolver {
    settings: Settings,
    source: MasterSource,
}

enum MasterSource {
    Fixed(Box<Client>),
    Sentinels(Arc<Sentinels>),
}

impl Resolver {
    pub(crate) fn new(at: &At, settings: &Settings) -> Result<Self> {
        let fixed = |address| Ok(MasterSource::Fixed(Box::new(client(settings, address)?)));
        let source = match at {
            At::Server(server) => fixed(address(server, settings)),
            At::Socket(path) => fixed(ConnectionAddr::Unix(path.clone())),
            At::Sentinels { sentinels, service } => {
                Sentinels::new(settings, sentinels, service).map(MasterSource::Sentinels)
            }
        };
        Ok(Self { settings: settings.clone(), source: source? })
    }

    /// Opens a connection. Returns it, and its address.
    pub(crate) async fn open(
        &self,
        pushes: Option<impl AsyncPushSender>,
    ) -> Result<(MultiplexedConnection, String)> {
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.settings.connect_timeout))
            // Every verb has a time limit of its own, which includes other waits.
            .set_response_timeout(None);
        if let Some(pushes) = pushes {
            config = config.set_push_sender(pushes);
        }
        // A sentinel, or a server that accepts and does not answer, must not take longer.
        let limit = self.settings.connect_timeout + self.settings.timeout;
        let went = tokio::time::timeout(limit, async {
            let client = self.client().await?;
            let address = client.get_connection_info().addr().to_string();
            let connected = client.get_multiplexed_async_connection_with_config(&config).await;
            let connected = connected.map_err(|it| trouble::no_way_in(&self.settings, &it))?;
            Ok((connected, address))
        });
        went.await.unwrap_or_else(|_| Err(trouble::out_of_reach(&self.settings, limit)))
    }

    /// Notes that there is no master at its address. Returns whether there is another sentinel to
    /// ask.
    pub(crate) async fn doubt(&self) -> bool {
        match self.sentinels() {
            None => false,
            Some(sentinels) => sentinels.doubt().await,
        }
    }

    /// Returns the sentinels, if the URL has some.
    pub(crate) fn sentinels(&self) -> Option<&Arc<Sentinels>> {
        if let MasterSource::Sentinels(sentinels) = &self.source { Some(sentinels) } else { None }
    }

    async fn client(&self) -> Result<Client> {
        match &self.source {
            MasterSource::Fixed(client) => Ok(Client::clone(client)),
            MasterSource::Sentinels(sentinels) => {
                let master = sentinels.master().await;
                let master = master.map_err(|it| trouble::of_sentinels(&self.settings, &it))?;
                client(&self.settings, address(&master, &self.settings))
            }
        }
    }
}
