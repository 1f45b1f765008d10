//! A fork: this process once more. That is quicker than to start the program anew, which has to be loaded and linked
//! again, as long as this process is young.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;

use nix::sys::signal::SigSet;
use rustix::process::{Pid, setpgid};

/// The two that there are now.
pub(crate) enum Fork {
    /// This is the process that was there, and the other has this number.
    Old(Pid),
    /// This is the new one, and hears nothing yet.
    New(Deaf),
}

/// Signals that are blocked for a while: one would end or stop a new process that does not hear it yet.
pub(crate) struct Deaf(SigSet);

impl Deaf {
    fn to_all() -> io::Result<Self> {
        let mut signals = SigSet::all();
        for blocked_before in &SigSet::thread_get_mask()? {
            signals.remove(blocked_before);
        }
        signals.thread_block()?;
        Ok(Self(signals))
    }

    /// What came meanwhile comes now.
    pub(crate) fn no_more(&self) {
        let _cannot_fail = self.0.thread_unblock();
    }
}

/// Makes a process like this one, which leads a group of its own. Only for a process with one thread: of several, the
/// new one has only that which has called.
pub(crate) fn fork() -> io::Result<Fork> {
    debug_assert_eq!(threads(), 1, "a thread's locks would be held for ever");
    let deaf = Deaf::to_all()?;
    let forked = ::fork::fork();
    let number = match forked {
        Ok(::fork::Fork::Parent(number)) => Pid::from_raw(number),
        _ => None,
    };
    if forked.is_ok() {
        // Both do it, so that it is done when either goes on: a signal to the old group is not for the new one.
        let _done_by_the_other = setpgid(number, number);
    }
    if let Ok(::fork::Fork::Child) = forked {
        return Ok(Fork::New(deaf));
    }
    deaf.no_more();
    forked?;
    number.map(Fork::Old).ok_or_else(|| ErrorKind::InvalidData.into())
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// Has `ps` show this in the place of the words that the process was started with: who kills by these words does not
/// mean this one, and there may be a password among them.
pub(crate) fn rename(name: &str) -> io::Result<()> {
    let (start, end) = words().ok_or(ErrorKind::InvalidData)?;
    let length = usize::try_from(end - start).unwrap_or(0);
    if length < name.len() + 2 {
        return Err(ErrorKind::StorageFull.into());
    }
    // As the last byte is no zero, the kernel shows what is before the first.
    let mut words = name.as_bytes().to_vec();
    words.resize(length - 1, 0);
    words.push(b'.');
    OpenOptions::new().write(true).open("/proc/self/mem")?.write_all_at(&words, start)
}

/// Where in memory the kernel finds the words that this process was started with.
fn words() -> Option<(u64, u64)> {
    let stat = fs::read("/proc/self/stat").ok()?;
    // The name of the process may contain anything, but what follows it.
    let behind_name = stat.iter().rposition(|byte| *byte == b')')?;
    let numbers = str::from_utf8(&stat[behind_name + 1..]).ok()?;
    let mut numbers = numbers.split_ascii_whitespace().skip(45).map(str::parse);
    let words = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (words.0 < words.1).then_some(words)
}
