//! The controlling terminal, and which process group has it.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, Signal, kill_current_process_group};
use rustix::termios::{Termios, tcgetattr, tcgetpgrp};

use super::child::Child;
use super::job::{hand_over, has_no_shell, own_group, set_modes, stop_with_the_job};
use super::signals::Signals;
use crate::screen::Screen;

/// The controlling terminal of this process, if there is one.
pub(crate) struct Terminal {
    tty: Option<OwnedFd>,
    /// The terminal's modes before the child.
    modes: Option<Termios>,
    /// This process's group; `None` if its leader is outside of this container.
    own: Option<Pid>,
    /// The child has had the terminal, and gets it again when the job is continued.
    lent: bool,
}

impl Terminal {
    pub(crate) fn find() -> Self {
        let tty = [of(io::stdin()), of(io::stdout()), of(io::stderr())];
        let tty = tty.into_iter().flatten().next();
        let modes = tty.as_ref().and_then(|tty| tcgetattr(tty).ok());
        Self { tty, modes, own: own_group(), lent: false }
    }

    /// Returns whether the child takes the terminal at its start: nothing else reads it. A child
    /// in a pipeline gets it when it asks, because other programs there may ask, too.
    pub(crate) fn lend_at_start(&mut self) -> bool {
        self.lent = Screen::is_interactive() && self.is_of_own();
        self.lent
    }

    /// Handles a stop of the child: stops and continues the whole job with it.
    pub(crate) fn stopped(&mut self, child: &mut Child, signal: Signal, signals: &Signals) {
        let Some(group) = child.group() else { return };
        let asks = matches!(signal, Signal::TTIN | Signal::TTOU);
        if asks && self.is_of_own() {
            // The child asks for the terminal, and this job has it.
            self.lent = true;
            self.give(group);
            child.signal(Signal::CONT);
            return;
        }
        if self.tty.is_none() || !(asks || signal == Signal::TSTP) {
            // STOP came from a user, who will also send CONT.
            return;
        }
        self.take_back(group);
        if !has_no_shell() {
            // Stop the whole job, as the terminal does.
            let _ = kill_current_process_group(Signal::TSTP); // it is this process's own group
            stop_with_the_job();
            // This process got TSTP, too, and has handled it.
            signals.discard(Signal::TSTP);
        }
        if self.lent && self.is_of_own() {
            self.give(group);
        }
        child.signal(Signal::CONT);
    }

    /// Takes the terminal back for this process's group, if the child's group has it.
    fn take_back(&self, group: Pid) -> bool {
        let had_it = self.is_of(group);
        if let Some(own) = self.own.filter(|_| had_it) {
            self.give(own);
        }
        had_it
    }

    /// Handles the end of the child. As in shells, the modes of a child that has exited by itself
    /// stay, for example those of `stty`, and those of any other are undone.
    ///
    /// A signal from the keyboard was meant for the whole job, for example for the script that has
    /// started this process.
    pub(crate) fn ended(&self, group: Pid, has_exited: bool, by: Option<Signal>) {
        let had_it = self.take_back(group);
        if let (Some(tty), Some(modes)) = (&self.tty, &self.modes)
            && had_it
            && !has_exited
        {
            set_modes(tty, modes);
        }
        if let Some(signal @ (Signal::INT | Signal::QUIT)) = by.filter(|_| had_it) {
            let _ = kill_current_process_group(signal); // it is this process's own group
        }
    }

    fn is_of(&self, group: Pid) -> bool {
        self.tty.as_ref().is_some_and(|tty| tcgetpgrp(tty) == Ok(group))
    }

    fn is_of_own(&self) -> bool {
        self.own.is_some_and(|own| self.is_of(own))
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
