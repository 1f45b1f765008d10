//! Calls of scripts over a link. Loads the scripts into a server that lacks them.

use std::sync::Arc;

use redis::{Cmd, RedisResult, Value};
use tenure_kit::{Disconnected, Room};

use crate::link::{MasterConnection, MasterLink};
use crate::pending_call::PendingCall;
use crate::script::Script;
use crate::task::spawn_and_join;
use crate::trouble;

/// Maximum loads of the scripts for one call. A server may lose them between the load and the call,
/// once or twice. If it always does, the caller gets an error.
const LOADS_MAX: u32 = 3;

/// Sends a call, once there is room for it.
pub(crate) async fn send(
    link: &MasterLink,
    connection: &Arc<MasterConnection>,
    call: &Cmd,
) -> RedisResult<Value> {
    let room = room(link, connection).await?;
    send_in(link, connection, room, call).await
}

pub(crate) async fn send_in(
    link: &MasterLink,
    connection: &Arc<MasterConnection>,
    room: Room,
    call: &Cmd,
) -> RedisResult<Value> {
    let mut under_way = PendingCall::new(link, connection, room);
    for _ in 0..LOADS_MAX {
        match ask(link, connection, &mut under_way, call).await {
            Err(trouble) if trouble::wants_scripts(&trouble) => {
                load_scripts(link, connection).await?;
            }
            answer => return answer,
        }
    }
    ask(link, connection, &mut under_way, call).await
}

/// Loads the scripts, once for all callers that find them missing. The others wait for that, too,
/// and the first caller may stop polling.
async fn load_scripts(link: &MasterLink, connection: &Arc<MasterConnection>) -> RedisResult<()> {
    let commands = link.server().scripts.all().map(Script::load);
    let connection = connection.clone();
    let load = async move { connection.loads.run(connection.load(&commands)).await };
    // If the runtime has ended, the answer to the call says so.
    spawn_and_join(load).await.unwrap_or(Ok(()))
}

async fn ask(
    link: &MasterLink,
    connection: &Arc<MasterConnection>,
    under_way: &mut PendingCall<'_>,
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

/// Waits for room on the connection for one call.
pub(crate) async fn room(link: &MasterLink, connection: &MasterConnection) -> RedisResult<Room> {
    link.room(connection).await.map_err(|Disconnected| trouble::over())
}
