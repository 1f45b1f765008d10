//! A leash ties a keeper to its `tenure`: what each says to the other, and the files that are handed over.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
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

/// More files than these are never handed over: standard input, and the locked file of a session.
const FILES_MAX: usize = 2;
/// A sentence on the leash: a letter, and a number.
const SENTENCE_BYTES: usize = 9;

/// One end of the leash.
pub(crate) struct Leash(UnixStream);

/// What is said on a leash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// To the keeper: the lock can be relied on until then, in ns of the clock that goes on in a suspend.
    Until(u64),
    /// To the keeper: end the command and all that descends from it, politely for so long.
    Stop(Duration),
    /// To the keeper: the command has ended by itself, and what it has left runs on.
    LetGo,
    /// The command runs, and leads this group.
    Started(Pid),
    /// The command was stopped by this signal.
    Paused(Signal),
    /// The command has ended by itself.
    Ended(Ending),
    /// Nothing was heard of `tenure` until the lock was about to be lost: all of it is being killed.
    Late,
    /// Nothing is left of the command.
    Gone,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With this exit code.
    Exited(u8),
    /// By the signal of this number.
    Killed(u8),
}

/// The parts and the files that were handed over.
pub(crate) type Handed = (Vec<Vec<u8>>, Vec<OwnedFd>);

/// What the other end says.
pub(crate) enum Heard {
    Said(Said),
    Nothing,
    /// The other end is gone.
    End,
}

impl Leash {
    /// A leash, and the end of it that becomes the keeper's standard input.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (own, keepers) = UnixStream::pair()?;
        Ok((Self(own), keepers.into()))
    }

    /// The keeper's end.
    pub(crate) fn of_keeper() -> io::Result<Self> {
        Ok(Self(io::stdin().as_fd().try_clone_to_owned()?.into()))
    }

    /// Hands over what a keeper needs. Waits for the keeper to take it.
    pub(crate) fn hand_over(&self, parts: &[&[u8]], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let packed = pack(parts);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(files));
        let slices = [IoSlice::new(&packed)];
        let sent = sendmsg(&self.0, &slices, &mut control, SendFlags::NOSIGNAL)?;
        (&self.0).write_all(&packed[sent..])
    }

    /// Takes what was handed over; `None` if the leash has ended before anything was.
    pub(crate) fn take_over(&self) -> io::Result<Option<Handed>> {
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

    /// Says something. If the other end has not listened for long, it is not said.
    pub(crate) fn say(&self, said: Said) {
        let _the_other_is_gone_or_deaf =
            send(&self.0, &said.encode(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// What the other end has said, if it has.
    pub(crate) fn hear(&self) -> Heard {
        let mut sentence = [0; SENTENCE_BYTES];
        match recv(&self.0, &mut sentence, RecvFlags::DONTWAIT) {
            Ok((_, SENTENCE_BYTES)) => Said::decode(sentence).map_or(Heard::End, Heard::Said),
            Err(Errno::AGAIN | Errno::INTR) => Heard::Nothing,
            Ok(_) | Err(_) => Heard::End,
        }
    }
}

impl AsFd for Leash {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Ending {
    /// What the kernel says; `None` if it has not ended.
    pub(crate) fn of(status: WaitStatus) -> Option<Self> {
        let small = |number: i32| u8::try_from(number & 0xff).unwrap_or(u8::MAX);
        let exited = status.exit_status().map(|code| Self::Exited(small(code)));
        exited.or_else(|| Some(Self::Killed(small(status.terminating_signal()?))))
    }
}

impl fmt::Display for Ending {
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

impl Said {
    fn encode(self) -> [u8; SENTENCE_BYTES] {
        let (letter, number) = match self {
            Self::Until(moment) => (b'u', moment),
            Self::Stop(patience) => (b's', u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX)),
            Self::LetGo => (b'l', 0),
            Self::Started(group) => (b'b', u64::from(group.as_raw_nonzero().get().unsigned_abs())),
            Self::Paused(signal) => (b'p', u64::from(signal.as_raw().unsigned_abs())),
            Self::Ended(Ending::Exited(code)) => (b'e', code.into()),
            Self::Ended(Ending::Killed(signal)) => (b'k', signal.into()),
            Self::Late => (b't', 0),
            Self::Gone => (b'g', 0),
        };
        let mut sentence = [letter; SENTENCE_BYTES];
        sentence[1..].copy_from_slice(&number.to_le_bytes());
        sentence
    }

    fn decode(sentence: [u8; SENTENCE_BYTES]) -> Option<Self> {
        let [letter, number @ ..] = sentence;
        let number = u64::from_le_bytes(number);
        let small = || i32::try_from(number).ok();
        Some(match letter {
            b'u' => Self::Until(number),
            b's' => Self::Stop(Duration::from_nanos(number)),
            b'l' => Self::LetGo,
            b'b' => Self::Started(small().and_then(Pid::from_raw)?),
            b'p' => Self::Paused(small().and_then(Signal::from_named_raw)?),
            b'e' => Self::Ended(Ending::Exited(u8::try_from(number).ok()?)),
            b'k' => Self::Ended(Ending::Killed(u8::try_from(number).ok()?)),
            b't' => Self::Late,
            b'g' => Self::Gone,
            _ => return None,
        })
    }
}

/// The length of it all, and then each part behind its own length.
fn pack(parts: &[&[u8]]) -> Vec<u8> {
    let length = |bytes: usize| u32::try_from(bytes).expect("words fit into memory").to_le_bytes();
    let mut packed = Vec::new();
    for part in parts {
        packed.extend(length(part.len()));
        packed.extend(*part);
    }
    let mut whole = length(packed.len()).to_vec();
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
    fn what_is_said_is_heard() {
        let (own, keepers) = Leash::new().unwrap();
        let keepers = Leash(keepers.into());
        for said in [
            Said::Until(u64::MAX),
            Said::Stop(Duration::from_millis(300)),
            Said::LetGo,
            Said::Started(Pid::from_raw(i32::MAX).unwrap()),
            Said::Paused(Signal::TTIN),
            Said::Ended(Ending::Exited(255)),
            Said::Ended(Ending::Killed(9)),
            Said::Late,
            Said::Gone,
        ] {
            own.say(said);
            assert!(matches!(keepers.hear(), Heard::Said(heard) if heard == said), "{said:?}");
        }
        assert!(matches!(keepers.hear(), Heard::Nothing));
        drop(own);
        assert!(matches!(keepers.hear(), Heard::End));
    }

    #[test]
    fn what_is_handed_over_arrives() {
        let (own, keepers) = Leash::new().unwrap();
        let keepers = Leash(keepers.into());
        let long = vec![b'x'; 3_000_000];
        let parts: [&[u8]; 4] = [b"", b"a\0b", &long, b"end"];
        let thread = std::thread::spawn(move || keepers.take_over().unwrap().unwrap());
        own.hand_over(&parts, &[io::stdin().as_fd(), io::stderr().as_fd()]).unwrap();
        let (heard, files) = thread.join().unwrap();
        assert_eq!((heard.as_slice(), files.len()), (parts.map(<[u8]>::to_vec).as_slice(), 2));
    }

    #[test]
    fn nothing_is_handed_over_on_a_leash_that_ends() {
        let (own, keepers) = Leash::new().unwrap();
        drop(own);
        assert_eq!(Leash(keepers.into()).take_over().unwrap().map(|(parts, _)| parts), None);
    }
}
