//! A deployment: where its servers are, and a fresh store on them for each case.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_core::layers::{AnyEngine, Layer, OnRuntime, Operation};
use tenure_core::{BackgroundRuntime, Engine as _, Result, Runtime, TicketId};
use tenure_redis::{RedLock, RedisCluster, RedisStore};

/// One kind of deployment, named by the variable that has its URL.
pub(crate) struct Deployment {
    variable: &'static str,
    options: &'static str,
    ttl: Duration,
    from_a_runtime: bool,
    required: bool,
}

impl Deployment {
    pub(crate) const fn of(variable: &'static str) -> Self {
        Self {
            variable,
            options: "",
            ttl: Duration::from_secs(2),
            from_a_runtime: false,
            required: true,
        }
    }

    /// Sets these options in the URL.
    pub(crate) const fn with_options(self, options: &'static str) -> Self {
        Self { options, ..self }
    }

    /// Calls the verbs from the caller's own runtime, which then has a link of its own.
    pub(crate) const fn called_from_a_runtime(self) -> Self {
        Self { from_a_runtime: true, ..self }
    }

    /// Sets the ttl of tickets that are to expire within their case.
    pub(crate) const fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    pub(crate) const fn may_be_missing(self) -> Self {
        Self { required: false, ..self }
    }

    /// Returns the URL of a store that no other test uses.
    fn fresh_url(&self) -> Option<String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let url = std::env::var(self.variable).ok().filter(|url| !url.is_empty())?;
        let (place, options) = url.split_once('?').unwrap_or((&url, ""));
        let (fresh, count) = (TicketId::fresh(), COUNT.fetch_add(1, Ordering::Relaxed));
        // A user whose rights are those in the README has no others than `tenure:*`.
        Some(format!("{place}?{options}&{}&prefix=tenure:{count}-{fresh}", self.options))
    }
}

/// Returns a store on this deployment.
pub(crate) async fn arena(deployment: &Deployment) -> Arena {
    let Some(url) = deployment.fresh_url() else {
        let why = format!("{} does not say where it is", deployment.variable);
        let missing = Arena::missing("redis", &why);
        return if deployment.required { missing } else { missing.optional() };
    };
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    let (home, at, from_a_runtime) = (host.clone(), url.clone(), deployment.from_a_runtime);
    let open = move || open(home.clone(), at.clone(), from_a_runtime);
    Arena::on(host, deployment.ttl, open).in_real_time().shared(url)
}

async fn open(home: Arc<dyn Runtime>, url: String, from_a_runtime: bool) -> Result<AnyEngine> {
    if url.starts_with("redlock:") {
        return RedLock::engine(&url, home).await;
    }
    if url.starts_with("redis+cluster:") {
        let cluster = OnRuntime::make(home, async move { RedisCluster::open(&url).await }).await?;
        return Ok(AnyEngine::new(cluster));
    }
    let store = OnRuntime::make(home, async move { RedisStore::open(&url).await }).await?;
    if from_a_runtime {
        let store = store.in_place_where(RedisStore::has_link_here, tenure_kit::IN_PLACE_MAX);
        return Ok(AnyEngine::new(FromRuntime(AnyEngine::new(store))));
    }
    Ok(AnyEngine::new(store))
}

/// An engine whose verbs are called from a runtime, wherever the case itself may run.
struct FromRuntime(AnyEngine);

async fn from_runtime<F: Future>(verb: F) -> F::Output {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> =
        LazyLock::new(|| tokio::runtime::Runtime::new().expect("there is room for a runtime"));
    let mut verb = pin!(verb);
    std::future::poll_fn(|context| -> Poll<F::Output> {
        let _inside = RUNTIME.enter();
        verb.as_mut().poll(context)
    })
    .await
}

impl Layer for FromRuntime {
    type Inner = AnyEngine;

    fn inner(&self) -> &AnyEngine {
        &self.0
    }

    async fn intercept<T: Send>(
        &self,
        _: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        from_runtime(ask).await
    }

    async fn close(&self) {
        from_runtime(self.0.close()).await;
    }
}
