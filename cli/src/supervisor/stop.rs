//! Stopping a child after the loss of its lock: TERM, then KILL, until all its processes are gone.

use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::process::Signal;

use super::alarm::NEVER;
use super::child::{Child, ChildEvent};
use super::signals::{Signals, is_ending};
use crate::failure::say;
use crate::store::SETTLE_MAX;

/// Maximum wait for killed processes to disappear under a lease. They are gone at once, unless the
/// kernel is stuck with one or it may not be killed.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// The end of the processes of a child.
pub(crate) struct Stopped {
    /// The signal that asked this process to end meanwhile.
    pub(crate) asked: Option<Signal>,
    /// All processes are gone. `false`: one cannot be killed, and the lock has a lease.
    pub(crate) are_gone: bool,
}

/// Ends all processes of the child, with KILL after `grace`, and reports why. Returns once they are
/// gone. A lock without a lease is kept until then.
pub(crate) fn stop(
    signals: &mut Signals,
    child: &mut Child,
    why: String,
    grace: Duration,
    is_leased: bool,
) -> io::Result<Stopped> {
    let began = Instant::now();
    let mut asked = None;
    child.stop(grace);
    report(why);
    loop {
        for signal in signals.take().into_iter().filter(|signal| is_ending(*signal)) {
            child.signal(signal);
            asked = Some(signal);
        }
        while let Some(event) = child.event() {
            match event {
                ChildEvent::Gone => {
                    child.reap_keeper();
                    return Ok(Stopped { asked, are_gone: true });
                }
                ChildEvent::Orphaned => {
                    child.adopt(NEVER)?;
                    signals.wake_on_only(&*child)?;
                    child.stop(grace.saturating_sub(began.elapsed()));
                }
                ChildEvent::Ended(_) | ChildEvent::Paused(_) | ChildEvent::Late => {}
            }
        }
        let left = (grace + GONE_WITHIN).saturating_sub(began.elapsed());
        if is_leased && left.is_zero() {
            return Ok(Stopped { asked, are_gone: false });
        }
        signals.wait(is_leased.then_some(left))?;
    }
}

/// Reports a sentence from another thread: another writer may fill a pipe that accepts bytes, and
/// the lock must not wait for its reader.
fn report(sentence: String) {
    let (done, reported) = mpsc::channel();
    thread::spawn(move || {
        say(&sentence);
        let _ = done.send(()); // the process may have stopped waiting for it
    });
    let _ = reported.recv_timeout(SETTLE_MAX); // the thread goes on
}
