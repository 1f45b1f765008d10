//! The control channel: a socket between `tenure` and a process that it starts, such as a keeper,
//! for messages and open files.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, send, sendmsg,
};
use rustix::process::{Pid, Signal, WaitStatus};
use signal_hook::low_level::signal_name;

/// Maximum number of files in one handoff: standard input and the session's locked file.
const FILES_MAX: usize = 2;
/// Length of a message: a letter and a number.
const MESSAGE_BYTES: usize = 9;

/// One end of the channel.
pub(crate) struct ControlChannel(UnixStream);

/// A message on the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// To the keeper: the lock is valid until this time, in ns of the clock that includes suspend.
    Until(u64),
    /// To the keeper: send TERM to the command and its descendants, and KILL after this time.
    Stop(Duration),
    /// To the keeper: the command has ended by itself; leave its descendants running and end.
    LetGo,
    /// The command runs and leads this process group.
    Started(Pid),
    /// This signal stopped the command.
    Paused(Signal),
    /// The command has ended by itself.
    Ended(ExitReason),
    /// `tenure` extended nothing before the deadline: the keeper kills the command.
    Late,
    /// All processes of the command are gone.
    Gone,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// With this exit code.
    Exited(u8),
    /// By the signal of this number.
    Killed(u8),
}

/// The parts of a task and the files that came with it.
pub(crate) type Handoff = (Vec<Vec<u8>>, Vec<OwnedFd>);

/// The result of a read that does not wait.
pub(crate) enum Received {
    Message(Message),
    Nothing,
    /// The other end is closed.
    Closed,
}

impl ControlChannel {
    /// Returns a channel and its other end, which becomes the keeper's standard input.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (own, keepers) = UnixStream::pair()?;
        Ok((Self(own), keepers.into()))
    }

    /// Returns the keeper's end, from its standard input.
    pub(crate) fn of_keeper() -> io::Result<Self> {
        Ok(Self(io::stdin().as_fd().try_clone_to_owned()?.into()))
    }

    /// Sends the parts of a task and its files; waits until the keeper reads them.
    pub(crate) fn hand_over(&self, parts: &[&[u8]], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let packed = pack(parts);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        let slices = [IoSlice::new(&packed)];
        let sent = sendmsg(&self.0, &slices, &mut control, SendFlags::NOSIGNAL)?;
        (&self.0).write_all(&packed[sent..])
    }

    /// Waits for a handoff; returns `None` if the channel closes first.
    pub(crate) fn take_over(&self) -> io::Result<Option<Handoff>> {
        let mut length = [0; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let slices = &mut [IoSliceMut::new(&mut length)];
        let got =
            retry_on_intr(|| recvmsg(&self.0, slices, &mut control, RecvFlags::CMSG_CLOEXEC))?;
        if got.bytes == 0 {
            return Ok(None);
        }
        (&self.0).read_exact(&mut length[got.bytes..])?;
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.extend(rights);
            }
        }
        let mut packed = vec![0; u32::from_le_bytes(length) as usize];
        (&self.0).read_exact(&mut packed)?;
        Ok(Some((unpack(&packed)?, files)))
    }

    /// Closes this end for writing. The other end reads what was sent, and then the end.
    pub(crate) fn end(&self) {
        let _ = self.0.shutdown(Shutdown::Write); // the other end may be closed already
    }

    /// Sends a message without waiting.
    pub(crate) fn send(&self, message: Message) {
        // If the other end is closed, reading reports it. If the buffer is full, the message is
        // dropped: the other end has been stopped for long, and reads older messages first.
        let _ = send(&self.0, &message.encode(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Reads one message without waiting.
    pub(crate) fn receive(&self) -> Received {
        let mut message = [0; MESSAGE_BYTES];
        match recv(&self.0, &mut message, RecvFlags::DONTWAIT) {
            Ok((_, MESSAGE_BYTES)) => {
                Message::decode(message).map_or(Received::Closed, Received::Message)
            }
            Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
            Ok(_) | Err(_) => Received::Closed,
        }
    }
}

impl AsFd for ControlChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl ExitReason {
    /// Decodes the status of `wait`; `None` if the process has not ended.
    pub(crate) fn of(status: WaitStatus) -> Option<Self> {
        let small = |number: i32| u8::try_from(number & 0xff).unwrap_or(u8::MAX);
        let exited = status.exit_status().map(|code| Self::Exited(small(code)));
        exited.or_else(|| Some(Self::Killed(small(status.terminating_signal()?))))
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "the command has ended with {code}"),
            Self::Killed(signal) => match signal_name(i32::from(*signal)) {
                Some(name) => write!(f, "the command was ended by {name}"),
                None => write!(f, "the command was ended by signal {signal}"),
            },
        }
    }
}

impl Message {
    fn encode(self) -> [u8; MESSAGE_BYTES] {
        let (letter, number) = match self {
            Self::Until(moment) => (b'u', moment),
            Self::Stop(grace) => (b's', u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX)),
            Self::LetGo => (b'l', 0),
            Self::Started(group) => (b'b', u64::from(group.as_raw_nonzero().get().unsigned_abs())),
            Self::Paused(signal) => (b'p', u64::from(signal.as_raw().unsigned_abs())),
            Self::Ended(ExitReason::Exited(code)) => (b'e', code.into()),
            Self::Ended(ExitReason::Killed(signal)) => (b'k', signal.into()),
            Self::Late => (b't', 0),
            Self::Gone => (b'g', 0),
        };
        let mut message = [letter; MESSAGE_BYTES];
        message[1..].copy_from_slice(&number.to_le_bytes());
        message
    }

    fn decode(message: [u8; MESSAGE_BYTES]) -> Option<Self> {
        let [letter, number @ ..] = message;
        let number = u64::from_le_bytes(number);
        let small = || i32::try_from(number).ok();
        Some(match letter {
            b'u' => Self::Until(number),
            b's' => Self::Stop(Duration::from_nanos(number)),
            b'l' => Self::LetGo,
            b'b' => Self::Started(small().and_then(Pid::from_raw)?),
            b'p' => Self::Paused(small().and_then(Signal::from_named_raw)?),
            b'e' => Self::Ended(ExitReason::Exited(u8::try_from(number).ok()?)),
            b'k' => Self::Ended(ExitReason::Killed(u8::try_from(number).ok()?)),
            b't' => Self::Late,
            b'g' => Self::Gone,
            _ => return None,
        })
    }
}

/// Writes the total length, then each part behind its own length.
fn pack(parts: &[&[u8]]) -> Vec<u8> {
    let length = |bytes: usize| u32::try_from(bytes).expect("arguments fit into 4 GiB");
    let mut packed = Vec::new();
    for part in parts {
        packed.extend(length(part.len()).to_le_bytes());
        packed.extend(*part);
    }
    let mut whole = length(packed.len()).to_le_bytes().to_vec();
    whole.append(&mut packed);
    whole
}

fn unpack(mut packed: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = packed.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((part, rest)) = rest.split_at_checked(length) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        parts.push(part.to_vec());
        packed = rest;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (own, keepers) = ControlChannel::new().unwrap();
        let keepers = ControlChannel(keepers.into());
        for message in [
            Message::Until(u64::MAX),
            Message::Stop(Duration::from_millis(300)),
            Message::LetGo,
            Message::Started(Pid::from_raw(i32::MAX).unwrap()),
            Message::Paused(Signal::TTIN),
            Message::Ended(ExitReason::Exited(255)),
            Message::Ended(ExitReason::Killed(9)),
            Message::Late,
            Message::Gone,
        ] {
            own.send(message);
            let received = keepers.receive();
            assert!(matches!(received, Received::Message(it) if it == message), "{message:?}");
        }
        assert!(matches!(keepers.receive(), Received::Nothing));
        drop(own);
        assert!(matches!(keepers.receive(), Received::Closed));
    }

    #[test]
    fn a_handoff_arrives_with_its_files() {
        let (own, keepers) = ControlChannel::new().unwrap();
        let keepers = ControlChannel(keepers.into());
        let long = vec![b'x'; 3_000_000];
        let parts: [&[u8]; 4] = [b"", b"a\0b", &long, b"end"];
        let thread = std::thread::spawn(move || keepers.take_over().unwrap().unwrap());
        own.hand_over(&parts, &[io::stdin().as_fd(), io::stderr().as_fd()]).unwrap();
        let (received, files) = thread.join().unwrap();
        assert_eq!((received.as_slice(), files.len()), (parts.map(<[u8]>::to_vec).as_slice(), 2));
    }

    #[test]
    fn a_channel_that_closes_hands_over_nothing() {
        let (own, keepers) = ControlChannel::new().unwrap();
        drop(own);
        let keepers = ControlChannel(keepers.into());
        assert_eq!(keepers.take_over().unwrap().map(|(parts, _)| parts), None);
    }
}
