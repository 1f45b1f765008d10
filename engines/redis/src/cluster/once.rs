//! Once: a connection to a cluster for calls that must not be carried out twice.
//!
//! Where an answer is lost, the driver sends the call again by itself, and the caller does not hear of it.

use std::io;
use std::sync::Arc;

use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value, cmd};
use tenure_kit::url::Address;
use tokio::sync::OnceCell;

use super::nodes;
use super::tries::Tries;
use crate::settings::Settings;
use crate::trouble;

/// The connection; made for the first call.
pub(super) struct Once {
    seeds: Vec<Address>,
    settings: Settings,
    tries: Tries,
    connection: OnceCell<ClusterConnection>,
}

impl Once {
    pub(super) fn new(seeds: &[Address], settings: &Settings, tries: &Tries) -> Self {
        let (tries, connection) = (tries.clone(), OnceCell::new());
        Self { seeds: seeds.to_vec(), settings: settings.clone(), tries, connection }
    }

    /// Sends a call, and sends it again only where a server refused it because its slot is on the move.
    pub(super) async fn call(self: &Arc<Self>, call: &Cmd) -> RedisResult<Value> {
        let connection = &self.connected().await?;
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
    async fn connected(self: &Arc<Self>) -> RedisResult<ClusterConnection> {
        if let Some(connection) = self.connection.get() {
            return Ok(connection.clone());
        }
        let once = self.clone();
        let made = tokio::spawn(async move {
            let connection = once.connection.get_or_try_init(|| once.connect()).await;
            connection.cloned()
        });
        made.await.unwrap_or_else(|_| Err(trouble::over()))
    }

    async fn connect(&self) -> RedisResult<ClusterConnection> {
        let Self { seeds, settings, tries, .. } = self;
        let client = nodes::client(seeds, settings, tries).map_err(io::Error::other)?;
        // The driver waits for every node, replicas too. One that stands still must leave time for the call.
        let connect_timeout = settings.connect_timeout.min(settings.timeout / 2);
        nodes::connect(client.retries(0).connection_timeout(connect_timeout)).await
    }
}

/// Sends two commands to one server over one connection, with nothing in between.
pub(super) async fn in_one_piece(
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

/// Where the slot moves to, as the refusal says.
fn whither(refusal: &RedisError) -> Option<SingleNodeRoutingInfo> {
    let (host, port) = refusal.redirect_node()?.0.rsplit_once(':')?;
    Some(SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port: port.parse().ok()? })
}
