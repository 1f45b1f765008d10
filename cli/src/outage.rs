//! An outage: a store that does not answer is asked again, for as long as somebody is willing to wait.

use std::future::pending;
use std::time::{Duration, Instant};
use tenure_kit::duration::brief;

use crate::failure::{Failure, UNREACHABLE, say};
use crate::screen::Screen;
use crate::signals::Signals;
use crate::waiting::LONG;

pub(crate) const PAUSE_FIRST: Duration = Duration::from_millis(100);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A millisecond, in nanoseconds.
const MILLI: u32 = 1_000_000;

/// How long somebody is willing to wait, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    began: Instant,
    /// `None` for ever, and zero not at all.
    wait: Option<Duration>,
    quiet: bool,
}

impl Patience {
    /// It begins now.
    pub(crate) fn new(wait: Option<Duration>, quiet: bool) -> Self {
        Self { began: Instant::now(), wait, quiet }
    }

    /// How long that is, if it is a time.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait.filter(|wait| !wait.is_zero())
    }

    /// How long it has been waited.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether nothing is to be said meanwhile.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// What is left of it, in whole milliseconds; `None` if it has no end.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.wait.map(|wait| wait.saturating_sub(self.began.elapsed()));
        left.map(|left| Duration::new(left.as_secs(), left.subsec_nanos().div_ceil(MILLI) * MILLI))
    }

    /// Waits for a future for as long as time is left; `None` once it is over. Without a limit, or with
    /// a limit of zero, it waits until the future is ready: the future has limits of its own.
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

    /// Tries again until the store answers or the time is over. Who has named no time is told at once: a
    /// store whose name is wrong never answers.
    pub(crate) fn outlast<T>(
        &self,
        signals: &mut Signals,
        mut attempt: impl FnMut(&mut Signals) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (mut pause, mut told) = (PAUSE_FIRST, self.quiet);
        loop {
            let failure = match attempt(signals) {
                Err(failure) if failure.code() == UNREACHABLE => failure,
                outcome => return outcome,
            };
            let Some(left) = self.left().filter(|left| !left.is_zero()) else {
                return Err(failure);
            };
            if !told && (Screen::of_errors().is_some() || self.began.elapsed() >= LONG) {
                told = true;
                say(&format!("trying again for {}: {}", brief(left), failure.sentence()));
            }
            if let Err(signal) = signals.within(pause.min(left), pending::<()>())? {
                return Err(Failure::asked(signal));
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
