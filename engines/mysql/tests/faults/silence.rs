//! Memory is flat while the server does not answer.

use tenure_conformance::fault::Outage;
use tenure_servers::mariadb::Server;

use super::stage::{connect, play};

#[test]
fn memory_is_flat_while_the_server_stands_still() {
    play(async || {
        let server = Server::start().unwrap();
        Outage::of(&server.url()).runs("frozen", || server.freeze().unwrap());
    });
}

#[test]
fn memory_is_flat_while_no_server_listens() {
    play(async || {
        let server = Server::start().unwrap();
        Outage::of(&server.url()).runs("refusing", || server.kill().unwrap());
    });
}

/// Not a test: where the client's process begins.
#[test]
fn client_process() {
    Outage::be_client(connect);
}
