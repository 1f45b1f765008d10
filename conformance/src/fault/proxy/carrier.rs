//! The threads of a proxy: one that accepts, and four for each connection, which only read and
//! write.

use std::io::{self, Error, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::direction::Direction;
use super::shared::Shared;

/// Maximum bytes of one read.
const READ_BYTES_MAX: usize = 64 << 10;
/// Time limit of a connection to the server.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Time after which a blocked write checks whether the connection still exists.
const WRITE_MAX: Duration = Duration::from_millis(50);
/// Pause after a failed accept, for example because of too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(1);

/// Accepts connections until the proxy ends, and returns when all its connections have ended.
pub(super) fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut carriers: Vec<JoinHandle<()>> = Vec::new();
    while !shared.state().ended {
        match listener.accept() {
            Ok((client, from)) => carriers.extend(shared.admit(client, from).and_then(|id| {
                let own = shared.clone();
                let carrier = thread::Builder::new().spawn(move || carry(&own, id));
                carrier.inspect_err(|_| shared.end(id)).ok()
            })),
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
        carriers.retain(|carrier| !carrier.is_finished());
    }
    for carrier in carriers {
        // A panicked thread has ended, too.
        let _ = carrier.join();
    }
}

/// Runs one connection until it ends.
fn carry(shared: &Shared, id: u64) {
    let Some(client) = shared.open(id) else { return };
    let server = TcpStream::connect_timeout(&shared.server, CONNECT_MAX);
    let Some(server) = server.ok().map(Arc::new).filter(|server| shared.meet(id, server)) else {
        return shared.end(id);
    };
    if [&client, &server].into_iter().try_for_each(|end| prepare(end)).is_err() {
        return shared.end(id);
    }
    thread::scope(|scope| {
        scope.spawn(|| write(shared, id, Direction::Requests, &server));
        scope.spawn(|| write(shared, id, Direction::Replies, &client));
        scope.spawn(|| read(shared, id, Direction::Replies, &server));
        read(shared, id, Direction::Requests, &client);
    });
}

/// Disables delays of small writes, and limits the time of each write.
fn prepare(end: &TcpStream) -> io::Result<()> {
    end.set_nodelay(true)?;
    end.set_write_timeout(Some(WRITE_MAX))
}

fn read(shared: &Shared, id: u64, direction: Direction, mut from: &TcpStream) {
    let mut bytes = vec![0; READ_BYTES_MAX];
    loop {
        let length = match from.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // A failed side has ended.
            outcome => outcome.unwrap_or(0),
        };
        if !shared.hear(id, direction, &bytes[..length]) {
            return;
        }
    }
}

fn write(shared: &Shared, id: u64, direction: Direction, mut to: &TcpStream) {
    while let Some(piece) = shared.next(id, direction) {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            match to.write(rest) {
                Ok(length) => rest = &rest[length..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A reset does not wake this thread, so it checks.
                Err(error) if is_timeout(&error) && shared.carries(id) => {}
                Err(_) => return shared.end(id),
            }
        }
    }
}

fn is_timeout(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
