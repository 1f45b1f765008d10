//! Verbs of many tasks share a call if many are in flight on one connection.
//!
//! Without this module each verb would be a call of its own, and nothing else would change.

use std::sync::Arc;

use redis::{Cmd, RedisResult, Value};
use tenure_kit::Room;
use tokio::time::timeout;

use crate::bundle::{self, BatchItem, Bundle, BundleStep};
use crate::calls;
use crate::link::{MasterConnection, MasterLink};
use crate::trouble;

/// Sends a verb: with others if many are in flight and the verb can be bundled, else by a call of
/// its own.
pub(crate) async fn send(
    link: &MasterLink,
    connection: &Arc<MasterConnection>,
    wish: Option<BatchItem<'_>>,
    call: impl FnOnce() -> Cmd,
) -> RedisResult<Value> {
    let _counted = connection.bundles.one_more();
    if let Some(wish) = wish
        && let Some(answer) = send_bundled(link, connection, &wish).await?
    {
        return Ok(answer);
    }
    calls::send(link, connection, &call()).await
}

/// Sends a verb together with others, if many are in flight already. Returns `None` if it needs a
/// call of its own: few are, or another ticket is in its line.
async fn send_bundled(
    link: &MasterLink,
    connection: &Arc<MasterConnection>,
    wish: &BatchItem<'_>,
) -> bundle::BundleAnswer {
    if !connection.bundles.are_many_under_way() {
        return Ok(None);
    }
    let Some(this) = link.this() else { return Ok(None) };
    // The callers that open and fill a bundle have the room in which it travels.
    let room = calls::room(link, connection).await?;
    let (next, answered) = connection.bundles.gather(wish);
    let connection = connection.clone();
    match next {
        BundleStep::Nothing => drop(room),
        BundleStep::Send(bundle) => drop(link.home().spawn(carry(this, connection, room, bundle))),
        BundleStep::SendSoon => drop(link.home().spawn(async move {
            tokio::task::yield_now().await;
            if let Some(bundle) = connection.bundles.take() {
                carry(this, connection, room, bundle).await;
            }
        })),
    }
    answered.await.unwrap_or_else(|_| Err(trouble::over()))
}

async fn carry(
    link: Arc<MasterLink>,
    connection: Arc<MasterConnection>,
    room: Room,
    bundle: Bundle,
) {
    let call = bundle.call(&link.server().scripts.bundle);
    let sent = calls::send_in(&link, &connection, room, &call);
    let answer = timeout(link.server().settings.timeout, sent).await;
    bundle.answer(answer.unwrap_or_else(|_| Err(trouble::silence())));
}
