//! A question to a claim holder, and its answer: one line each, over the holder's socket.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::{Deserialize, Serialize};

use super::directory::ClaimDirectory;
use super::{ClaimRecord, machine};

/// The time limit of an answer. The claim holder limits its own calls to less.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Maximum length of an answer.
const ANSWER_BYTES_MAX: u64 = 1 << 16;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verb {
    /// Is it held?
    Show,
    /// Renew it now.
    Renew,
    /// Release it.
    Drop,
}

/// The state of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    Held {
        /// The time until the claim ends without a renewal. `None`: it does not expire.
        expires_in: Option<Duration>,
        /// The store has not confirmed the request.
        warning: Option<String>,
    },
    /// The claim was lost, for this reason.
    Lost(String),
    /// The claim holder lives and does not answer.
    Silent,
    /// The claim holder runs on the machine of this name.
    Elsewhere(String),
}

/// A question that was sent.
pub(crate) struct Question {
    id: String,
    sent: Sent,
}

enum Sent {
    Asked(UnixStream),
    /// The claim holder accepts no connection.
    Silent,
    /// There is no claim holder.
    Gone,
}

impl Question {
    /// Sends a question. It does not wait.
    pub(crate) fn ask(id: &str, verb: Verb) -> Self {
        let sent = match dial(id) {
            Ok(mut stream) => {
                let question = serde_json::to_string(&verb).expect("a word can be written");
                // A claim holder that has just ended answers nothing, and its record is read.
                let _ = stream.write_all(question.as_bytes());
                let _ = stream.shutdown(Shutdown::Write); // the same
                Sent::Asked(stream)
            }
            Err(Errno::CONNREFUSED | Errno::NOENT) => Sent::Gone,
            // Its queue is full, or this process may not connect, as in a sandbox.
            Err(_) => Sent::Silent,
        };
        Self { id: id.to_owned(), sent }
    }

    /// Whether a process listens at the socket of a claim.
    pub(crate) fn has_listener(id: &str) -> bool {
        !matches!(dial(id), Err(Errno::CONNREFUSED | Errno::NOENT))
    }

    /// Waits for the answer until `deadline`.
    pub(crate) fn answer(self, directory: &ClaimDirectory, deadline: Instant) -> Standing {
        let answer = match self.sent {
            Sent::Asked(stream) => read(&stream, deadline),
            Sent::Silent => return Standing::Silent,
            Sent::Gone => Ok(None),
        };
        match answer {
            Ok(Some(standing)) => standing,
            Err(error) if is_time_out(&error) => Standing::Silent,
            // The claim holder has ended, maybe just now.
            Ok(None) | Err(_) => without_holder(directory.record(&self.id)),
        }
    }
}

/// The state of a claim whose holder has ended.
fn without_holder(record: Option<ClaimRecord>) -> Standing {
    let Some(record) = record else {
        return Standing::Lost("no process holds it any more".into());
    };
    match record.lost {
        Some(reason) => Standing::Lost(reason),
        None if record.machine != machine() => Standing::Elsewhere(record.machine),
        None => {
            Standing::Lost(format!("the process that held it, {}, was killed", record.claim.pid))
        }
    }
}

/// Connects without waiting: if the claim holder is stopped, its queue may be full.
fn dial(id: &str) -> Result<UnixStream, Errno> {
    let address = SocketAddrUnix::new(ClaimDirectory::socket(id))?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
    ioctl_fionbio(&socket, true)?;
    connect(&socket, &address)?;
    ioctl_fionbio(&socket, false)?;
    Ok(socket.into())
}

/// Minimum time limit of a read, which may not be zero.
const READ_MIN: Duration = Duration::from_millis(1);

/// Returns the answer. `None`: the claim holder has closed the connection instead.
fn read(mut stream: &UnixStream, deadline: Instant) -> io::Result<Option<Standing>> {
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        // An answer that has come is read also after the deadline: another claim holder may have
        // used up the time.
        let left = deadline.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(READ_MIN)))?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(length) => answer.extend(&part[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if answer.len() as u64 > ANSWER_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
    }
    Ok(serde_json::from_slice(&answer).ok())
}

fn is_time_out(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}
