//! Once: a connection to a cluster for calls that must not be carried out twice.
//!
//! Where an answer is lost, the driver sends the call again by itself, and the caller does not hear of it.

use std::io;
use std::sync::Arc;

use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value, cmd};
use tokio::sync::OnceCell;

use crate::calls;
use crate::cluster;
use crate::settings::Settings;

/// The connection; made for the first call.
#[derive(Default)]
pub(crate) struct Once(OnceCell<ClusterConnection>);

impl Once {
    /// Sends a call, and sends it again only where a server refused it because its slot is on the move.
    pub(crate) async fn call(
        self: &Arc<Self>,
        settings: &Arc<Settings>,
        call: &Cmd,
    ) -> RedisResult<Value> {
        let connection = &self.connected(settings).await?;
        match call.query_async(&mut connection.clone()).await {
            Err(trouble) if trouble.kind() == ErrorKind::Server(ServerErrorKind::Ask) => {
                let Some(to) = whither(&trouble) else { return Err(trouble) };
                let both = [cmd("ASKING"), call.clone()];
                let [_, answer] = in_one_piece(connection, both, to).await?;
                answer.extract_error()
            }
            answer => answer,
        }
    }

    /// The connection. It is made in a task of its own, so that a call whose time is over does not end it, and the
    /// next call finds it.
    async fn connected(
        self: &Arc<Self>,
        settings: &Arc<Settings>,
    ) -> RedisResult<ClusterConnection> {
        if let Some(connection) = self.0.get() {
            return Ok(connection.clone());
        }
        let (once, settings) = (self.clone(), settings.clone());
        let made =
            tokio::spawn(
                async move { once.0.get_or_try_init(|| connect(&settings)).await.cloned() },
            );
        made.await.unwrap_or_else(|_| Err(calls::over()))
    }
}

/// Sends two commands to one server over one connection, with nothing in between.
pub(crate) async fn in_one_piece(
    connection: &ClusterConnection,
    commands: [Cmd; 2],
    to: SingleNodeRoutingInfo,
) -> RedisResult<[Value; 2]> {
    let mut pipeline = Pipeline::with_capacity(2);
    for command in commands {
        pipeline.add_command(command);
    }
    let answers = connection.clone().route_pipeline(pipeline, 0, 2, to).await?;
    let answers = <[Value; 2]>::try_from(answers);
    answers.map_err(|_| (ErrorKind::UnexpectedReturnType, "two answers were wanted").into())
}

async fn connect(settings: &Settings) -> RedisResult<ClusterConnection> {
    let client = cluster::client(settings).map_err(io::Error::other)?;
    // The driver waits for every node, replicas too. One that stands still must leave time for the call.
    let connect_timeout = settings.connect_timeout.min(settings.timeout / 2);
    cluster::connect(client.retries(0).connection_timeout(connect_timeout)).await
}

/// Where the slot moves to, as the refusal says.
fn whither(refusal: &RedisError) -> Option<SingleNodeRoutingInfo> {
    let (host, port) = refusal.redirect_node()?.0.rsplit_once(':')?;
    Some(SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port: port.parse().ok()? })
}
