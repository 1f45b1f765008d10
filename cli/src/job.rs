//! A job is what a shell starts, stops and continues in one go: the process group that this process is in.

use std::os::fd::AsFd;

use nix::sys::signal::{SigSet, Signal as Blocked};
use nix::unistd;
use rustix::process::{Pid, Signal, getpid, kill_process};
use rustix::termios::tcsetpgrp;

/// From now on, this process can write to its terminal from the background.
pub(crate) fn never_stopped_by_a_terminal() {
    let mut stopping = SigSet::empty();
    stopping.add(Blocked::SIGTTOU);
    let _stopped_then = stopping.thread_block();
}

/// Makes a terminal listen to a group, also when it listens to neither this process nor that.
pub(crate) fn hand_over(tty: impl AsFd, group: Pid) {
    // Who is in the background is stopped for such a wish, unless this signal is blocked.
    let mut stopping = SigSet::empty();
    stopping.add(Blocked::SIGTTOU);
    let blocked = stopping.thread_block();
    let _it_hung_up = tcsetpgrp(tty, group);
    if blocked.is_ok() {
        let _unblocked = stopping.thread_unblock();
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
