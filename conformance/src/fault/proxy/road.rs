//! All that the threads of a proxy share: its connections, its rules, its counts, and one lock over them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::lane::{Condition, Lane, Step};
use super::protocol::{Conversation, Role};
use super::rule::{Deed, OnReply, RuleState, Verdict, judge};
use super::{Both, Counts, Protocol, Way};

/// How long a proxy waits for a connection to itself.
const KNOCK_MAX: Duration = Duration::from_secs(10);

/// The road between all clients and the server.
pub(super) struct Road {
    pub(super) server: SocketAddr,
    state: Mutex<State>,
    /// Something has happened that a test may wait for.
    told: Condvar,
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
    /// The far ends of connections that the proxy made to itself.
    knocks: BTreeSet<SocketAddr>,
}

struct Connection {
    client: Arc<TcpStream>,
    server: Option<Arc<TcpStream>>,
    lanes: Both<Lane>,
    conversation: Conversation,
}

impl Road {
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
        Self { server, state: Mutex::new(state), told: Condvar::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something that may let go what waits.
    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        for connection in state.connections.values() {
            connection.wake();
        }
        self.told.notify_all();
    }

    /// Waits for something that a test can see.
    pub(super) fn wait_until(&self, patience: Duration, is: impl Fn(&State) -> bool) -> bool {
        let state = self.state();
        let not_yet = |state: &mut State| !state.ended && !is(state);
        let waited = self.told.wait_timeout_while(state, patience, not_yet);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        is(&state)
    }

    /// Waits until every connection is known that was made before.
    ///
    /// They are accepted in their order, so that it is enough to make one more. It is made under
    /// the lock: nobody can meet it before it is known for what it is.
    pub(super) fn catch_up(&self, address: SocketAddr) {
        let mut state = self.state();
        let Ok(knock) = TcpStream::connect_timeout(&address, KNOCK_MAX) else { return };
        let Ok(from) = knock.local_addr() else { return };
        state.knocks.insert(from);
        let not_yet = |state: &mut State| state.knocks.contains(&from);
        let waited = self.told.wait_timeout_while(state, KNOCK_MAX, not_yet);
        waited.unwrap_or_else(PoisonError::into_inner).0.knocks.remove(&from);
    }

    /// A connection was accepted. `None`: it goes no further.
    pub(super) fn admit(&self, client: TcpStream, from: SocketAddr) -> Option<u64> {
        let mut state = self.state();
        if state.knocks.remove(&from) {
            self.told.notify_all();
            return None;
        }
        if state.refuses || state.ended {
            return None;
        }
        let id = state.next;
        state.next += 1;
        let conversation = Conversation::new(state.protocol);
        let (client, lanes) = (Arc::new(client), Both::default());
        state.connections.insert(id, Connection { client, server: None, lanes, conversation });
        state.counts.connections += 1;
        self.told.notify_all();
        Some(id)
    }

    /// The client's end, as soon as the way to the server is open. `None`: it has ended.
    pub(super) fn open(&self, id: u64) -> Option<Arc<TcpStream>> {
        let mut state = self.state();
        loop {
            let connection = state.connections.get(&id)?;
            if !state.conditions.requests.hole {
                return Some(connection.client.clone());
            }
            let changed = connection.lanes.requests.changed.clone();
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The server's end is there. `false`: it comes too late.
    pub(super) fn meet(&self, id: u64, server: &Arc<TcpStream>) -> bool {
        let mut state = self.state();
        let connection = state.connections.get_mut(&id);
        connection.map(|connection| connection.server = Some(server.clone())).is_some()
    }

    /// One side has said something, or has ended with an empty word. Comes back when there is room
    /// for more; `false`: nothing more is to be read.
    pub(super) fn hear(&self, id: u64, way: Way, bytes: &[u8]) -> bool {
        let mut state = self.state();
        state.hear(id, way, bytes);
        self.told.notify_all();
        loop {
            let Some(connection) = state.connections.get(&id) else { return false };
            let lane = connection.lanes.of(way);
            if !lane.is_full() {
                return !bytes.is_empty();
            }
            let changed = lane.changed.clone();
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the next bytes that may pass. `None`: the connection has ended.
    pub(super) fn next(&self, id: u64, way: Way) -> Option<Vec<u8>> {
        let mut state = self.state();
        loop {
            let State { connections, conditions, rules, counts, .. } = &mut *state;
            let lane = connections.get_mut(&id)?.lanes.of_mut(way);
            let changed = lane.changed.clone();
            let now = Instant::now();
            let until = match lane.step(*conditions.of(way), rules, now) {
                Step::Send(piece) => {
                    *counts.passed(way) += piece.len() as u64;
                    changed.notify_all();
                    self.told.notify_all();
                    return Some(piece);
                }
                Step::End(rule) => {
                    state.end(id);
                    if let Some(rule) = rule {
                        state.rules[rule].hit = true;
                    }
                    self.told.notify_all();
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

    /// Whether this connection has not ended.
    pub(super) fn carries(&self, id: u64) -> bool {
        self.state().connections.contains_key(&id)
    }

    pub(super) fn end(&self, id: u64) {
        self.state().end(id);
        self.told.notify_all();
    }
}

impl State {
    pub(super) fn end_all(&mut self) {
        while let Some((&id, _)) = self.connections.first_key_value() {
            self.end(id);
        }
    }

    /// Ends all of them with a reset, which the last of their threads sends when it lets go.
    pub(super) fn reset_all(&mut self) {
        while let Some((&id, _)) = self.connections.first_key_value() {
            self.end_by(id, |end| {
                let how = if linger_not(end) { Shutdown::Read } else { Shutdown::Both };
                end.shutdown(how)
            });
        }
    }

    /// Closes both ends. What waits on the way is lost.
    fn end(&mut self, id: u64) {
        self.end_by(id, |end| end.shutdown(Shutdown::Both));
    }

    fn end_by(&mut self, id: u64, close: impl Fn(&TcpStream) -> io::Result<()>) {
        let Some(connection) = self.connections.remove(&id) else { return };
        for end in [Some(&connection.client), connection.server.as_ref()].into_iter().flatten() {
            // It may be closed already, which is as good.
            let _closed = close(end);
        }
        connection.wake();
        self.counts.ended += 1;
    }

    fn hear(&mut self, id: u64, way: Way, bytes: &[u8]) {
        let Self { connections, rules, counts, .. } = self;
        let Some(connection) = connections.get_mut(&id) else { return };
        match way {
            Way::Requests => connection.hear_requests(bytes, rules, counts),
            Way::Replies => connection.hear_replies(bytes, rules, counts),
        }
        let ended = bytes.is_empty();
        for of in [Way::Requests, Way::Replies] {
            let rest = connection.conversation.rest(of, ended && of == way);
            let lane = connection.lanes.of_mut(of);
            if let Some(rest) = rest.filter(|_| !lane.shut) {
                lane.push(rest);
            }
        }
        if ended {
            connection.lanes.of_mut(way).push_end(None);
        }
        connection.wake();
    }
}

impl Connection {
    fn wake(&self) {
        self.lanes.requests.changed.notify_all();
        self.lanes.replies.changed.notify_all();
    }

    fn hear_requests(&mut self, bytes: &[u8], rules: &mut [RuleState], counts: &mut Counts) {
        let lane = &mut self.lanes.requests;
        for mut request in self.conversation.requests(bytes) {
            if lane.shut {
                return;
            }
            counts.requests += 1;
            if let Some(command) = request.command.take() {
                *counts.commands.entry(command).or_default() += 1;
            }
            match judge(rules, &request.bytes) {
                Verdict::Cut { rule } => {
                    lane.shut = true;
                    lane.push_end(Some(rule));
                }
                Verdict::Pass(deed) => {
                    lane.shut = matches!(deed, Some(Deed { act: OnReply::Cut, .. }));
                    self.conversation.asked(&mut request, deed);
                    lane.push(request.bytes);
                }
            }
        }
    }

    fn hear_replies(&mut self, bytes: &[u8], rules: &mut [RuleState], counts: &mut Counts) {
        let lane = &mut self.lanes.replies;
        for (bytes, role) in self.conversation.replies(bytes) {
            if lane.shut {
                return;
            }
            counts.pushes += u64::from(matches!(role, Role::Push));
            let Role::Reply(Some(Deed { rule, act })) = role else {
                lane.push(bytes);
                continue;
            };
            match act {
                OnReply::Cut => {
                    lane.shut = true;
                    lane.push_end(Some(rule));
                    continue;
                }
                OnReply::Hold => lane.push_held(bytes, Duration::ZERO, Some(rule)),
                OnReply::Delay(by) => lane.push_held(bytes, by, None),
            }
            rules[rule].hit = true;
        }
    }
}

/// A close is a reset from now on; `false`: it cannot be.
#[cfg(unix)]
fn linger_not(end: &TcpStream) -> bool {
    rustix::net::sockopt::set_socket_linger(end, Some(Duration::ZERO)).is_ok()
}

#[cfg(not(unix))]
fn linger_not(_: &TcpStream) -> bool {
    false
}
