//! The counts of a proxy.

use std::collections::BTreeMap;

use super::direction::Direction;

/// The counts of a [`Proxy`](super::Proxy) since it started, or since
/// [`reset_counts`](super::Proxy::reset_counts).
///
/// Requests and pushes are counted when they arrive at the proxy, also if they do not pass; bytes
/// are counted when they pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted and not refused.
    pub connections: u64,
    /// Connections that have ended, in any way.
    pub ended: u64,
    /// Requests.
    pub requests: u64,
    /// Requests by their first word, in upper case, where the protocol has words.
    pub commands: BTreeMap<String, u64>,
    /// Messages of the server that are not replies, if the protocol has them.
    pub pushes: u64,
    /// Bytes that passed from clients to the server.
    pub bytes_to_server: u64,
    /// Bytes that passed from the server to clients.
    pub bytes_to_clients: u64,
}

impl Counts {
    /// The number of requests whose first word is this one, in upper case.
    pub fn of(&self, command: &str) -> u64 {
        self.commands.get(command).copied().unwrap_or(0)
    }

    pub(super) fn passed(&mut self, direction: Direction) -> &mut u64 {
        match direction {
            Direction::Requests => &mut self.bytes_to_server,
            Direction::Replies => &mut self.bytes_to_clients,
        }
    }
}
