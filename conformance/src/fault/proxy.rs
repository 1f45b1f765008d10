//! A TCP proxy between clients and a server on loopback, which injects faults.

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

/// Time limit of one attempt to wake the accepting thread.
const KNOCK_MAX: Duration = Duration::from_secs(1);
/// Pause between two attempts.
const KNOCK_PAUSE: Duration = Duration::from_millis(10);

/// A stretch of network between clients and a server on loopback, that a test can spoil.
///
/// ```text
/// client ── connection ──▶ Proxy ── connection of its own ──▶ server
/// ```
///
/// It listens on a free port of 127.0.0.1, and opens one connection to the server for each that it
/// accepts. A connection ends when either side closes it, or one half of it; the bytes sent before
/// still pass. Dropping the proxy closes its connections and joins its threads. It uses threads
/// instead of a runtime, so clients may use any runtime. Only the methods named `wait_until` wait
/// for clients or the server.
///
/// No byte is ever lost *within* a connection, as in TCP. The bytes that a [black
/// hole](Proxy::black_hole) keeps back pass after [`heal`](Proxy::heal), unless the connection is
/// [cut](Proxy::cut) before.
///
/// **Not promised**: that clients use only the proxy. A client that asks the server for addresses,
/// as those of clusters do, gets those of the server.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy that passes everything at once. The server need not run yet: a connection to
    /// an absent server is closed.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::to(server));
        let own = shared.clone();
        let accepting = thread::Builder::new().spawn(move || carrier::accept(&own, &listener))?;
        Ok(Self { shared, address, accepting: Some(accepting) })
    }

    /// Splits messages by this protocol. The default is [`Protocol::Bytes`].
    #[must_use]
    pub fn speaking(self, protocol: Protocol) -> Self {
        self.shared.state().protocol = protocol;
        self
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port on 127.0.0.1 for clients.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Delays everything by this time, in both directions, until [`heal`](Proxy::heal).
    pub fn delay(&self, by: Duration) {
        self.both(|condition| condition.delay = by);
    }

    /// Limits each direction of each connection to this rate, and at least one byte per ms, until
    /// [`heal`](Proxy::heal).
    pub fn slow(&self, bytes_per_ms: usize) {
        self.both(|condition| condition.bytes_per_ms = Some(bytes_per_ms.max(1)));
    }

    /// Passes nothing in either direction, until [`heal`](Proxy::heal). Connections stay open, and
    /// new ones are accepted without an answer. Even the end of a connection does not pass.
    pub fn black_hole(&self) {
        self.both(|condition| condition.hole = true);
    }

    /// Passes nothing in this direction, until [`heal`](Proxy::heal). With [`Direction::Replies`]
    /// the server carries out requests whose replies do not arrive; new connections reach the
    /// server.
    pub fn black_hole_for(&self, direction: Direction) {
        self.shared.change(|state| state.conditions.of_mut(direction).hole = true);
    }

    /// Closes new connections at once, until [`heal`](Proxy::heal). Existing connections continue.
    ///
    /// The proxy keeps its port: a client is accepted and disconnected rather than refused.
    pub fn refuse(&self) {
        self.shared.catch_up(self.address);
        self.shared.change(|state| state.refuses = true);
    }

    /// Ends `delay`, `slow`, `black_hole` and `refuse`, and passes the bytes that they kept back.
    /// Rules stay, with the replies that they hold.
    pub fn heal(&self) {
        self.shared.change(|state| {
            state.conditions = Both::default();
            state.refuses = false;
        });
    }

    /// Closes all connections, also those that are not accepted yet. Bytes that wait in them are
    /// lost. New connections are accepted.
    pub fn cut(&self) {
        self.shared.catch_up(self.address);
        self.shared.change(|state| state.end_all(End::Close));
    }

    /// Ends all connections as [`cut`](Proxy::cut) does, with a reset: clients and the server get
    /// an error rather than an end of file. On systems other than Unix it is a plain close.
    pub fn reset(&self) {
        self.shared.catch_up(self.address);
        self.shared.change(|state| state.end_all(End::Reset));
    }

    /// Does this act once, to the matching message.
    pub fn on(&self, matched: Match, act: Act) -> Rule {
        Rule::new(&self.shared, matched, act)
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.shared.state().counts.clone()
    }

    /// Sets the counts to zero.
    pub fn reset_counts(&self) {
        self.shared.state().counts = Counts::default();
    }

    /// Waits until the counts are as wanted. Returns `false` if they are not within `patience`. The
    /// closure must not call the proxy, which is locked meanwhile.
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
        // A connection wakes the accepting thread, which then checks whether the proxy has ended.
        let knock = || TcpStream::connect_timeout(&self.address, KNOCK_MAX);
        while !accepting.is_finished() && knock().is_err() {
            thread::sleep(KNOCK_PAUSE);
        }
        // A panicked thread has ended, too.
        let _ = accepting.join();
    }
}
