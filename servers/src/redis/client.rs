//! A client with one request at a time and a time limit for each answer.

use std::io::{BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::Reply;
use crate::Result;

/// Time limit of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A connection to one server on loopback.
#[derive(Debug)]
pub struct Client {
    port: u16,
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects to a port of 127.0.0.1 as the default user.
    pub fn connect(port: u16, password: Option<&str>) -> Result<Self> {
        Self::connect_within(ANSWER_MAX, port, password)
    }

    /// Connects with another time limit for each answer.
    pub(super) fn connect_within(
        answer_max: Duration,
        port: u16,
        password: Option<&str>,
    ) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, answer_max).and_then(|stream| {
            stream.set_read_timeout(Some(answer_max))?;
            stream.set_write_timeout(Some(answer_max))?;
            stream.set_nodelay(true)?;
            Ok(BufReader::new(stream))
        });
        let stream = stream.map_err(|error| format!("{address} is not reached: {error}."))?;
        let mut client = Self { port, stream };
        if let Some(password) = password {
            client.command(&["AUTH", password])?;
        }
        Ok(client)
    }

    /// Sends a command, and waits for the reply. An error of the server is an error.
    pub fn command<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            bytes.extend(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        let reply = self.stream.get_mut().write_all(&bytes).and_then(|()| self.read());
        match reply {
            Ok(Reply::Refusal(why)) => {
                Err(format!("{} refused `{}`: {why}.", self.at(), shown(words)))
            }
            Ok(reply) => Ok(reply),
            Err(error) => Err(format!("{} did not answer `{}`: {error}.", self.at(), shown(words))),
        }
    }

    /// Waits for a message to a subscriber.
    pub fn receive(&mut self) -> Result<Reply> {
        self.read().map_err(|error| format!("{} sent nothing: {error}.", self.at()))
    }

    fn read(&mut self) -> std::io::Result<Reply> {
        Reply::read(&mut self.stream)
    }

    fn at(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

fn shown<W: AsRef<[u8]>>(words: &[W]) -> String {
    let words = words.iter().map(|word| String::from_utf8_lossy(word.as_ref()));
    words.collect::<Vec<_>>().join(" ")
}
