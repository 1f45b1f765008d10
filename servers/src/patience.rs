//! Repeats a question until it succeeds or the time limit is over.

use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// Time limit for any condition. It only ends a hang: at a load of 33 on two cores, a server in
/// Java takes 16 s until it serves.
pub(crate) const PATIENCE_MAX: Duration = Duration::from_secs(120);
/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(5);

/// Returns the first success, or the last error after [`PATIENCE_MAX`].
pub(crate) fn until<T>(mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    let mut last = None;
    let asked = Instant::now();
    while last.is_none() || asked.elapsed() < PATIENCE_MAX {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(reason) => last = Some(reason),
        }
        thread::sleep(PAUSE);
    }
    let reason = last.expect("it was asked at least once");
    Err(format!("{reason} That was so for {PATIENCE_MAX:?}."))
}
