//! The server's clock as a client knows it.

use std::time::Duration;

use tenure_core::sync::Mutex;
use tokio::time::Instant;

use crate::format::micros;

/// Maximum age of a statement that joins or writes, if the client's time limit is longer. Orphans
/// are twice as old when they are deleted.
const LATE_MAX: Duration = Duration::from_secs(300);

/// The server's clock at a moment of this process, from the last answer, in microseconds.
///
/// A silent server may carry out a statement long after its client has given it up. So each
/// statement that joins or writes has a latest time, on the server's clock.
pub struct ServerClock {
    read: Mutex<(Instant, u64)>,
    late_us: u64,
}

impl ServerClock {
    /// Returns a clock for requests that are no longer waited for after this time.
    pub fn new(asked: Instant, now_us: u64, answers_within: Duration) -> Self {
        let late_us = micros(answers_within.min(LATE_MAX));
        Self { read: Mutex::new((asked, now_us)), late_us }
    }

    /// Keeps the time of an answer.
    pub fn set(&self, now_us: u64) {
        *self.read.lock() = (Instant::now(), now_us);
    }

    /// Returns the latest time of a statement that is sent now.
    pub fn latest_us(&self) -> u64 {
        let (at, now_us) = *self.read.lock();
        self.latest_after(now_us.saturating_add(micros(at.elapsed())))
    }

    /// Returns the latest time of a statement that follows an answer of this time.
    pub fn latest_after(&self, now_us: u64) -> u64 {
        now_us.saturating_add(self.late_us)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance};

    use super::{LATE_MAX, ServerClock};

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_between_two_answers() {
        let clock = ServerClock::new(Instant::now(), 5_000_000, 2 * SECOND);
        advance(SECOND).await;
        assert_eq!(clock.latest_us(), 8_000_000);
        clock.set(100);
        assert_eq!(clock.latest_us(), 2_000_100);
        assert_eq!(clock.latest_after(7), 2_000_007);
        let long = ServerClock::new(Instant::now(), 0, Duration::MAX);
        assert_eq!(Duration::from_micros(long.latest_us()), LATE_MAX);
        assert_eq!(long.latest_after(u64::MAX), u64::MAX);
    }
}
