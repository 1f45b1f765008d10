//! The threads of a proxy: one that accepts, and four for each connection, which only read and write.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::Way;
use super::road::Road;

/// How much is read at once.
const READ_BYTES_MAX: usize = 64 << 10;
/// How long the server may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// A pause after a connection could not be accepted, because there are too many files, perhaps.
const ACCEPT_PAUSE: Duration = Duration::from_millis(1);

/// Accepts connections until the road ends, and comes back when everything on it has ended.
pub(super) fn accept(road: &Arc<Road>, listener: &TcpListener) {
    let mut carriers: Vec<JoinHandle<()>> = Vec::new();
    while !road.state().ended {
        match listener.accept() {
            Ok((client, from)) => carriers.extend(road.admit(client, from).and_then(|id| {
                let own = road.clone();
                let carrier = thread::Builder::new().spawn(move || carry(&own, id));
                carrier.inspect_err(|_| road.end(id)).ok()
            })),
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
        carriers.retain(|carrier| !carrier.is_finished());
    }
    for carrier in carriers {
        // One that has panicked has ended, too.
        let _ended = carrier.join();
    }
}

/// Carries one connection to its end.
fn carry(road: &Road, id: u64) {
    let Some(client) = road.open(id) else { return };
    let server = TcpStream::connect_timeout(&road.server, CONNECT_MAX);
    let server = server.and_then(|server| server.set_nodelay(true).map(|()| Arc::new(server)));
    let Some(server) = server.ok().filter(|server| road.meet(id, server)) else {
        return road.end(id);
    };
    thread::scope(|scope| {
        scope.spawn(|| write(road, id, Way::Requests, &server));
        scope.spawn(|| write(road, id, Way::Replies, &client));
        scope.spawn(|| read(road, id, Way::Replies, &server));
        read(road, id, Way::Requests, &client);
    });
}

fn read(road: &Road, id: u64, way: Way, mut from: &TcpStream) {
    let mut bytes = vec![0; READ_BYTES_MAX];
    loop {
        let length = match from.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // A side that has failed has ended.
            outcome => outcome.unwrap_or(0),
        };
        if !road.hear(id, way, &bytes[..length]) {
            return;
        }
    }
}

fn write(road: &Road, id: u64, way: Way, mut to: &TcpStream) {
    while let Some(piece) = road.next(id, way) {
        if to.write_all(&piece).is_err() {
            return road.end(id);
        }
    }
}
