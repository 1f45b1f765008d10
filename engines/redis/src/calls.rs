//! Calls of scripts over a link. A server that lacks the scripts is told them.

use std::sync::Arc;

use redis::{Cmd, RedisResult, Value};
use tenure_kit::{Call, Ended, Room};
use tokio::time::timeout;

use crate::bundle::{self, Bundle, Next, Wish};
use crate::link::{Connection, Link, Master};
use crate::trouble;

/// Sends a call, once there is room for it.
pub(crate) async fn send(
    link: &Link,
    connection: &Arc<Connection>,
    call: &Cmd,
) -> RedisResult<Value> {
    let room = room(link, connection).await?;
    send_in(link, connection, room, call).await
}

async fn send_in(
    link: &Link,
    connection: &Arc<Connection>,
    room: Room,
    call: &Cmd,
) -> RedisResult<Value> {
    let told = connection.told.times();
    let mut under_way = link.call(connection, room);
    match ask(link, connection, &mut under_way, call).await {
        Err(trouble) if trouble::wants_scripts(&trouble) => {
            let tell = connection.tell_scripts(&link.server().scripts);
            connection.told.once_more(told, tell).await?;
            ask(link, connection, &mut under_way, call).await
        }
        answer => answer,
    }
}

async fn ask(
    link: &Link,
    connection: &Arc<Connection>,
    under_way: &mut Call<'_, Master>,
    call: &Cmd,
) -> RedisResult<Value> {
    under_way.sent();
    let answer = connection.redis.clone().send_packed_command(call).await;
    under_way.answered();
    // A refusal comes as an answer.
    let answer = answer.and_then(Value::extract_error);
    if let Err(trouble) = &answer
        && trouble::ends_connection(trouble)
    {
        link.give_up(connection.generation());
    }
    answer
}

/// Sends a verb together with others, where many are under way already. `None`: it has to go by itself,
/// because few are, or because somebody else is in its line.
pub(crate) async fn send_bundled(
    link: &Link,
    connection: &Arc<Connection>,
    wish: &Wish<'_>,
) -> bundle::Answer {
    if !connection.bundles.are_many_under_way() {
        return Ok(None);
    }
    let Some(this) = link.this() else { return Ok(None) };
    // Who opens a bundle, and who fills it, has the room in which it travels.
    let room = room(link, connection).await?;
    let (next, answered) = connection.bundles.gather(wish);
    let connection = connection.clone();
    match next {
        Next::Nothing => drop(room),
        Next::Send(bundle) => drop(link.home().spawn(carry(this, connection, room, bundle))),
        Next::SendSoon => drop(link.home().spawn(async move {
            tokio::task::yield_now().await;
            if let Some(bundle) = connection.bundles.take() {
                carry(this, connection, room, bundle).await;
            }
        })),
    }
    answered.await.unwrap_or_else(|_| Err(trouble::over()))
}

async fn carry(link: Arc<Link>, connection: Arc<Connection>, room: Room, bundle: Bundle) {
    let call = bundle.call(&link.server().scripts.bundle);
    let sent = send_in(&link, &connection, room, &call);
    let answer = timeout(link.server().settings.timeout, sent).await;
    bundle.answer(answer.unwrap_or_else(|_| Err(trouble::silence())));
}

async fn room(link: &Link, connection: &Connection) -> RedisResult<Room> {
    link.room(connection).await.map_err(|Ended| trouble::over())
}
