//! The route of a verb through a cluster.

use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Cmd, RedisResult, Value};
use tenure_core::{Result, Ticket, TicketId};
use tenure_kit::url::Address;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::{ClusterServers, nodes};
use crate::acks;
use crate::batch::BatchItem;
use crate::route::{Deployment, Route, in_time};
use crate::script::Scripts;
use crate::settings::Settings;
use crate::trouble;

/// The route of one verb to the server of its line.
pub struct ClusterRoute<'a> {
    cluster: &'a ClusterServers,
    until: Instant,
    /// Number of replicas that have the last write, if callers wait for some.
    replicas: Option<AtomicU64>,
}

impl Deployment for ClusterServers {
    type Master = Address;
    type Route<'a> = ClusterRoute<'a>;

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    async fn here(&self) -> Result<ClusterRoute<'_>> {
        let until = Instant::now() + self.settings.timeout;
        Ok(ClusterRoute { cluster: self, until, replicas: None })
    }

    /// There is one connection, on the runtime on which it was opened.
    fn has_link_here(&self) -> bool {
        Handle::try_current().is_ok_and(|here| here.id() == self.home.id())
    }

    async fn masters(&self) -> RedisResult<Vec<Address>> {
        let asked = self.driver.ask(nodes::masters);
        let masters = timeout(self.settings.timeout, asked).await;
        masters.unwrap_or_else(|_| Err(trouble::silence()))
    }

    async fn ask(&self, master: &Address, command: &Cmd) -> Result<RedisResult<Value>> {
        let asked = self.driver.ask(|connection| nodes::ask(connection, master, command));
        let asked = timeout(self.settings.timeout, asked);
        Ok(asked.await.unwrap_or_else(|_| Err(trouble::silence())))
    }

    async fn hear_of(
        &self,
        name: impl FnOnce() -> String + Send,
        id: TicketId,
    ) -> RedisResult<bool> {
        self.channels.hear_of(&name(), id).await
    }

    fn hear_no_more_of(&self, name: &str, id: TicketId) {
        self.channels.hear_no_more_of(name, id);
    }

    /// The driver keeps the connections to all servers as one.
    fn distrust(&self) {
        self.driver.distrust();
    }
}

impl Route for ClusterRoute<'_> {
    fn keeping(self) -> Self {
        let replicas = (self.cluster.settings.acks > 0).then(AtomicU64::default);
        Self { replicas, ..self }
    }

    async fn call(&self, call: &Cmd) -> RedisResult<Value> {
        let wait = self.replicas.is_some().then(|| acks::question(&self.cluster.settings));
        let asked = Box::pin(self.cluster.call(call, wait));
        let mut answers = in_time(self.until, asked).await?.into_iter();
        let (answer, count) = (answers.next(), answers.next());
        if let (Some(replicas), Some(count)) = (&self.replicas, count) {
            replicas.store(acks::counted(&count).unwrap_or(0), Ordering::Relaxed);
        }
        answer.ok_or_else(trouble::over)
    }

    /// Each line has a slot of its own, so verbs do not travel together.
    async fn ask(
        &self,
        _item: Option<BatchItem<'_>>,
        call: impl FnOnce() -> Cmd + Send,
    ) -> RedisResult<Value> {
        self.call(&call()).await
    }

    /// Servers of a cluster come and go without notice. A URL with `after_restart=refuse` is
    /// itself refused.
    fn trust(&self, _ticket: &Ticket) -> Result<()> {
        Ok(())
    }

    async fn acknowledged(&self) -> Result<()> {
        let count = self.replicas.as_ref().map_or(0, |replicas| replicas.load(Ordering::Relaxed));
        acks::enough(&self.cluster.settings, count)
    }
}
