//! The driver's client: options whose defaults do not suit locks.

use std::time::Duration;

use mongodb::Client;
use mongodb::options::ClientOptions;
use tenure_core::Result;

use crate::server_label::ServerLabel;
use crate::trouble;

/// Heartbeat interval of the driver, which notices a frozen server.
const HEARTBEAT: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(2);
/// Minimum and maximum connections of the pool. A call without a connection waits for another call
/// to end.
const POOL_MIN: u32 = 2;
const POOL_MAX: u32 = 64;
const CONNECTING_MAX: u32 = 4;

/// One part of this many of a call's time is left after no server was found.
const SEARCH: u32 = 4;

/// Returns a client with these options, which the calling runtime drives.
pub(crate) fn client(
    mut options: ClientOptions,
    timeout: Duration,
) -> Result<(Client, ServerLabel)> {
    options.app_name.get_or_insert_with(|| "tenure".to_owned());
    options.heartbeat_freq.get_or_insert(HEARTBEAT);
    options.connect_timeout.get_or_insert(CONNECT.min(timeout));
    // Less than a call has, so that the driver has time to report why it found no server.
    options.server_selection_timeout.get_or_insert(timeout * (SEARCH - 1) / SEARCH);
    let most = options.max_pool_size.filter(|most| *most > 0).unwrap_or(POOL_MAX);
    options.min_pool_size.get_or_insert(POOL_MIN.min(most));
    // A store has one change stream, which keeps one connection: commands always have all the
    // others.
    options.max_pool_size = Some(most.saturating_add(1));
    options.max_connecting.get_or_insert(CONNECTING_MAX);
    let servers = ServerLabel::of(&options);
    let client = Client::with_options(options);
    client.map(|client| (client, servers.clone())).map_err(|error| trouble::error(&servers, &error))
}
