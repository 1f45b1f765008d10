//! One server, which may be the sentinels' current master.

use std::sync::Arc;

use redis::{Cmd, RedisResult, Value};
use tenure_core::{Error, Result, Ticket, TicketId};
use tenure_kit::subscriptions::Subscriptions;
use tenure_kit::{LinkPool, ServerClient};
use tokio::time::{Instant, timeout_at};

use crate::acks;
use crate::batch::{self, BatchItem};
use crate::calls::OpenLink;
use crate::facts::ServerFacts;
use crate::link::Master;
use crate::patrol;
use crate::route::{Deployment, Route, in_time};
use crate::script::Scripts;
use crate::settings::{AfterRestart, At, Settings};
use crate::trouble;

/// One server that keeps all lines.
pub struct OneServer {
    home: LinkPool<Master>,
    client: Arc<ServerClient<Master>>,
}

/// A link to it, and the open connection.
pub struct OneRoute<'a> {
    settings: &'a Settings,
    open: OpenLink,
    until: Instant,
}

impl OneServer {
    /// Connects. Returns the server's facts, and the error if the server may be reachable later.
    pub(crate) async fn connect(
        at: &At,
        settings: &Settings,
        mail: Arc<Subscriptions>,
        inbox: String,
    ) -> Result<(Self, ServerFacts, Option<Error>)> {
        let client = Master::client(at, settings, mail, inbox)?;
        let link = patrol::home(&client);
        let (facts, trouble) = match link.connection().await {
            Ok(connection) => (connection.facts.clone(), None),
            Err(error) if error.is_retryable() => (ServerFacts::default(), Some(error)),
            Err(error) => return Err(error),
        };
        Ok((Self { home: LinkPool::new(link), client }, facts, trouble))
    }
}

impl Deployment for OneServer {
    /// The only one.
    type Master = ();
    type Route<'a> = OneRoute<'a>;

    fn settings(&self) -> &Settings {
        &self.client.server().settings
    }

    fn scripts(&self) -> &Scripts {
        &self.client.server().scripts
    }

    async fn here(&self) -> Result<OneRoute<'_>> {
        let settings = self.settings();
        let until = Instant::now() + settings.timeout;
        let link = self.home.link();
        let connection = match link.current() {
            Some(connection) => connection,
            None => timeout_at(until, link.connection())
                .await
                .unwrap_or_else(|_| Err(trouble::late(settings)))?,
        };
        Ok(OneRoute { settings, open: OpenLink { link, connection }, until })
    }

    fn has_link_here(&self) -> bool {
        self.home.has_link_here()
    }

    async fn masters(&self) -> RedisResult<Vec<()>> {
        Ok(vec![()])
    }

    async fn ask(&self, (): &(), command: &Cmd) -> Result<RedisResult<Value>> {
        Ok(self.here().await?.call(command).await)
    }

    /// One channel carries the pushes of all lines.
    async fn hear_of(
        &self,
        _name: impl FnOnce() -> String + Send,
        _id: TicketId,
    ) -> RedisResult<bool> {
        Ok(false)
    }

    fn hear_no_more_of(&self, _name: &str, _id: TicketId) {}

    fn distrust(&self) {
        let link = self.home.link();
        if let Some(connection) = link.current() {
            link.was_replaced(connection.generation());
        }
    }
}

impl Route for OneRoute<'_> {
    /// The acknowledgements of a connection are for all writes on it.
    fn keeping(self) -> Self {
        self
    }

    async fn call(&self, call: &Cmd) -> RedisResult<Value> {
        in_time(self.until, Box::pin(self.open.send(call))).await
    }

    async fn ask(
        &self,
        item: Option<BatchItem<'_>>,
        call: impl FnOnce() -> Cmd + Send,
    ) -> RedisResult<Value> {
        // Boxed, because each of the futures between here and the caller would move it once.
        let sent = Box::pin(batch::send(&self.open, item, call));
        in_time(self.until, sent).await
    }

    fn trust(&self, ticket: &Ticket) -> Result<()> {
        let settings = self.settings;
        if settings.after_restart == AfterRestart::Trust {
            return Ok(());
        }
        if ticket.ttl > settings.ttl_max {
            return Err(Error::invalid(format!(
                "a ttl of {:?} is longer than these servers are set up for: ask for {:?} at most, or say a longer `ttl_max` in every URL",
                ticket.ttl, settings.ttl_max
            )));
        }
        let connection = &self.open.connection;
        match connection.facts.refused_for(settings, connection.since.elapsed()) {
            None => Ok(()),
            Some(left) => Err(Error::unavailable(format!(
                "the server {} started so short a time ago that it may have forgotten locks: it gives none for another {left:.0?}, unless the URL says after_restart=trust",
                settings.name
            ))),
        }
    }

    async fn acknowledged(&self) -> Result<()> {
        let settings = self.settings;
        if settings.acks == 0 {
            return Ok(());
        }
        let (open, until) = (self.open.clone(), self.until);
        // In a task, because one answer is for all waiting callers, and the first may stop polling.
        let counting = self.open.link.home().spawn(async move {
            let settings = &open.link.server().settings;
            let ask = async {
                let wait = acks::question(settings);
                let answer = open.send(&wait).await;
                let count = acks::counted(&trouble::answered(settings, answer)?);
                count.ok_or_else(|| trouble::strange(&settings.name))
            };
            // The answer is for all writes on the connection before the request.
            let counted = timeout_at(until, open.connection.acks.run(ask)).await;
            counted.unwrap_or_else(|_| Err(trouble::late(settings)))
        });
        let counted = counting.await.unwrap_or_else(|_| Err(trouble::late(settings)));
        acks::enough(settings, counted?)
    }
}
