//! The retry budget: how long a command waits for its lock and for a store that does not answer.

use std::future::pending;
use std::time::{Duration, Instant};
use tenure::engine::Backoff;
use tenure_kit::duration::brief;

use crate::failure::{Failure, UNREACHABLE, say};
use crate::progress::LONG;
use crate::screen::Screen;
use crate::supervisor::signals::Signals;

/// First and longest pause between two attempts.
pub(crate) const PAUSE_FIRST: Duration = Duration::from_millis(100);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(2);
/// One millisecond, in nanoseconds.
const MILLI: u32 = 1_000_000;

/// A time to wait, and when it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryBudget {
    began: Instant,
    /// `None`: no limit; zero: do not wait.
    wait: Option<Duration>,
    quiet: bool,
}

impl RetryBudget {
    /// A budget that begins now.
    pub(crate) fn new(wait: Option<Duration>, quiet: bool) -> Self {
        Self { began: Instant::now(), wait, quiet }
    }

    /// The whole time to wait, if there is a limit and it is not zero.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait.filter(|wait| !wait.is_zero())
    }

    /// The time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether messages are suppressed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The time that is left, rounded up to milliseconds; `None` without a limit.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.wait.map(|wait| wait.saturating_sub(self.began.elapsed()));
        left.map(|left| Duration::new(left.as_secs(), left.subsec_nanos().div_ceil(MILLI) * MILLI))
    }

    /// Waits for a future as long as time is left; `None` once it is over. Without a limit, or with
    /// a limit of zero, it waits until the future is ready: the future has its own limits.
    pub(crate) fn within<F: Future>(
        &self,
        signals: &mut Signals,
        future: F,
    ) -> Result<Option<F::Output>, Failure> {
        let ended = match self.wait() {
            Some(wait) => signals.within(wait.saturating_sub(self.began.elapsed()), future)?,
            None => signals.until(future, |_| None)?.map(Some),
        };
        ended.map_err(Failure::asked)
    }

    /// Retries with backoff while the store is unreachable and time is left. Without a limit it
    /// does not retry: a store whose name is wrong never answers.
    pub(crate) fn outlast<T>(
        &self,
        signals: &mut Signals,
        mut attempt: impl FnMut(&mut Signals) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (mut backoff, mut reported) = (Backoff::new(PAUSE_FIRST, PAUSE_MAX), self.quiet);
        loop {
            let failure = match attempt(signals) {
                Err(failure) if failure.code() == UNREACHABLE => failure,
                outcome => return outcome,
            };
            let Some(left) = self.left().filter(|left| !left.is_zero()) else {
                return Err(failure);
            };
            if !reported && (Screen::of_errors().is_some() || self.began.elapsed() >= LONG) {
                reported = true;
                say(&format!("retrying for {}: {}", brief(left), failure.sentence()));
            }
            if let Err(signal) = signals.within(backoff.pause().min(left), pending::<()>())? {
                return Err(Failure::asked(signal));
            }
        }
    }
}
