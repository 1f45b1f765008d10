//! When one client may try to connect to one server: a rate limit and a backoff, which all links of
//! the client share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use tenure_core::sync::Mutex;
use tenure_core::{Backoff, Error};
use tokio::sync::Notify;

use crate::rate_limiter::{EACH, RateLimiter};
use crate::server::Origin;

/// Maximum wait for an attempt under the rate limit. Further attempts are refused.
const TURN_MAX: Duration = Duration::from_secs(2);
/// Attempts reserved for the home link, which sends the renewals. Callers' runtimes that come and
/// go could otherwise use up all attempts.
const LEFT_TO_HOME: u32 = 1;
/// The pause after the first failure. Each further failure doubles it, up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// The longest pause. It is shorter than the time for which a verb is retried, so that every verb
/// lives through an attempt.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The connect policy of one client for one server.
#[derive(Default)]
pub(crate) struct ConnectPolicy {
    state: Mutex<ConnectState>,
    /// Notified when an attempt has ended.
    tried: Notify,
}

#[derive(Default)]
struct ConnectState {
    limiter: RateLimiter,
    /// Present while the last attempt failed or the server does not answer.
    trouble: Option<LastFailure>,
    /// The backoff after the last failure.
    backoff: Option<Backoff>,
}

struct LastFailure {
    reason: Error,
    until: Instant,
    /// Whether a trial is under way.
    is_tried: bool,
}

/// Why no attempt may be made now, with the reason of the last failure.
pub(crate) enum BackedOff {
    /// Another attempt is under way.
    Tried(Error),
    /// The pause is not over, or the rate limit is reached.
    Paused(Error),
}

/// A permit for one attempt. If it is dropped without an outcome, it does not count as a failure.
pub(crate) struct Attempt {
    attempts: Arc<ConnectPolicy>,
    /// Whether this attempt finds out if the server works again.
    is_trial: bool,
}

impl ConnectPolicy {
    /// Returns a permit for an attempt, and the time after which it may begin.
    pub(crate) fn ask(self: &Arc<Self>, side: Origin) -> Result<(Attempt, Duration), BackedOff> {
        let (mut state, now) = (self.state(), Instant::now());
        let is_trial = state.trouble.is_some();
        if let Some(trouble) = &mut state.trouble {
            // A caller may block its runtime in the middle of a trial. The home link does not wait
            // for such a trial.
            if trouble.is_tried && side == Origin::Caller {
                return Err(BackedOff::Tried(trouble.reason.clone()));
            }
            if now < trouble.until {
                return Err(BackedOff::Paused(trouble.reason.clone()));
            }
        }
        let turn = match side {
            Origin::Home => state.limiter.turn(now, 0, TURN_MAX),
            Origin::Caller => state.limiter.turn(now, LEFT_TO_HOME, Duration::ZERO),
        };
        let Some(turn) = turn else {
            return Err(BackedOff::Paused(Error::unavailable(format!(
                "this client has opened too many connections: it opens one every {EACH:?}"
            ))));
        };
        if let Some(trouble) = &mut state.trouble {
            trouble.is_tried = true;
        }
        Ok((Attempt { attempts: self.clone(), is_trial }, turn))
    }

    /// Notes that the server does not answer. Refuses attempts with `reason` until the pause is
    /// over.
    pub(crate) fn fail(&self, reason: &Error) {
        self.fail_after(reason, false);
    }

    /// As [`fail`](Self::fail), where a connection could be opened meanwhile, and its server has
    /// answered nothing: the pauses go on to grow.
    pub(crate) fn fail_again(&self, reason: &Error) {
        self.fail_after(reason, true);
    }

    fn fail_after(&self, reason: &Error, is_again: bool) {
        let now = Instant::now();
        let mut state = self.state();
        let is_again = match &state.trouble {
            // Connections that fail at the same time count as one failure.
            Some(trouble) if now < trouble.until || trouble.is_tried => return,
            Some(_) => true,
            None => is_again,
        };
        let last = state.backoff.take().filter(|_| is_again);
        let mut backoff = last.unwrap_or(Backoff::new(PAUSE_FIRST, PAUSE_MAX));
        let until = now + backoff.pause();
        state.backoff = Some(backoff);
        state.trouble = Some(LastFailure { reason: reason.clone(), until, is_tried: false });
    }

    /// Returns the reason of the last failure, if the server is not known to work again.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.state().trouble.as_ref().map(|trouble| trouble.reason.clone())
    }

    /// Returns how long no attempt may be made, at least [`PAUSE_FIRST`].
    pub(crate) fn pause(&self) -> Duration {
        let state = self.state();
        let until = state.trouble.as_ref().map(|trouble| trouble.until);
        until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
            .max(PAUSE_FIRST)
    }

    /// Waits until an attempt has ended.
    pub(crate) async fn tried(&self) {
        self.tried.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, ConnectState> {
        self.state.lock()
    }
}

impl Attempt {
    pub(crate) fn succeeded(self) {
        self.attempts.state().trouble = None;
    }

    pub(crate) fn failed(mut self, reason: &Error) {
        self.ends();
        self.attempts.fail(reason);
    }

    fn ends(&mut self) {
        if std::mem::take(&mut self.is_trial)
            && let Some(trouble) = &mut self.attempts.state().trouble
        {
            trouble.is_tried = false;
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.ends();
        let notify = AssertUnwindSafe(|| self.attempts.tried.notify_waiters());
        let _ = catch_unwind(notify); // A waker of a caller's executor may panic.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason() -> Error {
        Error::unavailable("no server is there")
    }

    fn goes(attempts: &Arc<ConnectPolicy>) -> Option<(Attempt, Duration)> {
        attempts.ask(Origin::Caller).ok()
    }

    #[test]
    fn callers_leave_an_immediate_attempt_to_the_home_link() {
        let attempts = Arc::new(ConnectPolicy::default());
        let of = |side| -> Vec<Duration> {
            (0..100).map_while(|_| attempts.ask(side).ok()).map(|it| it.1).collect()
        };
        let (callers, home) = (of(Origin::Caller), of(Origin::Home));
        assert!(callers.len() > 1 && callers.iter().all(Duration::is_zero), "{callers:?}");
        assert!(home[0].is_zero() && home.len() > 1 && home.len() < 20, "{home:?}");
        assert!(home.iter().all(|turn| *turn <= TURN_MAX), "{home:?}");
    }

    #[test]
    fn after_a_failure_there_is_a_pause_and_then_a_single_trial() {
        let attempts = Arc::new(ConnectPolicy::default());
        goes(&attempts).unwrap().0.failed(&reason());
        assert!(
            matches!(attempts.ask(Origin::Caller), Err(BackedOff::Paused(error)) if error.to_string() == reason().to_string())
        );
        std::thread::sleep(PAUSE_FIRST);
        let trial = goes(&attempts).unwrap().0;
        assert!(matches!(attempts.ask(Origin::Caller), Err(BackedOff::Tried(_))));
        assert!(
            attempts.ask(Origin::Home).is_ok(),
            "the home link does not wait for a caller that may block its runtime"
        );
        trial.failed(&reason());
        assert!(matches!(attempts.ask(Origin::Caller), Err(BackedOff::Paused(_))));
        std::thread::sleep(PAUSE_FIRST * 2);
        drop(goes(&attempts).unwrap());
        goes(&attempts).unwrap().0.succeeded();
        assert!(attempts.trouble().is_none() && goes(&attempts).is_some());
    }

    #[test]
    fn many_failures_at_once_are_one() {
        let attempts = Arc::new(ConnectPolicy::default());
        let at_once: Vec<_> = (0..5).map(|_| goes(&attempts).unwrap().0).collect();
        for attempt in at_once {
            attempt.failed(&reason());
        }
        let mut backoff = attempts.state().backoff.clone().unwrap();
        assert!(backoff.next(u64::MAX) <= PAUSE_FIRST * 2, "it has failed once");
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let attempts = Arc::new(ConnectPolicy::default());
        for _ in 0..10 {
            attempts.fail(&reason());
            attempts.state().trouble.as_mut().unwrap().until = Instant::now();
        }
        let mut backoff = attempts.state().backoff.clone().unwrap();
        let pause = backoff.next(u64::MAX);
        assert!((PAUSE_MAX * 99 / 100..=PAUSE_MAX).contains(&pause), "{pause:?}");
    }

    #[test]
    fn pauses_grow_while_connections_are_opened_and_answer_nothing() {
        let attempts = Arc::new(ConnectPolicy::default());
        let next_pause = || {
            // As a connection that was opened does it.
            attempts.state().trouble = None;
            attempts.state().backoff.clone().unwrap().next(u64::MAX)
        };
        attempts.fail(&reason());
        let first = next_pause();
        let mut last = first;
        for _ in 0..10 {
            attempts.fail_again(&reason());
            last = next_pause();
        }
        assert!(last > first * 4 && last <= PAUSE_MAX, "{last:?}");
        attempts.fail(&reason());
        assert_eq!(next_pause(), first, "the server had answered");
    }
}
