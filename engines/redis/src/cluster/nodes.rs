//! The servers of a cluster: discovery, connections, and requests to one of them.

use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, RedisResult, TlsMode, Value, cmd};
use tenure_core::Result;
use tenure_kit::url::Address;

use super::connect_throttle::ConnectThrottle;
use crate::connect::{address, certificates, info};
use crate::facts::Facts;
use crate::settings::Settings;

/// Opens a connection to all servers of a cluster.
pub(super) async fn connect(client: ClusterClientBuilder) -> RedisResult<ClusterConnection> {
    client.build()?.get_async_connection().await
}

/// Returns the driver's client for the cluster of these servers.
pub(super) fn client(
    seeds: &[Address],
    settings: &Settings,
    tries: &ConnectThrottle,
) -> Result<ClusterClientBuilder> {
    let node = |seed| info(address(seed, settings), settings);
    let nodes: Vec<_> = seeds.iter().map(node).collect::<Result<_>>()?;
    let mut builder = ClusterClientBuilder::new(nodes)
        .use_protocol(redis::ProtocolVersion::RESP3)
        .async_dns_resolver(tries.clone())
        .connection_timeout(settings.connect_timeout)
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
    let address = |(address, _): (Value, Value)| {
        let address: String = redis::from_redis_value(address).ok()?;
        let (name, port) = address.rsplit_once(':')?;
        Some(Address { name: name.to_owned(), port: port.parse().ok()? })
    };
    Ok(answers.into_iter().filter_map(address).collect())
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
pub(super) async fn facts_of_all(connection: &ClusterConnection) -> Facts {
    let (info, config) = Facts::questions();
    let mut all = Vec::new();
    // A user without the right to ask gets the worst facts.
    for master in masters(connection.clone()).await.unwrap_or_default() {
        let info = ask(connection.clone(), &master, &info).await;
        let config = ask(connection.clone(), &master, &config).await;
        all.push(Facts::of(info, config));
    }
    Facts::worst(all)
}
