//! A stretch of network between clients and a server on loopback, that a test can spoil.

mod act;
mod carrier;
mod connection;
mod counts;
mod direction;
mod protocol;
mod queue;
mod resp;
mod rule;
mod shared;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use connection::End;
use direction::Both;
use queue::Condition;
use shared::Shared;

pub use act::{Act, Match};
pub use counts::Counts;
pub use direction::Direction;
pub use protocol::Protocol;
pub use rule::Rule;

/// How long one attempt may take to tell the accepting thread that it is over.
const KNOCK_MAX: Duration = Duration::from_secs(1);
/// A pause before the next attempt.
const KNOCK_PAUSE: Duration = Duration::from_millis(10);

/// A stretch of network between clients and a server on loopback, that a test can spoil.
///
/// ```text
/// client ── connection ──▶ Proxy ── connection of its own ──▶ server
/// ```
///
/// It listens on a free port of 127.0.0.1, and makes one connection to the server for each that it
/// accepts. A connection ends when either side ends it, or even half of it: what that side said
/// before still passes. Everything of a proxy ends when it is dropped: its connections are closed,
/// and its threads are joined. It has threads and no runtime, so that clients may live on any; its
/// methods return without waiting for clients or the server, but for those named `wait_until`.
///
/// Nothing is ever lost *within* a connection, since TCP knows of no such thing: what a
/// [black hole](Proxy::black_hole) keeps back passes when it is [healed](Proxy::heal), unless the
/// connection is [cut](Proxy::cut) before.
///
/// **Not promised**: that a server is not found without the proxy. A client that asks it for addresses,
/// as those of clusters do, is told those of the server.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy before this server, through which everything passes, and at once. The server need not be there
    /// yet: a connection to one that is not is closed.
    pub fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::to(server));
        let own = shared.clone();
        let accepting = thread::Builder::new().spawn(move || carrier::accept(&own, &listener))?;
        Ok(Self { shared, address, accepting: Some(accepting) })
    }

    /// Tells messages apart as this protocol does; else they are [`Protocol::Bytes`].
    #[must_use]
    pub fn speaking(self, protocol: Protocol) -> Self {
        self.shared.state().protocol = protocol;
        self
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port on 127.0.0.1 where clients connect to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Everything passes so much later, from now on and in both directions, until [`heal`](Proxy::heal).
    pub fn delay(&self, by: Duration) {
        self.both(|condition| condition.delay = by);
    }

    /// At most so many bytes pass in a millisecond, and at least one, in each direction of each connection,
    /// until [`heal`](Proxy::heal).
    pub fn slow(&self, bytes_per_ms: usize) {
        self.both(|condition| condition.bytes_per_ms = Some(bytes_per_ms.max(1)));
    }

    /// Nothing passes, in both directions, until [`heal`](Proxy::heal): connections stay open, and new ones are
    /// accepted and hear nothing. Not even the end of a connection passes.
    pub fn black_hole(&self) {
        self.both(|condition| condition.hole = true);
    }

    /// Nothing passes in this direction, until [`heal`](Proxy::heal). With [`Direction::Replies`], what is asked is
    /// done and nobody hears of it; new connections reach the server.
    pub fn black_hole_for(&self, direction: Direction) {
        self.shared.change(|state| state.conditions.of_mut(direction).hole = true);
    }

    /// New connections are closed at once, until [`heal`](Proxy::heal); those that are there go on.
    ///
    /// The port stays this proxy's own, so that a client is let in and turned out, rather than
    /// told that nobody listens.
    pub fn refuse(&self) {
        self.shared.catch_up(self.address);
        self.shared.change(|state| state.refuses = true);
    }

    /// Ends what `delay`, `slow`, `black_hole` and `refuse` began; what they kept back passes. Rules
    /// stay, with all that they hold.
    pub fn heal(&self) {
        self.shared.change(|state| {
            state.conditions = Both::default();
            state.refuses = false;
        });
    }

    /// Closes all connections now, also those that were made and not yet accepted. What waits on
    /// them is lost; new ones are welcome.
    pub fn cut(&self) {
        self.shared.catch_up(self.address);
        self.shared.change(|state| state.end_all(End::Close));
    }

    /// Ends all connections as [`cut`](Proxy::cut) does, with a reset: clients and the server hear an
    /// error rather than an end. Where the system is no Unix, it is a plain close.
    pub fn reset(&self) {
        self.shared.catch_up(self.address);
        self.shared.change(|state| state.end_all(End::Reset));
    }

    /// Does this act once, to the chosen message.
    pub fn on(&self, matched: Match, act: Act) -> Rule {
        Rule::new(&self.shared, matched, act)
    }

    /// What has been seen so far.
    pub fn counts(&self) -> Counts {
        self.shared.state().counts.clone()
    }

    /// Counts anew from now on.
    pub fn reset_counts(&self) {
        self.shared.state().counts = Counts::default();
    }

    /// Waits until the counts are as wanted; `false` if they were not within this time. What looks at
    /// them must not ask the proxy, which stands still meanwhile.
    pub fn wait_until(&self, patience: Duration, wanted: impl Fn(&Counts) -> bool) -> bool {
        self.shared.wait_until(patience, |state| wanted(&state.counts))
    }

    fn both(&self, change: impl Fn(&mut Condition)) {
        self.shared.change(|state| {
            change(&mut state.conditions.requests);
            change(&mut state.conditions.replies);
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| {
            state.ended = true;
            state.end_all(End::Close);
        });
        let Some(accepting) = self.accepting.take() else { return };
        // It is woken by a connection, and looks whether all has ended before it waits for more.
        let knock = || TcpStream::connect_timeout(&self.address, KNOCK_MAX);
        while !accepting.is_finished() && knock().is_err() {
            thread::sleep(KNOCK_PAUSE);
        }
        // One that has panicked has ended, too.
        let _ended = accepting.join();
    }
}
