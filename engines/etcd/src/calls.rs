//! Requests and streams over one connection.

#![allow(unreachable_pub, reason = "the feature `wire` makes it public")]

use futures_util::Stream;
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// A member without a leader is to say so, and not to wait for one.
const HAS_LEADER: &str = "hasleader";

/// Who one is, as members know it.
pub type Token = MetadataValue<Ascii>;

/// An open connection, and who one is there.
#[derive(Clone)]
pub struct Wire {
    /// The connection.
    pub channel: Channel,
    /// Who one is, where members know users.
    pub token: Option<Token>,
}

/// One request, one answer.
pub async fn unary<Q, A>(wire: &Wire, path: &'static str, request: Q) -> Result<A, Status>
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let mut grpc = ready(wire).await?;
    let request = signed(wire, request);
    let path = PathAndQuery::from_static(path);
    Ok(grpc.unary(request, path, ProstCodec::<Q, A>::default()).await?.into_inner())
}

/// A stream of requests, and one of answers.
pub async fn stream<Q, A>(
    wire: &Wire,
    path: &'static str,
    requests: impl Stream<Item = Q> + Send + 'static,
) -> Result<Streaming<A>, Status>
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let mut grpc = ready(wire).await?;
    let request = signed(wire, requests);
    let path = PathAndQuery::from_static(path);
    Ok(grpc.streaming(request, path, ProstCodec::<Q, A>::default()).await?.into_inner())
}

async fn ready(wire: &Wire) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(wire.channel.clone());
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::unavailable(format!("the connection was lost: {error}")))?;
    Ok(grpc)
}

fn signed<T>(wire: &Wire, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert(HAS_LEADER, MetadataValue::from_static("true"));
    if let Some(token) = &wire.token {
        metadata.insert("token", token.clone());
    }
    request
}
