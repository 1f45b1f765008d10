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

/// A link with its open connection.
#[derive(Clone)]
pub(crate) struct OpenLink {
    pub(crate) link: Arc<MasterLink>,
    pub(crate) connection: Arc<MasterConnection>,
}

impl OpenLink {
    /// Sends a call, once there is room for it.
    pub(crate) async fn send(&self, call: &Cmd) -> RedisResult<Value> {
        let room = self.room().await?;
        self.send_in(room, call).await
    }

    pub(crate) async fn send_in(&self, room: Room, call: &Cmd) -> RedisResult<Value> {
        let mut pending = PendingCall::new(self, room);
        for _ in 0..LOADS_MAX {
            match self.ask(&mut pending, call).await {
                Err(trouble) if trouble::wants_scripts(&trouble) => self.load_scripts().await?,
                answer => return answer,
            }
        }
        self.ask(&mut pending, call).await
    }

    /// Loads the scripts, once for all callers that find them missing. The others wait for that,
    /// too, and the first caller may stop polling.
    async fn load_scripts(&self) -> RedisResult<()> {
        let commands = self.link.server().scripts.all().map(Script::load);
        let connection = self.connection.clone();
        let load = async move { connection.loads.run(connection.load(&commands)).await };
        // If the runtime has ended, the answer to the call says so.
        spawn_and_join(load).await.unwrap_or(Ok(()))
    }

    async fn ask(&self, pending: &mut PendingCall<'_>, call: &Cmd) -> RedisResult<Value> {
        pending.sent();
        let answer = self.connection.redis.clone().send_packed_command(call).await;
        pending.answered();
        // A refusal comes as an answer.
        let answer = answer.and_then(Value::extract_error);
        if answer.as_ref().is_err_and(trouble::ends_connection) {
            self.link.give_up(self.connection.generation());
        }
        answer
    }

    /// Gives up the connection, because the server answered nothing in time.
    pub(crate) fn give_up_silent(&self) {
        let reason = trouble::late(&self.link.server().settings);
        self.link.give_up_silent(self.connection.generation(), &reason);
    }

    /// Waits for room on the connection for one call.
    pub(crate) async fn room(&self) -> RedisResult<Room> {
        self.link.room(&self.connection).await.map_err(|Disconnected| trouble::over())
    }
}
