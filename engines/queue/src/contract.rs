//! The contract of a store, so that lines can be kept in it.

use std::time::Duration;

use tenure_core::{BoxFuture, Error, Guarantees, Key, Result, TicketId};
use tokio::sync::mpsc;

use crate::node::{LineId, Node, TicketName};
use crate::position::Position;

/// A store with sessions and an order of its own that only grows: revisions, transactions.
///
/// 1. A new node gets a number above the numbers of all earlier nodes, in all lines: see
///    [`Node::created`]. A change of the node moves its [version](Node::version), which is above
///    all earlier numbers and versions.
/// 2. Every answer is the store's single truth at one moment, never a stale copy.
/// 3. A node is removed with its session. Without a sign of life for its ttl a session ends, and
///    never sooner.
/// 4. An error of the kind [`Unavailable`](tenure_core::ErrorKind::Unavailable) means that the
///    outcome is unknown. Any other means that nothing was changed, or that the store has undone
///    it. [`Loss::SessionGone`](tenure_core::Loss::SessionGone) means that a session is over.
/// 5. Dropping a future leaves the outcome unknown. No verb here has a time limit: the caller has
///    one.
pub trait SessionStore: Send + Sync + 'static {
    /// Returns what the store promises by itself.
    fn profile(&self) -> Guarantees;

    /// Returns the error for a store that does not answer in time.
    fn silence(&self) -> Error;

    /// Returns the place of a line's tickets as the end of a sentence, so that an operator finds
    /// them.
    fn place_of_line(&self, line: &LineId) -> String;

    /// Returns the place of a register as the end of a sentence.
    fn place_of_register(&self, register: &Register) -> String;

    /// Opens a session that lives for about `ttl` without a sign of life. The store may raise or
    /// round it.
    fn open(&self, ttl: Duration) -> impl Future<Output = Result<Granted>> + Send;

    /// Sends a sign of life. Returns the remaining life of the session, counted from when the store
    /// received it; `None` if the session is over. The caller waits no longer than `within`. A
    /// store with several servers leaves a silent one by then.
    fn keep(
        &self,
        session: SessionId,
        within: Duration,
    ) -> impl Future<Output = Result<Option<Duration>>> + Send;

    /// Ends a session, and removes its nodes.
    fn end(&self, session: SessionId) -> impl Future<Output = Result<()>> + Send;

    /// Returns how long each of these sessions, of any client, lives on without a sign of life.
    /// `None` if the store does not answer or cannot report it.
    fn lives(&self, sessions: &[SessionId]) -> impl Future<Output = Vec<Option<Duration>>> + Send;

    /// Makes a node at the back of its line, unless its precondition fails.
    fn enter(&self, enter: &Enter<'_>) -> impl Future<Output = Result<Entered>> + Send;

    /// Returns the first `most` nodes of a line.
    fn front(&self, line: &LineId, most: usize) -> impl Future<Output = Result<Front>> + Send;

    /// Returns a node and its place in its line; `None` if it is out.
    fn position(
        &self,
        sought: Sought<'_>,
    ) -> impl Future<Output = Result<Option<(Node, Position)>>> + Send;

    /// Reads these nodes. Returns them in this order, each as it was at a moment after the call,
    /// and the first of these moments.
    fn look(
        &self,
        sought: &[Sought<'_>],
    ) -> impl Future<Output = Result<(Vec<Option<Node>>, u64)>> + Send;

    /// Changes the body of a node. Returns the new node; `None` if the node is no longer as it is
    /// known.
    fn change(&self, node: &Node, body: &[u8])
    -> impl Future<Output = Result<Option<Node>>> + Send;

    /// Removes a node.
    fn remove(&self, remove: &Remove<'_>) -> impl Future<Output = Result<Removed>> + Send;

    /// Ensures that an entry with this session which was not answered never comes in. Returns the
    /// node if it came in already.
    fn fence_out(
        &self,
        name: &TicketName,
        session: SessionId,
    ) -> impl Future<Output = Result<Option<Node>>> + Send;

    /// Returns the orphans of one of this client's sessions: nodes with tickets that this client
    /// does not know. They exist in a store whose requests may be delivered twice: the second
    /// delivery makes a removed node again.
    fn orphans(&self, session: SessionId) -> impl Future<Output = Result<Vec<Node>>> + Send;

    /// Forgets a ticket: its node is out, never came in, or goes with its session.
    fn forget(&self, ticket: TicketId);

    /// Watches nodes until one of them changes or is removed.
    fn watch(&self, nodes: &[Node]) -> impl Future<Output = Result<OpenWatch>> + Send;

    /// Returns the keys that begin with `prefix` and have a node, in order.
    fn keys(&self, prefix: &str) -> impl Future<Output = Result<Vec<Key>>> + Send;

    /// Reads a register.
    fn read(&self, register: &Register) -> impl Future<Output = Result<RegisterValue>> + Send;

    /// Writes a value if the register still has this version. Returns the register as it is now,
    /// and whether the value was written.
    fn write(
        &self,
        register: &Register,
        value: u64,
        version: u64,
    ) -> impl Future<Output = Result<(RegisterValue, bool)>> + Send;

    /// Reads the text of a register.
    fn read_text(&self, register: &Register) -> impl Future<Output = Result<TextValue>> + Send;

    /// Writes a text if the register still has this version. Returns the text as it is now, and
    /// whether it was written.
    fn write_text(
        &self,
        register: &Register,
        text: &str,
        version: u64,
    ) -> impl Future<Output = Result<(TextValue, bool)>> + Send;

    /// Subscribes to all changes of all nodes from now on; `None` if the store cannot report them.
    /// It may take long, because it lists all nodes first. Each of its requests has a time limit of
    /// its own.
    fn follow(&self) -> impl Future<Output = Result<Option<Followed>>> + Send;

    /// Returns a moment that is not before the end of any request that was answered already.
    fn now(&self) -> impl Future<Output = Result<u64>> + Send;
}

/// A node to read.
#[derive(Clone, Copy, Debug)]
pub enum Sought<'a> {
    /// This client's own node, read before or not.
    Own(&'a TicketName),
    /// A node that was read before.
    Seen(&'a Node),
}

impl<'a> Sought<'a> {
    /// Returns the node's name.
    pub fn name(self) -> &'a TicketName {
        match self {
            Self::Own(name) => name,
            Self::Seen(node) => &node.name,
        }
    }
}

/// The number of a session.
pub type SessionId = u64;

/// A session that was opened.
#[derive(Clone, Copy, Debug)]
pub struct Granted {
    /// Its number.
    pub session: SessionId,
    /// How long it lives without a sign of life, from when the store made it.
    pub ttl: Duration,
    /// Interval of signs of life, short enough that the store may be silent for a while.
    pub every: Duration,
}

/// An entry: a node to make, and its conditions.
#[derive(Clone, Copy, Debug)]
pub struct Enter<'a> {
    /// The name of the node.
    pub name: &'a TicketName,
    /// Its body.
    pub body: &'a [u8],
    /// The session that keeps it alive.
    pub session: SessionId,
    /// The tickets that may be in the line already.
    pub precondition: Precondition,
    /// The version of the line's [base](Register::Base) in the body. With another version no node
    /// is made.
    pub base_version: u64,
}

/// Which tickets may be in the line when a node is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Any tickets of the same capacity.
    SameCapacity,
    /// No ticket.
    EmptyLine,
}

/// The outcome of an [`Enter`].
#[derive(Debug)]
pub enum Entered {
    /// The node was made.
    In {
        /// The node.
        node: Node,
        /// Its place, when it was made or later.
        position: Position,
        /// Count of all nodes of the line.
        total: usize,
    },
    /// The node existed.
    Existing(Node),
    /// The precondition failed, and nothing was changed.
    Out {
        /// The moment of that.
        at: u64,
        /// The sum of the takes of the line's nodes, or a lower bound of it.
        taken: u64,
        /// Another capacity that a node of the line has.
        other_capacity: Option<u32>,
        /// The line's base.
        base: RegisterValue,
    },
    /// Nothing was changed, for a reason that has passed. The caller retries, unless the ticket was
    /// given up meanwhile.
    Again,
}

/// The first nodes of a line at one moment.
#[derive(Clone, Debug, Default)]
pub struct Front {
    /// In the order in which they were made.
    pub nodes: Vec<Node>,
    /// Count of all nodes of the line.
    pub total: usize,
    /// The moment.
    pub at: u64,
    /// The number of the first node among them with an unreadable ticket. Callers that ask for a
    /// whole line need it. If that ticket keeps another one out, the store refuses by itself.
    pub unreadable: Option<u64>,
}

/// A node to remove, and the conditions.
#[derive(Clone, Copy, Debug)]
pub struct Remove<'a> {
    /// The node that was made with this number, in any later version.
    pub node: &'a Node,
    /// Remove it only if these nodes are unchanged.
    pub provided: &'a [Node],
    /// The event for onlookers: it left, or it was broken.
    pub why: Why,
    /// Return the front of the line without it, up to this count.
    pub front: Option<usize>,
}

impl<'a> Remove<'a> {
    /// Removes this node without conditions, and asks for nothing else.
    pub fn just(node: &'a Node) -> Self {
        Self { node, provided: &[], why: Why::Left, front: None }
    }
}

/// The outcome of a [`Remove`].
#[derive(Clone, Debug)]
pub struct Removed {
    /// It existed, and is removed.
    pub gone: bool,
    /// The front of the line behind it, if the caller asked for it and the node is gone.
    pub front: Option<Front>,
}

/// A watch of nodes.
pub struct OpenWatch {
    /// The watch reports changes after this moment.
    pub at: u64,
    /// Ready once one of them may have changed.
    pub changed: BoxFuture<Hint>,
}

/// A report of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// One of the nodes may have changed: read them.
    Changed,
    /// Of two watched nodes, the second was removed at this moment, and the first one was still
    /// there, unchanged. The moment is 0 if the store cannot report it.
    ///
    /// A store reports this if it pushes changes in their order, and has pushed none of the first
    /// node.
    Released(u64),
}

/// A number or a text that a store keeps beside a line for good.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Register {
    /// The base: it is added to the numbers of nodes.
    Base(LineId),
    /// The last number of a sequence.
    Sequence(LineId),
    /// The value of a key: a text, and the only register that is no number.
    Value(LineId),
}

/// A stored text: empty in version 0 if it was never written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextValue {
    /// The text.
    pub text: String,
    /// Its version.
    pub version: u64,
}

/// The content of a register: 0 in version 0 if it was never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterValue {
    /// The number.
    pub value: u64,
    /// Its version.
    pub version: u64,
}

/// A subscription to the changes of all nodes.
pub struct Followed {
    /// All nodes, in order.
    pub nodes: Vec<Node>,
    /// At this moment.
    pub at: u64,
    /// The changes after it, in order. All of one moment come together. It ends when a change may
    /// be missed.
    pub changes: mpsc::Receiver<ChangesAt>,
}

/// The changes of one moment.
pub type ChangesAt = (u64, Vec<NodeChange>);

/// A change of a node.
#[derive(Clone, Debug)]
pub enum NodeChange {
    /// It was made, or has another body.
    Is(Node),
    /// It was removed.
    Gone(LineId, TicketId, Why),
}

/// Why a node was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A client removed it.
    Left,
    /// It waited, and a client broke it.
    Broken,
    /// Its session is over.
    Expired,
}
