//! Calls that must not be carried out twice.
//!
//! The driver sends a call again by itself if its answer is lost, and does not report that to the
//! caller.

use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value, cmd};

/// Sends a call over a connection that resends nothing. Sends it again only if a server refused it
/// because its slot is moving.
pub(super) async fn send(mut connection: ClusterConnection, call: Cmd) -> RedisResult<Value> {
    match call.query_async(&mut connection).await {
        Err(trouble) if trouble.kind() == ErrorKind::Server(ServerErrorKind::Ask) => {
            let Some(to) = whither(&trouble) else { return Err(trouble) };
            let [_, answer] = in_one_piece(connection, [cmd("ASKING"), call], to).await?;
            answer.extract_error()
        }
        answer => answer,
    }
}

/// Sends two commands to one server over one connection, with nothing in between.
pub(super) async fn in_one_piece(
    mut connection: ClusterConnection,
    commands: [Cmd; 2],
    to: SingleNodeRoutingInfo,
) -> RedisResult<[Value; 2]> {
    let mut pipeline = Pipeline::with_capacity(2);
    for command in commands {
        pipeline.add_command(command);
    }
    let answers = connection.route_pipeline(pipeline, 0, 2, to).await?;
    let answers = <[Value; 2]>::try_from(answers);
    answers.map_err(|_| (ErrorKind::UnexpectedReturnType, "two answers were wanted").into())
}

/// Returns the new server of the slot in a refusal.
fn whither(refusal: &RedisError) -> Option<SingleNodeRoutingInfo> {
    let (host, port) = refusal.redirect_node()?.0.rsplit_once(':')?;
    Some(SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port: port.parse().ok()? })
}
