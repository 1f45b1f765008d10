//! What a proxy has seen, in numbers.

use std::collections::BTreeMap;

use super::direction::Direction;

/// What a [`Proxy`](super::Proxy) has seen since it began, or since it was told to
/// [count anew](super::Proxy::reset_counts).
///
/// Requests and pushes are counted when they arrive at the proxy, whether they pass or not; bytes
/// when they pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted, and not refused.
    pub connections: u64,
    /// Connections that have ended, by whatever end.
    pub ended: u64,
    /// Requests.
    pub requests: u64,
    /// Requests by their first word, in upper case, where the protocol has words.
    pub commands: BTreeMap<String, u64>,
    /// What a server said that is not a reply, where the protocol tells.
    pub pushes: u64,
    /// Bytes that passed from clients to the server.
    pub bytes_to_server: u64,
    /// Bytes that passed from the server to clients.
    pub bytes_to_clients: u64,
}

impl Counts {
    /// How many requests began with this word, which is in upper case.
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
