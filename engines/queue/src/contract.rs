//! What a store must do so that lines can be kept in it.

use std::time::Duration;

use tenure_core::{BoxFuture, Error, Guarantees, Key, Result, TicketId};
use tokio::sync::mpsc;

use crate::node::{LineId, Name, Node};

/// A store with sessions, and with an order of its own that only grows: revisions, transactions.
///
/// 1. A node that is made gets a number that is above all that were made before it, in all lines: see [`Node::created`].
///    A change of the node moves its [version](Node::version), which is above all numbers and versions before it.
/// 2. Every answer is the store's single truth at one moment, never a stale copy.
/// 3. A node goes with its session. Without a sign of life for its ttl a session ends, and never sooner.
/// 4. An error of the kind [`Unavailable`](tenure_core::ErrorKind::Unavailable) says that the outcome is unknown; any other,
///    that nothing was changed. A session that is over is told as [`Loss::SessionGone`](tenure_core::Loss::SessionGone).
/// 5. Dropping a future leaves the outcome unknown. No verb here has a time limit: who calls has one.
pub trait Store: Send + Sync + 'static {
    /// What the store promises by itself.
    fn profile(&self) -> Guarantees;

    /// What is said of the store when it does not answer in time.
    fn silence(&self) -> Error;

    /// Where the tickets of a line are kept, as the end of a sentence: an operator finds them there.
    fn place_of_line(&self, line: &LineId) -> String;

    /// Where a register is kept, as the end of a sentence.
    fn place_of_register(&self, register: &Register) -> String;

    /// Opens a session that lives for about `ttl` without a sign of life; the store may raise or round it.
    fn open(&self, ttl: Duration) -> impl Future<Output = Result<Granted>> + Send;

    /// A sign of life. Answers for how long the session lives from when the store heard it; `None` if it is over. Nobody waits
    /// for it longer than `within`: a store with several servers has left one that is silent by then.
    fn keep(
        &self,
        session: SessionId,
        within: Duration,
    ) -> impl Future<Output = Result<Option<Duration>>> + Send;

    /// Ends a session, and takes out its nodes.
    fn end(&self, session: SessionId) -> impl Future<Output = Result<()>> + Send;

    /// For how long each of these sessions, of whatever client, lives on without a sign of life; `None` if the store cannot tell,
    /// or does not answer.
    fn lives(&self, sessions: &[SessionId]) -> impl Future<Output = Vec<Option<Duration>>> + Send;

    /// Makes a node at the back of its line, unless the door is closed to it.
    fn enter(&self, enter: &Enter<'_>) -> impl Future<Output = Result<Entered>> + Send;

    /// The first nodes of a line, up to so many. Those behind the ticket that is asked for may be left out.
    fn front(
        &self,
        line: &LineId,
        most: usize,
        whose: Option<&Name>,
    ) -> impl Future<Output = Result<Front>> + Send;

    /// The nodes of a line that were made before this one, up to so many, the nearest first.
    fn ahead(&self, node: &Node, most: usize) -> impl Future<Output = Result<Vec<Node>>> + Send;

    /// These nodes, in this order, each as it was at a moment after the call, and the first of these moments.
    fn look(
        &self,
        sought: &[Sought<'_>],
    ) -> impl Future<Output = Result<(Vec<Option<Node>>, u64)>> + Send;

    /// Changes the body of a node that is as it is known. Answers the new node; `None`: it was otherwise.
    fn change(&self, node: &Node, body: &[u8])
    -> impl Future<Output = Result<Option<Node>>> + Send;

    /// Takes out a node.
    fn remove(&self, remove: &Remove<'_>) -> impl Future<Output = Result<Removed>> + Send;

    /// Sees to it that an entry with this session which was not answered never comes in. Answers the node if it came in
    /// already.
    fn forestall(
        &self,
        name: &Name,
        session: SessionId,
    ) -> impl Future<Output = Result<Option<Node>>> + Send;

    /// The orphans of one of this client's sessions: nodes whose tickets this client does not know. A store whose requests may
    /// be delivered twice has them: the second delivery makes a node again that has been taken out.
    fn orphans(&self, session: SessionId) -> impl Future<Output = Result<Vec<Node>>> + Send;

    /// Whether an entry of this ticket was not answered, and may still come in although a later one was.
    fn is_doubtful(&self, _ticket: TicketId) -> bool {
        false
    }

    /// This client is done with a ticket: its node is out, never came in, or goes with its session. What the store knows of the
    /// ticket is of no more use.
    fn forget(&self, ticket: TicketId);

    /// Watches nodes, of which one is to become other than it is known, or go. Where the first is [near](Distance) to its
    /// front, the store may tell that it is served: see [`Told::Served`].
    fn watch(
        &self,
        nodes: &[Node],
        distance: Distance,
    ) -> impl Future<Output = Result<Watching>> + Send;

    /// The keys that begin with `prefix` and have a node, in order.
    fn keys(&self, prefix: &str) -> impl Future<Output = Result<Vec<Key>>> + Send;

    /// What stands in a register.
    fn read(&self, register: &Register) -> impl Future<Output = Result<Written>> + Send;

    /// Writes a value if the register still has this version. Answers what stands there now, and whether it was written.
    fn write(
        &self,
        register: &Register,
        value: u64,
        version: u64,
    ) -> impl Future<Output = Result<(Written, bool)>> + Send;

    /// Everything that happens to all nodes from now on; `None` if the store cannot tell. It may take long, because all nodes are
    /// listed first: each of its requests has a time limit of its own.
    fn follow(&self) -> impl Future<Output = Result<Option<Followed>>> + Send;

    /// A moment that is not before the end of anything that was answered already.
    fn now(&self) -> impl Future<Output = Result<u64>> + Send;

    /// Lets go of what is open.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// A node that is looked for.
#[derive(Clone, Copy, Debug)]
pub enum Sought<'a> {
    /// This client's own, whether it was seen already or not.
    Own(&'a Name),
    /// One that was seen.
    Seen(&'a Node),
}

impl<'a> Sought<'a> {
    /// Its name.
    pub fn name(self) -> &'a Name {
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
    /// From one sign of life to the next: often enough that the store may be silent for a while.
    pub every: Duration,
}

/// Who wants to come in, and on what terms.
#[derive(Clone, Copy, Debug)]
pub struct Enter<'a> {
    /// The name of the node.
    pub name: &'a Name,
    /// What it is to say.
    pub body: &'a [u8],
    /// With what it lives.
    pub session: SessionId,
    /// Who may be there.
    pub door: Door,
    /// The version of the line's [base](Register::Base) that the body goes by. If it is another one, the door is closed.
    pub base_version: u64,
    /// It takes all there is: whoever is in the line leaves before it is served.
    pub is_all: bool,
}

/// Who may be in the line when a node is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Anybody who keeps to the same capacity.
    Open,
    /// Nobody who came, or changed, after this moment. At moment 0, nobody at all.
    Unchanged(u64),
}

/// What came of an [`Enter`].
#[derive(Debug)]
pub enum Entered {
    /// The node is in the line.
    In {
        /// The node.
        node: Node,
        /// The front of the line with it, or before it in the same moment, or later.
        front: Front,
        /// It was made by this call. Otherwise it was there.
        fresh: bool,
    },
    /// The door was closed, and nothing was changed.
    Out {
        /// The front of the line, whatever the capacity of who is there.
        front: Front,
        /// What the line's base is.
        base: Written,
    },
    /// Nothing was changed, for a reason that has passed. Whoever has not been given up meanwhile asks again.
    Again,
}

/// The first nodes of a line at one moment.
#[derive(Clone, Debug, Default)]
pub struct Front {
    /// In the order in which they were made.
    pub nodes: Vec<Node>,
    /// How many there are in the whole line.
    pub total: usize,
    /// The moment.
    pub at: u64,
    /// When the first of those among them was made whose ticket cannot be read. Who asks for a whole line must know; where that
    /// ticket keeps another one out, the store refuses by itself.
    pub unreadable: Option<u64>,
    /// Known of all who are ahead of the ticket that was asked for, or that would come, without reading them all. Of those,
    /// `nodes` has at least who keeps it out then.
    pub ahead: Option<Ahead>,
}

/// What is known of those who are ahead of a ticket.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// How many they are.
    pub count: usize,
    /// How much they take, or at least so much.
    pub taken: u64,
    /// The number of the one that is right ahead, if that is known: nobody is between it and the ticket. Otherwise 0.
    pub behind: u64,
}

/// Who is to be taken out, and on what terms.
#[derive(Clone, Copy, Debug)]
pub struct Remove<'a> {
    /// The node that was made with this number, whatever became of it since.
    pub node: &'a Node,
    /// Only if these are all as they are known.
    pub provided: &'a [Node],
    /// What onlookers are told: it left, or it was broken.
    pub why: Why,
    /// Answer the front of the line without it, up to so many.
    pub front: Option<usize>,
    /// Who is the front alone then, if it is still there. A store that answers just that need not look at the line.
    pub next: Option<&'a Node>,
    /// It is served, and takes all there is: whoever is right behind it is served in its place.
    pub is_all: bool,
}

impl<'a> Remove<'a> {
    /// This node, on no terms, and nothing is asked beside.
    pub fn just(node: &'a Node) -> Self {
        Self { node, provided: &[], why: Why::Left, front: None, next: None, is_all: false }
    }
}

/// What came of a [`Remove`].
#[derive(Clone, Debug)]
pub struct Removed {
    /// It was there, and is out.
    pub gone: bool,
    /// The front of the line behind it, if that was asked for and it is gone.
    pub front: Option<Front>,
}

/// How far from the front of its line a node is that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// Two nodes are watched: the first, and the only one that is ahead of it, which keeps it out.
    Next,
    /// Two nodes are watched: the first, and the one right ahead, which keeps it out. Few more are ahead, so that all of the line
    /// may be watched.
    Near,
    /// Anything else.
    Far,
}

/// Nodes are watched.
pub struct Watching {
    /// What happened after this moment is noticed.
    pub at: u64,
    /// Ready once one of them may be otherwise.
    pub changed: BoxFuture<Told>,
}

/// What a watch tells.
#[derive(Clone, Debug)]
pub enum Told {
    /// One of the nodes may be otherwise: look.
    Change,
    /// The one right ahead of the first node was taken out, which was served and kept it out, and the first node was there
    /// then as it is here. So it is served, and nothing need be read again. If the store cannot tell the moment, it is 0.
    ///
    /// Only a store says so that read the node in the same step in which the other one was taken out, or that tells of changes in
    /// the order in which they happened, and told of none of this node.
    Served(Node, u64),
}

/// A number that is kept beside a line for good.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Register {
    /// What is added to the numbers that the store gives to nodes.
    Base(LineId),
    /// The last number of a sequence.
    Sequence(LineId),
}

/// What stands in a register: 0 in version 0 if nobody ever wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The number.
    pub value: u64,
    /// Its version.
    pub version: u64,
}

/// A store that tells what happens to its nodes.
pub struct Followed {
    /// All nodes there are, in order.
    pub nodes: Vec<Node>,
    /// At this moment.
    pub at: u64,
    /// What happened after it, in order; all of one moment comes together. It ends when something may be missed.
    pub changes: mpsc::Receiver<(u64, Vec<Change>)>,
}

/// What happened to a node.
#[derive(Clone, Debug)]
pub enum Change {
    /// It was made, or has another body.
    Is(Node),
    /// It is out.
    Gone(LineId, TicketId, Why),
}

/// Why a node is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Somebody took it out.
    Left,
    /// It was waiting, and somebody broke it.
    Broken,
    /// Its session is over.
    Expired,
}
