//! Stopping a child after the loss of its lock: TERM, then KILL, until all its processes are gone.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::alarm::NEVER;
use super::child::{Child, ChildEvent};
use super::signals::{Signals, is_ending};
use crate::failure::say;

/// Maximum wait for killed processes to disappear under a lease. They are gone at once, unless the
/// kernel is stuck with one or it may not be killed.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Ends all processes of the child, with KILL after `grace`. Returns once they are gone, with the
/// signal that asked this process to end meanwhile. A lock without a lease is kept until then.
pub(crate) fn stop(
    signals: &mut Signals,
    child: &mut Child,
    grace: Duration,
    is_leased: bool,
) -> io::Result<Option<Signal>> {
    let began = Instant::now();
    let mut asked = None;
    child.stop(grace);
    loop {
        for signal in signals.take().into_iter().filter(|signal| is_ending(*signal)) {
            child.signal(signal);
            asked = Some(signal);
        }
        while let Some(event) = child.event() {
            match event {
                ChildEvent::Gone => {
                    child.reap_keeper();
                    return Ok(asked);
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
            say("a process of the command cannot be killed");
            return Ok(asked);
        }
        signals.wait(is_leased.then_some(left))?;
    }
}
