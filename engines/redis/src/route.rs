//! Routes: from a verb to the server that keeps its line, whatever the deployment.

use futures_util::FutureExt as _;
use redis::{Cmd, RedisResult, Value};
use tenure_core::{Error, Result, Ticket, TicketId};
use tokio::time::{Instant, timeout_at};

use crate::bundle::Wish;
use crate::facts::Facts;
use crate::script::Scripts;
use crate::settings::Settings;
use crate::trouble;

/// Servers that keep lines: one, or a cluster.
pub trait Deployment: Send + Sync + 'static {
    /// One of its servers, each of which keeps some of the lines.
    type Master: Send + Sync;
    /// The route of one verb.
    type Route<'a>: Route
    where
        Self: 'a;

    fn settings(&self) -> &Settings;

    fn scripts(&self) -> &Scripts;

    /// What was found out about the servers when they were met.
    fn facts(&self) -> &Facts;

    /// The route for whoever calls. From now on the time runs that a verb has.
    fn here(&self) -> impl Future<Output = Result<Self::Route<'_>>> + Send;

    /// Whether whoever calls has a connection of their own, on their own runtime.
    fn has_link_here(&self) -> bool;

    /// Every server that keeps lines.
    fn masters(&self) -> impl Future<Output = RedisResult<Vec<Self::Master>>> + Send;

    /// Sends a command to one of these.
    fn ask(
        &self,
        master: &Self::Master,
        command: &Cmd,
    ) -> impl Future<Output = Result<RedisResult<Value>>> + Send;

    /// What the line with this name, if that is needed, tells this ticket is heard from now on. `true`: that took a
    /// step, before which some may have been missed.
    fn hear_of(
        &self,
        name: impl FnOnce() -> String + Send,
        id: TicketId,
    ) -> impl Future<Output = RedisResult<bool>> + Send;

    /// The ticket hears no more of its line.
    fn hear_no_more_of(&self, name: &str, id: TicketId);

    /// What a server answered, or what is to be said of it.
    fn answered<T>(&self, answer: RedisResult<T>) -> Result<T> {
        if answer.as_ref().is_err_and(trouble::is_strange) {
            self.distrust();
        }
        trouble::answered(self.settings(), answer)
    }

    /// An answer that could be read.
    fn known<T>(&self, answer: Option<T>) -> Result<T> {
        answer.ok_or_else(|| self.strange())
    }

    /// An answer that no script of Tenure's gives. What it was the answer to is not known, nor what became of what was asked.
    fn strange(&self) -> Error {
        self.distrust();
        trouble::strange(&self.settings().name)
    }

    /// An answer came that answers nothing that was asked: those behind it on its connection may be the answers to something else.
    /// No connection that is open now is used again.
    fn distrust(&self);
}

/// The route of one verb, until its time is over.
pub trait Route: Send + Sync + Sized {
    /// The same, for what the line with this name shall keep: to be [acknowledged](Self::acknowledged).
    #[must_use]
    fn keeping(self, name: &str) -> Self;

    /// Sends the call of a script.
    fn call(&self, call: &Cmd) -> impl Future<Output = RedisResult<Value>> + Send;

    /// The same, for a call that must not be carried out twice.
    fn call_once(&self, call: &Cmd) -> impl Future<Output = RedisResult<Value>> + Send;

    /// Sends the call of a verb; batches the verb if much is under way and there is a wish for it.
    fn ask(
        &self,
        wish: Option<Wish<'_>>,
        call: impl FnOnce() -> Cmd + Send,
    ) -> impl Future<Output = RedisResult<Value>> + Send;

    /// Refuses a ticket where locks may have been forgotten that somebody still believes in.
    fn trust(&self, ticket: &Ticket) -> Result<()>;

    /// Waits until enough replicas have what was written last.
    fn acknowledged(&self) -> impl Future<Output = Result<()>> + Send;
}

/// The answer, if it comes until then.
pub(crate) fn in_time<T>(
    until: Instant,
    answer: impl Future<Output = RedisResult<T>>,
) -> impl Future<Output = RedisResult<T>> {
    timeout_at(until, answer).map(|answer| answer.unwrap_or_else(|_| Err(trouble::silence())))
}
