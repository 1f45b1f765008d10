//! A watchdog ends a command whose lock nobody looks after any more: its `tenure` was killed, or
//! was stopped for longer than its lease.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use tenure::engine::{Clock as _, SystemClock};

use crate::child::{Child, myself};
use crate::failure::USAGE;

/// The word that makes this program a watchdog.
pub(crate) const WORD: &str = "--watch-over";
/// The lock has no end that could be watched for.
const NEVER: u64 = u64::MAX;

/// A process that kills a group as soon as the deadline is over that it was last told, or as soon
/// as whoever tells it is gone.
pub(crate) struct Watchdog {
    process: std::process::Child,
    leash: Option<ChildStdin>,
}

impl Watchdog {
    /// Watches over a child from now on.
    pub(crate) fn start(child: &Child) -> io::Result<Self> {
        let mut process = myself()?
            .args([WORD, &child.group().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let leash = process.stdin.take();
        Ok(Self { process, leash })
    }

    /// Whether it has killed.
    pub(crate) fn has_killed(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(status)) if status.success())
    }

    /// How long the lock can be relied on from now; `None` if it has no end.
    pub(crate) fn tell(&mut self, remaining: Option<Duration>) {
        let until = remaining.map_or(NEVER, |remaining| SystemClock.now().plus(remaining).boot_ns);
        if let Some(leash) = &mut self.leash {
            let _it_is_gone = leash.write_all(&until.to_le_bytes());
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // First it is gone, and then its leash: otherwise it would kill.
        let _it_is_gone = self.process.kill();
        let _buried = self.process.wait();
    }
}

/// `--watch-over GROUP`, with deadlines on standard input.
pub(crate) fn main(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let group = words.next().and_then(|word| Pid::from_raw(word.to_str()?.parse().ok()?));
    let Some(group) = group.filter(|group| !group.is_init()) else {
        return ExitCode::from(USAGE);
    };
    watch();
    let _nobody_is_left = kill_process_group(group, Signal::KILL);
    ExitCode::SUCCESS
}

/// Returns when it is time to kill.
fn watch() {
    let mut input = io::stdin();
    let mut until = NEVER;
    loop {
        let now = SystemClock.now().boot_ns;
        if now >= until {
            return;
        }
        let time = (until != NEVER).then(|| left(until - now));
        match poll(&mut [PollFd::new(&input.as_fd(), PollFlags::IN)], time.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        let mut word = [0; 8];
        if input.read_exact(&mut word).is_err() {
            return;
        }
        until = u64::from_le_bytes(word);
    }
}

/// A timer may stand still while the machine sleeps: the clock is looked at every second.
fn left(ns: u64) -> Timespec {
    match i64::try_from(ns) {
        Ok(ns @ 0..1_000_000_000) => Timespec { tv_sec: 0, tv_nsec: ns },
        _ => Timespec { tv_sec: 1, tv_nsec: 0 },
    }
}
