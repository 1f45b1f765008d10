//! Batching: verbs of many tasks share a call if many are in flight on one connection.
//!
//! A call costs the server more than its work on a line without waiters. So with many verbs in
//! flight, further ones wait until the runtime is idle, and travel together. Without this module
//! each verb would be a call of its own, and nothing else would change.

use std::sync::Arc;

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use tenure_core::sync::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::calls::OpenLink;
use crate::script::{Script, VerbTag};
use crate::trouble;

/// Count of verbs in flight from which further ones are batched.
const IN_FLIGHT_MANY: usize = 8;
/// Maximum verbs of one batch: the server does nothing else meanwhile.
const BATCH_VERBS_MAX: usize = 16;

/// A verb for a line without waiters.
pub struct BatchItem<'a> {
    pub(crate) tag: VerbTag,
    /// The name of the line's head.
    pub(crate) line: &'a str,
    /// The ticket's card, or its beginning.
    pub(crate) ticket: &'a [u8],
    /// The life of the line's key, or the manner of a leave.
    pub(crate) life: &'a str,
}

/// The verbs in flight on one connection, and the next batch.
#[derive(Default)]
pub(crate) struct Batcher {
    /// Each verb in flight has a clone.
    in_flight: Arc<()>,
    next: Mutex<Batch>,
}

/// Verbs that travel together, and their callers.
#[derive(Default)]
struct Batch {
    tags: Vec<u8>,
    lines: Vec<String>,
    /// The two arguments of each.
    arguments: Vec<Vec<u8>>,
    answers: Vec<oneshot::Sender<RedisResult<Option<Value>>>>,
}

/// Sends a verb: with others if many are in flight and the verb can be batched, else by a call of
/// its own.
pub(crate) async fn send(
    open: &OpenLink,
    item: Option<BatchItem<'_>>,
    call: impl FnOnce() -> Cmd,
) -> RedisResult<Value> {
    let _counted = open.connection.batcher.in_flight.clone();
    if let Some(item) = item
        && let Some(answer) = send_batched(open, &item).await?
    {
        return Ok(answer);
    }
    open.send(&call()).await
}

/// Sends a verb together with others, if many are in flight already. Returns `None` if it needs a
/// call of its own: few are, or another ticket is in its line.
async fn send_batched(open: &OpenLink, item: &BatchItem<'_>) -> RedisResult<Option<Value>> {
    let batcher = &open.connection.batcher;
    // The batcher has a clone, too.
    if Arc::strong_count(&batcher.in_flight) - 1 <= IN_FLIGHT_MANY {
        return Ok(None);
    }
    // The callers that open and fill a batch have the room in which it travels.
    let room = open.room().await?;
    let (answer, answered) = oneshot::channel();
    let (is_first, full) = batcher.add(item, answer);
    if is_first || full.is_some() {
        let open = open.clone();
        open.link.clone().home().spawn(async move {
            if full.is_none() {
                tokio::task::yield_now().await;
            }
            let Some(batch) = full.or_else(|| open.connection.batcher.take()) else { return };
            let server = open.link.server();
            let call = batch.call(&server.scripts.batch);
            let sent = open.send_in(room, &call);
            let answer = timeout(server.settings.timeout, sent).await;
            batch.answer(answer.unwrap_or_else(|_| Err(trouble::silence())));
        });
    } else {
        drop(room);
    }
    answered.await.unwrap_or_else(|_| Err(trouble::over()))
}

impl Batcher {
    /// Adds a verb to the next batch. Returns whether it is its first, and the batch if it is full.
    fn add(
        &self,
        item: &BatchItem<'_>,
        answer: oneshot::Sender<RedisResult<Option<Value>>>,
    ) -> (bool, Option<Batch>) {
        let mut batch = self.next.lock();
        batch.tags.push(item.tag as u8);
        batch.lines.push(item.line.to_owned());
        batch.arguments.extend([item.ticket.to_owned(), item.life.into()]);
        batch.answers.push(answer);
        let is_full = batch.answers.len() == BATCH_VERBS_MAX;
        (batch.answers.len() == 1, is_full.then(|| std::mem::take(&mut *batch)))
    }

    /// Takes the next batch, if it has any verb.
    fn take(&self) -> Option<Batch> {
        let mut batch = self.next.lock();
        (!batch.answers.is_empty()).then(|| std::mem::take(&mut *batch))
    }
}

impl Batch {
    fn call(&self, script: &Script) -> Cmd {
        let mut call = script.on_all(&self.lines);
        call.arg(&self.tags).arg(&self.arguments);
        call
    }

    /// Gives each caller its part of the answer.
    fn answer(self, answer: RedisResult<Value>) {
        let parts = match answer {
            Ok(Value::Array(parts)) if parts.len() == self.answers.len() => Ok(parts),
            Ok(_) => Err((ErrorKind::UnexpectedReturnType, "not one answer for each verb").into()),
            Err(trouble) => Err(trouble),
        };
        for (at, caller) in self.answers.into_iter().enumerate() {
            let part = parts.as_ref().map(|parts| parts[at].clone());
            let part = part.map(|part| Some(part).filter(|part| *part != Value::Nil));
            // The caller may have gone.
            let _ = caller.send(part.map_err(RedisError::clone));
        }
    }
}
