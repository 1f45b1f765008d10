//! A client with one request at a time, to set up servers and to cause failures.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use bson::{Document, doc};

use crate::Result;
use crate::patience::PATIENCE_MAX;

/// The opcode of the only kind of message that current servers accept.
const OP_MSG: i32 = 2013;
/// Size of the header: length, request id, answered request id and opcode, of four bytes each.
const HEADER: usize = 16;
/// Size of the part before the document: four bytes of flags, and one for the kind of the section.
const BEFORE_DOCUMENT: usize = 5;
/// Maximum size of a message of a server.
const MESSAGE_MAX: usize = 48_000_000;

/// A connection without TLS and without a login.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
}

impl Client {
    /// Connects to a server on this machine.
    pub fn connect(port: u16) -> Result<Self> {
        Self::connect_within(PATIENCE_MAX, port)
    }

    /// Connects with another time limit for each answer.
    pub(super) fn connect_within(limit: Duration, port: u16) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |error| format!("There is no connection to {address}: {error}.");
        let stream = TcpStream::connect_timeout(&address, limit).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(limit)).map_err(failed)?;
        stream.set_write_timeout(Some(limit)).map_err(failed)?;
        Ok(Self { stream })
    }

    /// Runs a command in a database. A refusal is an error, and so is an unconfirmed write.
    pub fn command(&mut self, database: &str, mut command: Document) -> Result<Document> {
        let name = command.keys().next().cloned().unwrap_or_default();
        command.insert("$db", database);
        let answer =
            self.ask(&command).map_err(|error| format!("{name} got no answer: {error}."))?;
        let is_ok = answer.get_f64("ok").is_ok_and(|ok| ok > 0.0);
        let wrong = ["writeErrors", "writeConcernError"].iter().find_map(|it| answer.get(it));
        match wrong {
            None if is_ok => Ok(answer),
            None => Err(format!("{name} is refused: {answer}.")),
            Some(wrong) => Err(format!("{name} failed: {wrong}.")),
        }
    }

    fn ask(&mut self, command: &Document) -> Result<Document, Box<dyn std::error::Error>> {
        let mut message = vec![0; HEADER + BEFORE_DOCUMENT];
        command.to_writer(&mut message)?;
        let length = i32::try_from(message.len())?;
        message[..4].copy_from_slice(&length.to_le_bytes());
        message[12..HEADER].copy_from_slice(&OP_MSG.to_le_bytes());
        self.stream.write_all(&message)?;

        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header)?;
        let (length, _) = header.split_first_chunk::<4>().ok_or("a header is longer")?;
        let length = usize::try_from(i32::from_le_bytes(*length))?;
        if !(HEADER + BEFORE_DOCUMENT..=MESSAGE_MAX).contains(&length) {
            return Err(format!("a message cannot have {length} bytes").into());
        }
        let mut body = vec![0; length - HEADER];
        self.stream.read_exact(&mut body)?;
        Ok(Document::from_reader(&body[BEFORE_DOCUMENT..])?)
    }
}

/// Returns the answer of a server to `hello`.
pub(super) fn hello(port: u16, limit: Duration) -> Result<Document> {
    Client::connect_within(limit, port)?.command("admin", doc! { "hello": 1 })
}
