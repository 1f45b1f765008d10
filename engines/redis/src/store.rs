//! A store: the lines of a deployment, and how it is opened.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Guarantees, Result, Sampler, ThisRuntime};
use tenure_kit::subscriptions::Subscriptions;

use crate::cluster::ClusterServers;
use crate::facts::ServerFacts;
use crate::one::OneServer;
use crate::route::Deployment;
use crate::settings::Settings;

/// Interval of an onlooker's looks.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// The lines of one server, or of the sentinels' master.
pub type RedisStore = RedisEngine<OneServer>;
/// The lines of a cluster.
pub type RedisCluster = RedisEngine<ClusterServers>;

/// The lines of a deployment: a [`RedisStore`] or a [`RedisCluster`].
///
/// The runtime it was opened in drives it, and those of its callers.
pub struct RedisEngine<D> {
    pub(crate) deployment: Arc<D>,
    /// Prefix of the names of its lines, after that of the URL.
    pub(crate) realm: &'static str,
    /// Why it could not be reached at first.
    trouble: Option<Error>,
    pub(crate) guarantees: Guarantees,
    pub(crate) inbox: String,
    pub(crate) mail: Arc<Subscriptions>,
    pub(crate) sampler: Sampler,
    pub(crate) host: ThisRuntime,
}

impl RedisStore {
    /// Connects to the one server of the URL.
    ///
    /// # Errors
    ///
    /// `Invalid` for a URL that is wrong, `Unavailable` if the server cannot be reached, and
    /// `Rejected` if it refuses this client.
    pub async fn open(url: &str) -> Result<Self> {
        Self::connect(&Settings::from_url(url)?).await
    }

    pub(crate) async fn connect(settings: &Settings) -> Result<Self> {
        let store = Self::connect_lazily(settings).await?;
        match store.trouble {
            None => Ok(store),
            Some(trouble) => Err(trouble),
        }
    }

    /// The same, also if the server cannot be reached now, and may be later.
    pub(crate) async fn connect_lazily(settings: &Settings) -> Result<Self> {
        let at = settings.one()?;
        let (mail, inbox) = (Arc::<Subscriptions>::default(), inbox()?);
        let connected = OneServer::connect(at, settings, mail.clone(), inbox.clone()).await;
        let (server, facts, trouble) = connected?;
        Ok(Self::of(server, &facts, mail, inbox, trouble))
    }

    /// Returns why the server could not be reached when this was opened.
    pub(crate) fn trouble(&self) -> Option<&Error> {
        self.trouble.as_ref()
    }
}

impl RedisCluster {
    /// Connects to the cluster of the URL.
    ///
    /// # Errors
    ///
    /// `Invalid` for a URL that is wrong, `Unavailable` if the cluster cannot be reached, and
    /// `Rejected` if it refuses this client.
    pub async fn open(url: &str) -> Result<Self> {
        Self::connect(&Settings::from_url(url)?).await
    }

    pub(crate) async fn connect(settings: &Settings) -> Result<Self> {
        let seeds = settings.seeds()?;
        let (mail, inbox) = (Arc::<Subscriptions>::default(), inbox()?);
        let connecting = ClusterServers::connect(seeds, settings, mail.clone(), inbox.clone());
        let (cluster, facts) = connecting.await?;
        Ok(Self::of(cluster, &facts, mail, inbox, None))
    }
}

impl<D: Deployment> RedisEngine<D> {
    fn of(
        deployment: D,
        facts: &ServerFacts,
        mail: Arc<Subscriptions>,
        inbox: String,
        trouble: Option<Error>,
    ) -> Self {
        let mut guarantees = facts.guarantees(deployment.settings());
        if let Some(trouble) = &trouble {
            guarantees.warnings = vec![trouble.to_string()];
        }
        for warning in &guarantees.warnings {
            tracing::warn!("{warning}");
        }
        let (deployment, sampler) = (Arc::new(deployment), Sampler::new(LOOK_PAUSE));
        let (realm, host) = ("", ThisRuntime::new());
        Self { deployment, realm, trouble, guarantees, inbox, mail, sampler, host }
    }

    /// Returns other lines over the same connections, none of which is one of these.
    pub(crate) fn realm(&self, realm: &'static str) -> Self {
        Self {
            deployment: self.deployment.clone(),
            realm,
            trouble: self.trouble.clone(),
            guarantees: self.guarantees.clone(),
            inbox: self.inbox.clone(),
            mail: self.mail.clone(),
            sampler: Sampler::new(LOOK_PAUSE),
            host: self.host.clone(),
        }
    }

    /// Returns whether the caller has a link on its own runtime. If not, and if there is a runtime,
    /// a link is opened for the next time.
    pub fn has_link_here(&self) -> bool {
        self.deployment.has_link_here()
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.deployment.settings()
    }
}

/// Returns a random name for an inbox.
fn inbox() -> Result<String> {
    let random = getrandom::u64().map_err(|error| {
        Error::rejected(format!("the operating system has no random numbers to give: {error}"))
    })?;
    Ok(format!("{random:016x}"))
}
