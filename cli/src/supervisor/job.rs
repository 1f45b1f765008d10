//! Job control: the process group that a shell starts, stops and continues as one.

use std::os::fd::AsFd;

use nix::sys::signal::{SigSet, Signal as Blocked};
use nix::unistd;
use rustix::process::{Pid, Signal, getpid, kill_process};
use rustix::termios::{OptionalActions, Termios, tcsetattr, tcsetpgrp};

/// TTOU, blocked for this process: it can write to its terminal from the background.
pub(crate) struct TtouBlocked {
    /// Whether TTOU was blocked before.
    before: bool,
}

impl TtouBlocked {
    pub(crate) fn new() -> Self {
        let before = SigSet::thread_get_mask().is_ok_and(|mask| mask.contains(Blocked::SIGTTOU));
        let _ = ttou().thread_block(); // fails only for an invalid argument
        Self { before }
    }

    /// Calls `start` with the mask of before, so that a process that it starts inherits that.
    pub(crate) fn suspended<T>(&self, start: impl FnOnce() -> T) -> T {
        if self.before {
            return start();
        }
        let _ = ttou().thread_unblock(); // fails only for an invalid argument
        let started = start();
        let _ = ttou().thread_block();
        started
    }
}

/// The signal that a terminal sends to a background process that writes to it.
fn ttou() -> SigSet {
    SigSet::from_iter([Blocked::SIGTTOU])
}

/// Makes `group` the foreground group of a terminal, also from the background.
pub(crate) fn hand_over(tty: impl AsFd, group: Pid) {
    without_ttou(|| {
        let _ = tcsetpgrp(tty, group); // the terminal may have hung up
    });
}

/// Sets the modes of a terminal, also from the background.
pub(crate) fn set_modes(tty: impl AsFd, modes: &Termios) {
    without_ttou(|| {
        let _ = tcsetattr(tty, OptionalActions::Now, modes); // the terminal may have hung up
    });
}

/// Calls `change` with TTOU blocked: a change of a terminal from the background raises it.
fn without_ttou(change: impl FnOnce()) {
    let blocked = ttou().thread_block();
    change();
    if blocked.is_ok() {
        let _ = ttou().thread_unblock();
    }
}

/// Stops this process until its job is continued, unless no shell could continue it.
pub(crate) fn stop_with_the_job() {
    if !has_no_shell() {
        let _ = kill_process(getpid(), Signal::STOP); // a process may always signal itself
    }
}

/// Whether this process is in the session leader's group: no shell above it controls jobs.
pub(crate) fn has_no_shell() -> bool {
    unistd::getsid(None).is_ok_and(|session| session == unistd::getpgrp())
}

/// This process's group; `None` if the group lies outside of this container and has no number here.
pub(crate) fn own_group() -> Option<Pid> {
    Pid::from_raw(unistd::getpgrp().as_raw())
}
