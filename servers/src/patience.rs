//! Patience has a limit: a thing is asked for again and again, and at the end it is said what was wrong.

use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// How long anything may take until it is so.
pub(crate) const PATIENCE_MAX: Duration = Duration::from_secs(20);
/// How often it is looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// The first good answer, or the last bad one.
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
