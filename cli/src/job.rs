//! A job is what a shell starts, stops and continues in one go: the process group that this process is in.

use std::os::fd::AsFd;

use nix::sys::signal::{SigSet, Signal as Blocked};
use nix::unistd;
use rustix::process::{Pid, Signal, getpid, kill_process};
use rustix::termios::tcsetpgrp;

/// A process that can write to its terminal from the background.
pub(crate) struct NeverStopped {
    /// Whether it could before.
    before: bool,
}

impl NeverStopped {
    /// This one can, from now on.
    pub(crate) fn by_a_terminal() -> Self {
        let before = SigSet::thread_get_mask().is_ok_and(|mask| mask.contains(Blocked::SIGTTOU));
        let _stopped_then = stopping().thread_block();
        Self { before }
    }

    /// What is started meanwhile is stopped as this process would have been before.
    pub(crate) fn but_for<T>(&self, start: impl FnOnce() -> T) -> T {
        if self.before {
            return start();
        }
        let _cannot_fail = stopping().thread_unblock();
        let started = start();
        let _cannot_fail = stopping().thread_block();
        started
    }
}

/// What a terminal sends to those who write to it from the background.
fn stopping() -> SigSet {
    SigSet::from_iter([Blocked::SIGTTOU])
}

/// Makes a terminal listen to a group, also when it listens to neither this process nor that.
pub(crate) fn hand_over(tty: impl AsFd, group: Pid) {
    // Who is in the background is stopped for such a wish, unless this signal is blocked.
    let blocked = stopping().thread_block();
    let _it_hung_up = tcsetpgrp(tty, group);
    if blocked.is_ok() {
        let _unblocked = stopping().thread_unblock();
    }
}

/// Stops this process until its job is continued; not if nobody could continue it.
pub(crate) fn stop_with_the_job() {
    if !has_no_shell() {
        let _stopped_and_continued = kill_process(getpid(), Signal::STOP);
    }
}

/// The group of the session's leader has no shell above it that knows of jobs.
pub(crate) fn has_no_shell() -> bool {
    unistd::getsid(None).is_ok_and(|session| session == unistd::getpgrp())
}

/// Zero is the number of a group that this process cannot see.
pub(crate) fn own_group() -> Option<Pid> {
    Pid::from_raw(unistd::getpgrp().as_raw())
}
