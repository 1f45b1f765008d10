//! A terminal listens to one process group: this module says which.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, Signal, kill_current_process_group};
use rustix::termios::tcgetpgrp;

use crate::child::Child;
use crate::job::{hand_over, has_no_shell, own_group, stop_with_the_job};
use crate::screen::Screen;
use crate::signals::Signals;

/// The terminal that controls this process, if there is one.
pub(crate) struct Terminal {
    tty: Option<OwnedFd>,
    /// This process's own group; `None` if that is led from outside of this container.
    own: Option<Pid>,
    /// The child has had it: it gets it again when the job is continued.
    lent: bool,
}

impl Terminal {
    pub(crate) fn find() -> Self {
        let tty = [of(io::stdin()), of(io::stdout()), of(io::stderr())];
        Self { tty: tty.into_iter().flatten().next(), own: own_group(), lent: false }
    }

    /// Whether the child is to take the terminal before its first step: it is alone before it.
    /// One in a pipeline gets it when it asks, because another program there may be asking too.
    pub(crate) fn lend_at_start(&mut self) -> bool {
        self.lent = Screen::is_interactive() && self.listens_to_own();
        self.lent
    }

    /// The child has stopped: what that means for the job of which this process is a part.
    pub(crate) fn stopped(&mut self, child: &mut Child, signal: Signal, signals: &Signals) {
        let Some(group) = child.group() else { return };
        let asks = matches!(signal, Signal::TTIN | Signal::TTOU);
        if asks && self.listens_to_own() {
            // It wants the terminal, and the job has it.
            self.lent = true;
            self.give(group);
            child.signal(Signal::CONT);
            return;
        }
        if self.tty.is_none() || !(asks || signal == Signal::TSTP) {
            // Somebody stopped it by hand, and will continue it by hand.
            return;
        }
        self.take_back(group);
        if !has_no_shell() {
            // As if the terminal had stopped the whole job.
            let _others_stop = kill_current_process_group(Signal::TSTP);
            stop_with_the_job();
            // This process heard it too, and is over it.
            signals.forget(Signal::TSTP);
        }
        if self.lent && self.listens_to_own() {
            self.give(group);
        }
        child.signal(Signal::CONT);
    }

    /// Gives the terminal back to this process's own group, if the child's group has it.
    fn take_back(&self, group: Pid) -> bool {
        let had_it = self.listens_to(group);
        if let Some(own) = self.own.filter(|_| had_it) {
            self.give(own);
        }
        had_it
    }

    /// The child has ended, by this signal: if that was a key, it was meant for the whole job, as a script is that
    /// has started this process.
    pub(crate) fn ended(&self, group: Pid, by: Option<Signal>) {
        let had_it = self.take_back(group);
        if let Some(signal @ (Signal::INT | Signal::QUIT)) = by.filter(|_| had_it) {
            let _others_end = kill_current_process_group(signal);
        }
    }

    fn listens_to(&self, group: Pid) -> bool {
        self.tty.as_ref().is_some_and(|tty| tcgetpgrp(tty) == Ok(group))
    }

    fn listens_to_own(&self) -> bool {
        self.own.is_some_and(|own| self.listens_to(own))
    }

    fn give(&self, group: Pid) {
        if let Some(tty) = &self.tty {
            hand_over(tty, group);
        }
    }
}

fn of(stream: impl AsFd) -> Option<OwnedFd> {
    if !stream.as_fd().is_terminal() || tcgetpgrp(&stream).is_err() {
        return None;
    }
    stream.as_fd().try_clone_to_owned().ok()
}
