//! The nodes of the map, and their changes. Time is an argument.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use tenure_core::{Key, Time};
use tenure_queue::{
    ChangesAt, Front, LineId, Node, NodeChange, Register, RegisterValue, SessionId, TextValue,
    TicketName, Why,
};
use tokio::sync::mpsc::Sender;

use super::ENDED;

/// Every change moves the clock of the store on by one.
#[derive(Default)]
pub(crate) struct Nodes {
    at: u64,
    by_number: BTreeMap<u64, Node>,
    sessions: BTreeMap<SessionId, (Duration, Time)>,
    registers: HashMap<Register, RegisterValue>,
    texts: HashMap<Register, TextValue>,
    fenced_out: HashSet<TicketName>,
    told: Vec<Sender<ChangesAt>>,
}

impl Nodes {
    /// Count of subscriptions.
    #[allow(dead_code, reason = "of the programs that have this store, one has onlookers")]
    pub(crate) fn followers(&self) -> usize {
        self.told.iter().filter(|told| !told.is_closed()).count()
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn open(&mut self, ttl: Duration, now: Time) -> SessionId {
        self.at += 1;
        self.sessions.insert(self.at, (ttl, now.plus(ttl)));
        self.at
    }

    pub(crate) fn keep(&mut self, session: SessionId, now: Time) -> Option<Duration> {
        let (ttl, ends) = self.sessions.get_mut(&session)?;
        *ends = now.plus(*ttl);
        Some(*ttl)
    }

    pub(crate) fn life(&self, session: SessionId, now: Time) -> Option<Duration> {
        self.sessions.get(&session).map(|(_, ends)| now.until(*ends))
    }

    pub(crate) fn lives(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    pub(crate) fn end(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        let gone: Vec<TicketName> = self
            .by_number
            .values()
            .filter(|node| node.session == session)
            .map(|node| node.name.clone())
            .collect();
        self.at += 1;
        let changes: Vec<_> = gone.iter().map(|name| self.take_out(name, ENDED)).collect();
        self.send(&changes);
    }

    pub(crate) fn expire(&mut self, now: Time) {
        let over = |(_, (_, ends)): &(&SessionId, &(Duration, Time))| now.has_reached(*ends);
        let gone: Vec<SessionId> = self.sessions.iter().filter(over).map(|(id, _)| *id).collect();
        for session in gone {
            self.end(session);
        }
    }

    /// Returns the time until a session may end.
    pub(crate) fn next_end(&self, now: Time) -> Duration {
        let next = self.sessions.values().map(|(_, ends)| now.until(*ends)).min();
        next.unwrap_or(Duration::from_secs(3600))
    }

    pub(crate) fn get(&self, name: &TicketName) -> Option<Node> {
        self.by_number.values().find(|node| node.name == *name).cloned()
    }

    pub(crate) fn front(&self, line: &LineId, most: usize) -> Front {
        let line: Vec<Node> =
            self.by_number.values().filter(|node| node.name.line == *line).cloned().collect();
        let total = line.len();
        let nodes = line.into_iter().take(most).collect();
        Front { nodes, total, at: self.at, ..Front::default() }
    }

    pub(crate) fn make(&mut self, name: &TicketName, session: SessionId, body: &[u8]) -> Node {
        self.at += 1;
        let node =
            Node::read(name.clone(), session, self.at, self.at, body).expect("it is a ticket");
        self.by_number.insert(self.at, node.clone());
        self.send(&[NodeChange::Is(node.clone())]);
        node
    }

    pub(crate) fn change(&mut self, known: &Node, body: &[u8]) -> Option<Node> {
        let now = self.get(&known.name).filter(|now| now.version == known.version)?;
        self.at += 1;
        let node = Node::read(now.name, now.session, now.created, self.at, body)?;
        self.by_number.insert(node.created, node.clone());
        self.send(&[NodeChange::Is(node.clone())]);
        Some(node)
    }

    pub(crate) fn remove(&mut self, name: &TicketName, why: Why) {
        self.at += 1;
        let change = self.take_out(name, why);
        self.send(&[change]);
    }

    pub(crate) fn is_fenced_out(&self, name: &TicketName) -> bool {
        self.fenced_out.contains(name)
    }

    pub(crate) fn fence_out(&mut self, name: &TicketName) -> Option<Node> {
        let node = self.get(name);
        if node.is_none() {
            self.fenced_out.insert(name.clone());
        }
        node
    }

    pub(crate) fn keys(&self, prefix: &str) -> Vec<Key> {
        let all = self.by_number.values().map(|node| node.ticket.key.clone());
        let mut keys: Vec<Key> = all.filter(|key| key.as_str().starts_with(prefix)).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    pub(crate) fn read(&self, register: &Register) -> RegisterValue {
        self.registers.get(register).copied().unwrap_or_default()
    }

    pub(crate) fn write(
        &mut self,
        register: &Register,
        value: u64,
        version: u64,
    ) -> (RegisterValue, bool) {
        let now = self.read(register);
        if now.version != version {
            return (now, false);
        }
        self.at += 1;
        let written = RegisterValue { value, version: self.at };
        self.registers.insert(register.clone(), written);
        (written, true)
    }

    pub(crate) fn read_text(&self, register: &Register) -> TextValue {
        self.texts.get(register).cloned().unwrap_or_default()
    }

    pub(crate) fn write_text(
        &mut self,
        register: &Register,
        text: &str,
        version: u64,
    ) -> (TextValue, bool) {
        let now = self.read_text(register);
        if now.version != version {
            return (now, false);
        }
        self.at += 1;
        let written = TextValue { text: text.to_owned(), version: self.at };
        self.texts.insert(register.clone(), written.clone());
        (written, true)
    }

    pub(crate) fn all(&self) -> Vec<Node> {
        self.by_number.values().cloned().collect()
    }

    pub(crate) fn tell(&mut self, sender: Sender<ChangesAt>) {
        self.told.push(sender);
    }

    fn take_out(&mut self, name: &TicketName, why: Why) -> NodeChange {
        self.by_number.retain(|_, node| node.name != *name);
        NodeChange::Gone(name.line.clone(), name.id, why)
    }

    /// A subscriber that does not keep up is dropped.
    fn send(&mut self, changes: &[NodeChange]) {
        let at = self.at;
        self.told.retain(|told| told.try_send((at, changes.to_vec())).is_ok());
    }
}
