//! The state that the threads of a proxy share, behind one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::act::RuleState;
use super::connection::{Connection, End};
use super::counts::Counts;
use super::direction::{Both, Direction};
use super::protocol::Protocol;
use super::queue::{Condition, Step};

/// Time limit of a connection of the proxy to itself.
const KNOCK_MAX: Duration = Duration::from_secs(10);

/// The state of a proxy, and its condition variable.
pub(super) struct Shared {
    pub(super) server: SocketAddr,
    state: Mutex<State>,
    /// Notified after each change that a test may wait for.
    changed: Condvar,
}

pub(super) struct State {
    pub(super) protocol: Protocol,
    pub(super) conditions: Both<Condition>,
    pub(super) refuses: bool,
    pub(super) ended: bool,
    pub(super) rules: Vec<RuleState>,
    pub(super) counts: Counts,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    /// The addresses of connections that the proxy made to itself.
    knocks: BTreeSet<SocketAddr>,
}

impl Shared {
    pub(super) fn to(server: SocketAddr) -> Self {
        let state = State {
            protocol: Protocol::Bytes,
            conditions: Both::default(),
            refuses: false,
            ended: false,
            rules: Vec::new(),
            counts: Counts::default(),
            connections: BTreeMap::new(),
            next: 0,
            knocks: BTreeSet::new(),
        };
        Self { server, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the threads that wait.
    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        for connection in state.connections.values() {
            connection.wake();
        }
        self.changed.notify_all();
    }

    /// Waits for a condition that a test can see.
    pub(super) fn wait_until(&self, patience: Duration, is: impl Fn(&State) -> bool) -> bool {
        let state = self.state();
        let not_yet = |state: &mut State| !state.ended && !is(state);
        let waited = self.changed.wait_timeout_while(state, patience, not_yet);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        is(&state)
    }

    /// Waits until the proxy knows every earlier connection.
    ///
    /// Connections are accepted in their order, so one more is enough. It is made under the lock:
    /// no thread can use it before it is known.
    pub(super) fn catch_up(&self, address: SocketAddr) {
        let mut state = self.state();
        let Ok(knock) = TcpStream::connect_timeout(&address, KNOCK_MAX) else { return };
        let Ok(from) = knock.local_addr() else { return };
        state.knocks.insert(from);
        let not_yet = |state: &mut State| state.knocks.contains(&from);
        let waited = self.changed.wait_timeout_while(state, KNOCK_MAX, not_yet);
        waited.unwrap_or_else(PoisonError::into_inner).0.knocks.remove(&from);
    }

    /// Admits an accepted connection. `None`: it is closed.
    pub(super) fn admit(&self, client: TcpStream, from: SocketAddr) -> Option<u64> {
        let mut state = self.state();
        if state.knocks.remove(&from) {
            self.changed.notify_all();
            return None;
        }
        if state.refuses || state.ended {
            return None;
        }
        let id = state.next;
        state.next += 1;
        let connection = Connection::from_client(client, state.protocol);
        state.connections.insert(id, connection);
        state.counts.connections += 1;
        self.changed.notify_all();
        Some(id)
    }

    /// Returns the client's end as soon as requests may pass. `None`: the connection has ended.
    pub(super) fn open(&self, id: u64) -> Option<Arc<TcpStream>> {
        let mut state = self.state();
        loop {
            let connection = state.connections.get(&id)?;
            if !state.conditions.requests.hole {
                return Some(connection.client.clone());
            }
            let changed = connection.queues.requests.changed.clone();
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds the server's end. Returns `false` if the connection has ended.
    pub(super) fn meet(&self, id: u64, server: &Arc<TcpStream>) -> bool {
        let mut state = self.state();
        let connection = state.connections.get_mut(&id);
        connection.map(|connection| connection.server = Some(server.clone())).is_some()
    }

    /// Takes the bytes of one side; none mean that it has ended. Returns when there is room for
    /// more; `false`: stop reading.
    pub(super) fn hear(&self, id: u64, direction: Direction, bytes: &[u8]) -> bool {
        let mut state = self.state();
        let State { connections, rules, counts, .. } = &mut *state;
        if let Some(connection) = connections.get_mut(&id) {
            connection.hear(direction, bytes, rules, counts);
        }
        self.changed.notify_all();
        loop {
            let Some(connection) = state.connections.get(&id) else { return false };
            let queue = connection.queues.of(direction);
            if !queue.is_full() {
                return !bytes.is_empty();
            }
            let changed = queue.changed.clone();
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the next bytes that may pass. `None`: the connection has ended.
    pub(super) fn next(&self, id: u64, direction: Direction) -> Option<Vec<u8>> {
        let mut state = self.state();
        loop {
            let State { connections, conditions, rules, counts, .. } = &mut *state;
            let queue = connections.get_mut(&id)?.queues.of_mut(direction);
            let changed = queue.changed.clone();
            let now = Instant::now();
            let until = match queue.step(*conditions.of(direction), rules, now) {
                Step::Send(piece) => {
                    *counts.passed(direction) += piece.len() as u64;
                    changed.notify_all();
                    self.changed.notify_all();
                    return Some(piece);
                }
                Step::End(rule) => {
                    state.end(id);
                    if let Some(rule) = rule {
                        state.rules[rule].hit = true;
                    }
                    self.changed.notify_all();
                    return None;
                }
                Step::Wait(until) => until,
            };
            state = match until {
                Some(until) => {
                    let waited = changed.wait_timeout(state, until - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Whether this connection is open.
    pub(super) fn carries(&self, id: u64) -> bool {
        self.state().connections.contains_key(&id)
    }

    pub(super) fn end(&self, id: u64) {
        self.state().end(id);
        self.changed.notify_all();
    }
}

impl State {
    /// Ends all connections.
    pub(super) fn end_all(&mut self, how: End) {
        while let Some((_, connection)) = self.connections.pop_first() {
            connection.end(how);
            self.counts.ended += 1;
        }
    }

    fn end(&mut self, id: u64) {
        if let Some(connection) = self.connections.remove(&id) {
            connection.end(End::Close);
            self.counts.ended += 1;
        }
    }
}
