//! Stopping a child whose lock is lost: TERM, then KILL, and nothing that descends from it is left.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::alarm::NEVER;
use crate::child::{Child, News};
use crate::failure::say;
use crate::signals::{Signals, is_ending};

/// What is killed is gone at once, unless the kernel itself is stuck with it, or it may not be killed. A lease
/// cannot be kept for it.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Ends all that descends from the child, politely until `patience` is over. Returns when it is gone, and says
/// whether this process was asked to end meanwhile. A lock that has no lease is kept until then.
pub(crate) fn stop(
    signals: &mut Signals,
    child: &mut Child,
    patience: Duration,
    is_leased: bool,
) -> io::Result<Option<Signal>> {
    let began = Instant::now();
    let mut asked = None;
    child.stop(patience);
    loop {
        for signal in signals.heard().into_iter().filter(|signal| is_ending(*signal)) {
            child.signal(signal);
            asked = Some(signal);
        }
        while let Some(news) = child.news() {
            match news {
                News::Gone => {
                    child.bury_keeper();
                    return Ok(asked);
                }
                News::Orphaned => {
                    child.adopt(NEVER)?;
                    signals.listen_only(&*child)?;
                    child.stop(patience.saturating_sub(began.elapsed()));
                }
                News::Ended(_) | News::Paused(_) | News::Late => {}
            }
        }
        let left = (patience + GONE_WITHIN).saturating_sub(began.elapsed());
        if is_leased && left.is_zero() {
            say("something that the command has started cannot be killed");
            return Ok(asked);
        }
        signals.wait(is_leased.then_some(left))?;
    }
}
