//! Routers: on a sharded cluster each has its own clock, and ends locks by it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use mongodb::bson::{DateTime, Document};
use tenure_servers::mongodb::Server;

use super::stage::{connect, play, until};

/// Length of a message's header, and of the bytes between it and the document.
const HEADER: usize = 16;
const BEFORE_DOCUMENT: usize = 5;
/// Fields in the answer of a member, which a router's answer does not have.
const OF_MEMBERS: [&str; 9] = [
    "setName",
    "setVersion",
    "hosts",
    "primary",
    "me",
    "secondary",
    "electionId",
    "lastWrite",
    "topologyVersion",
];
const AHEAD_MS: i64 = 40_000;

/// Answers as a router whose clock is ahead of the server's. Returns its address.
fn router(server: &Server, ahead_ms: i64) -> String {
    let (listener, port) = (TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), server.port());
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) =
                (client, TcpStream::connect((Ipv4Addr::LOCALHOST, port)))
            else {
                return;
            };
            let (mut asks, mut asked) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            // A connection ends when either side closes it.
            thread::spawn(move || drop(io::copy(&mut asks, &mut asked)));
            thread::spawn(move || drop(answer(server, client, ahead_ms)));
        }
    });
    address
}

/// Passes messages on. An answer to `hello` is changed to that of a router.
fn answer(mut server: impl Read, mut client: impl Write, ahead_ms: i64) -> io::Result<()> {
    loop {
        let mut message = vec![0; HEADER];
        server.read_exact(&mut message)?;
        let length = message.first_chunk::<4>().map_or(0, |length| i32::from_le_bytes(*length));
        message.resize(usize::try_from(length).unwrap(), 0);
        server.read_exact(&mut message[HEADER..])?;
        let start = HEADER + BEFORE_DOCUMENT;
        let document = Document::from_reader(&message[start..]).map_err(io::Error::other)?;
        if document.contains_key("localTime") {
            message.truncate(start);
            as_router(document, ahead_ms).to_writer(&mut message).map_err(io::Error::other)?;
            let length = i32::try_from(message.len()).unwrap();
            message[..4].copy_from_slice(&length.to_le_bytes());
        }
        client.write_all(&message)?;
    }
}

fn as_router(mut hello: Document, ahead_ms: i64) -> Document {
    for field in OF_MEMBERS {
        hello.remove(field);
    }
    let clock = hello.get_datetime("localTime").unwrap().timestamp_millis() + ahead_ms;
    hello.insert("localTime", DateTime::from_millis(clock));
    hello.insert("msg", "isdbgrid");
    hello
}

#[test]
fn routers_whose_clocks_are_apart_are_warned_of() {
    play(async || {
        let server = Server::start().unwrap();
        let (right, ahead) = (router(&server, 0), router(&server, AHEAD_MS));
        let warnings = async |hosts: &str| {
            let locks = connect(format!("mongodb://{hosts}/")).await;
            let guard = locks.mutex("a").lock().await.unwrap();
            guard.release().await.unwrap();
            locks.guarantees().warnings.join("\n")
        };
        let one = warnings(&ahead).await;
        assert!(one.contains("each router ends locks and numbers them by its own clock"), "{one}");
        assert!(!one.contains("is ahead of that of"), "{one}");
        // An opening does not wait for slow routers.
        let (both, words) = (format!("{right},{ahead}"), format!("the clock of {ahead} is ahead"));
        until("it is told", async || warnings(&both).await.contains(&words)).await;
    });
}
