//! The servers of a cluster: discovery, connections, and requests to one of them.

use std::time::Duration;

use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{
    MultipleNodeRoutingInfo, Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr,
};
use redis::{
    Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, TlsMode, Value, cmd,
};
use tenure_core::Result;
use tenure_kit::url::Address;

use super::connect_throttle::ConnectThrottle;
use crate::connect::{address, certificates, info};
use crate::facts::ServerFacts;
use crate::settings::Settings;

/// Opens a connection to all servers of a cluster.
pub(super) async fn connect(client: ClusterClientBuilder) -> RedisResult<ClusterConnection> {
    client.build()?.get_async_connection().await
}

/// Returns the driver's client for the cluster of these servers.
pub(super) fn client(
    seeds: &[Address],
    settings: &Settings,
    throttle: &ConnectThrottle,
    connect_timeout: Duration,
) -> Result<ClusterClientBuilder> {
    let node = |seed| info(address(seed, settings), settings);
    let nodes: Vec<_> = seeds.iter().map(node).collect::<Result<_>>()?;
    let mut builder = ClusterClientBuilder::new(nodes)
        .use_protocol(redis::ProtocolVersion::RESP3)
        .async_dns_resolver(throttle.clone())
        .connection_timeout(connect_timeout)
        .response_timeout(settings.timeout);
    if let Some(user) = &settings.login.user {
        builder = builder.username(user);
    }
    if let Some(password) = &settings.login.password {
        builder = builder.password(password.reveal());
    }
    if let Some(certificates) = certificates(settings)? {
        builder = builder.tls(TlsMode::Secure).certs(certificates);
    }
    Ok(builder)
}

/// Returns the addresses of all masters.
pub(super) async fn masters(mut connection: ClusterConnection) -> RedisResult<Vec<Address>> {
    let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
    let answers = connection.route_command(cmd("PING"), all).await?;
    let Value::Map(answers) = answers else { return Ok(Vec::new()) };
    let address =
        |(address, _): (Value, Value)| parse(&redis::from_redis_value::<String>(address).ok()?);
    Ok(answers.into_iter().filter_map(address).collect())
}

/// The server that gets a call.
#[derive(Clone)]
pub(super) enum Receiver {
    /// The master of this key, by the driver's map of the slots.
    MasterOf(Vec<u8>),
    /// A server to which the slot of the key is moving, which has named itself nowhere yet.
    Next(Address),
}

impl Receiver {
    /// Returns the server that gets a call for this key after a server refused it because its slot
    /// has moved, or is moving. `None` for another error.
    pub(super) fn after(refusal: &RedisError, key: &[u8]) -> Option<Self> {
        match refusal.kind() {
            // The driver updates its map before it sends the next call.
            ErrorKind::Server(ServerErrorKind::Moved) => Some(Self::MasterOf(key.to_vec())),
            ErrorKind::Server(ServerErrorKind::Ask) => {
                Some(Self::Next(parse(refusal.redirect_node()?.0)?))
            }
            _ => None,
        }
    }
}

/// Sends commands to one server over one connection, with nothing in between. Returns the answer to
/// each.
pub(super) async fn send(
    mut connection: ClusterConnection,
    commands: Vec<Cmd>,
    receiver: Receiver,
) -> RedisResult<Vec<Value>> {
    let (asking, to) = match receiver {
        Receiver::MasterOf(key) => {
            (0, SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master)))
        }
        Receiver::Next(Address { name: host, port }) => {
            (1, SingleNodeRoutingInfo::ByAddress { host, port })
        }
    };
    let count = commands.len();
    let mut pipeline = Pipeline::with_capacity(asking + count);
    if asking > 0 {
        pipeline.add_command(cmd("ASKING"));
    }
    for command in commands {
        pipeline.add_command(command);
    }
    let answers = connection.route_pipeline(pipeline, asking, count, to).await?;
    answers.into_iter().map(Value::extract_error).collect()
}

/// Sends a command to this one server.
pub(super) async fn ask(
    mut connection: ClusterConnection,
    master: &Address,
    command: &Cmd,
) -> RedisResult<Value> {
    let (host, port) = (master.name.clone(), master.port);
    let one = RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress { host, port });
    connection.route_command(command.clone(), one).await?.extract_error()
}

/// Returns the facts of all masters, taken together.
pub(super) async fn facts_of_all(connection: &ClusterConnection) -> ServerFacts {
    let (info, config) = ServerFacts::questions();
    let mut all = Vec::new();
    // A user without the right to ask gets the worst facts.
    for master in masters(connection.clone()).await.unwrap_or_default() {
        let info = ask(connection.clone(), &master, &info).await;
        let config = ask(connection.clone(), &master, &config).await;
        all.push(ServerFacts::of(info, config));
    }
    ServerFacts::worst(all)
}

/// Reads an address as servers write it.
fn parse(address: &str) -> Option<Address> {
    let (name, port) = address.rsplit_once(':')?;
    Some(Address { name: name.to_owned(), port: port.parse().ok()? })
}
