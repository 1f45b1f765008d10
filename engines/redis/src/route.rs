//! Routes: from a verb to the server of its line, in any deployment.

use futures_util::FutureExt as _;
use redis::{Cmd, RedisResult, Value};
use tenure_core::{Error, Result, Ticket, TicketId};
use tokio::time::{Instant, timeout_at};

use crate::batch::BatchItem;
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

    /// Returns the route for the caller. The time limit of the verb starts now.
    fn here(&self) -> impl Future<Output = Result<Self::Route<'_>>> + Send;

    /// Returns whether the caller has a connection on its own runtime.
    fn has_link_here(&self) -> bool;

    /// Returns every server that keeps lines.
    fn masters(&self) -> impl Future<Output = RedisResult<Vec<Self::Master>>> + Send;

    /// Sends a command to one of these.
    fn ask(
        &self,
        master: &Self::Master,
        command: &Cmd,
    ) -> impl Future<Output = Result<RedisResult<Value>>> + Send;

    /// Subscribes this ticket to the line with this name, if needed. Returns `true` if that took a
    /// step, before which pushes may have been missed.
    fn hear_of(
        &self,
        name: impl FnOnce() -> String + Send,
        id: TicketId,
    ) -> impl Future<Output = RedisResult<bool>> + Send;

    /// Unsubscribes the ticket from its line.
    fn hear_no_more_of(&self, name: &str, id: TicketId);

    /// Returns the answer of a server, or the error for it.
    fn answered<T>(&self, answer: RedisResult<T>) -> Result<T> {
        if answer.as_ref().is_err_and(trouble::is_strange) {
            self.distrust();
        }
        trouble::answered(self.settings(), answer)
    }

    /// Returns an answer that could be read.
    fn known<T>(&self, answer: Option<T>) -> Result<T> {
        answer.ok_or_else(|| self.strange())
    }

    /// Returns the error for an answer that no script of Tenure gives. Its request is unknown, and
    /// so is that request's outcome.
    fn strange(&self) -> Error {
        self.distrust();
        trouble::strange(&self.settings().name)
    }

    /// Drops all open connections, because an answer does not fit its request: later answers on its
    /// connection may belong to other requests, too.
    fn distrust(&self);
}

/// The route of one verb, within its time limit.
pub trait Route: Send + Sync + Sized {
    /// The same route, for a write that is to be [acknowledged](Self::acknowledged).
    #[must_use]
    fn keeping(self) -> Self;

    /// Sends the call of a script. Never sends it again once it may have been carried out.
    fn call(&self, call: &Cmd) -> impl Future<Output = RedisResult<Value>> + Send;

    /// Sends the call of a verb. Batches the verb if many are in flight and it can be batched.
    fn ask(
        &self,
        item: Option<BatchItem<'_>>,
        call: impl FnOnce() -> Cmd + Send,
    ) -> impl Future<Output = RedisResult<Value>> + Send;

    /// Refuses a ticket if the server may have forgotten locks that others still hold.
    fn trust(&self, ticket: &Ticket) -> Result<()>;

    /// Waits until enough replicas have the last write.
    fn acknowledged(&self) -> impl Future<Output = Result<()>> + Send;
}

/// Returns the answer, or an error at the time limit.
pub(crate) fn in_time<T>(
    until: Instant,
    answer: impl Future<Output = RedisResult<T>>,
) -> impl Future<Output = RedisResult<T>> {
    timeout_at(until, answer).map(|answer| answer.unwrap_or_else(|_| Err(trouble::silence())))
}
