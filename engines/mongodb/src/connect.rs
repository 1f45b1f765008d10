//! How the servers are spoken to: what of the driver's many options must be otherwise for locks.

use std::time::Duration;

use mongodb::Client;
use mongodb::options::ClientOptions;
use tenure_core::Result;

use crate::name::Name;
use crate::trouble;

/// How often each server is asked whether it is there: a server that stands still is noticed by this.
const HEARTBEAT: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(2);
/// Connections that are open before they are needed, and at most. Those who wait for a connection wait for the others' calls.
const POOL_MIN: u32 = 2;
const POOL_MAX: u32 = 64;
const CONNECTING_MAX: u32 = 4;

/// One part of so many of a call's time is left once nobody was found.
const SEARCH: u32 = 4;

/// A client with these options, which belongs to the runtime of whoever calls.
pub(crate) fn client(mut options: ClientOptions, timeout: Duration) -> Result<(Client, Name)> {
    options.app_name.get_or_insert_with(|| "tenure".to_owned());
    options.heartbeat_freq.get_or_insert(HEARTBEAT);
    options.connect_timeout.get_or_insert(CONNECT.min(timeout));
    // A little less than a call has, so that the driver has time to say why it found nobody.
    options.server_selection_timeout.get_or_insert(timeout * (SEARCH - 1) / SEARCH);
    let most = options.max_pool_size.filter(|most| *most > 0).unwrap_or(POOL_MAX);
    options.min_pool_size.get_or_insert(POOL_MIN.min(most));
    // A store has one change stream, which keeps one connection: commands always have all the others.
    options.max_pool_size = Some(most.saturating_add(1));
    options.max_connecting.get_or_insert(CONNECTING_MAX);
    let name = Name::of(&options);
    let client = Client::with_options(options);
    client.map(|client| (client, name.clone())).map_err(|error| trouble::error(&name, &error))
}
