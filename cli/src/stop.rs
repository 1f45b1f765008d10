//! Stopping a child whose lock is lost: TERM, then KILL, and nothing of its group is left.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bell::Bell;
use crate::child::{Child, News};

/// How often to look for those that the child has left behind: nobody rings for them.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// What is killed is gone at once, unless the kernel itself is stuck with it.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Ends the child's whole group, politely until `patience` is over. Returns when it is gone, and
/// says whether this process was asked to end meanwhile.
pub(crate) fn stop(
    bell: &mut Bell,
    child: &Child,
    patience: Duration,
) -> io::Result<Option<Signal>> {
    adopt_orphans();
    let began = Instant::now();
    // One that is stopped must go on to end; and killing is sure.
    child.signal(if patience.is_zero() { Signal::KILL } else { Signal::TERM });
    child.signal(Signal::CONT);
    let mut asked = None;
    let mut buried = false;
    let mut killed = patience.is_zero();
    loop {
        for signal in bell.signals().into_iter().filter(|signal| crate::bell::is_ending(*signal)) {
            child.signal(signal);
            asked = Some(signal);
        }
        if !buried && matches!(child.news()?, Some(News::Ended(_))) {
            child.bury();
            buried = true;
        }
        if buried && !child.has_left_somebody() {
            return Ok(asked);
        }
        let left = patience.saturating_sub(began.elapsed());
        if left.is_zero() {
            // Again and again: whoever was being started meanwhile is meant too.
            child.signal(Signal::KILL);
            if killed && buried && began.elapsed() > patience + GONE_WITHIN {
                crate::failure::say("something that the command has started cannot be killed");
                return Ok(asked);
            }
            killed = true;
        }
        let nap = if buried || killed { LOOK_EVERY } else { left };
        bell.wait(Some(nap))?;
    }
}

/// Those of the group whose own parents end become this process's, which sees them end.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn adopt_orphans() {
    let _then_another_does = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn adopt_orphans() {}
