//! Attempts: how often one client tries to connect to one server, for whichever of its links.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::{Error, jitter};
use tokio::sync::Notify;

use crate::rate_limiter::{EACH, RateLimiter};
use crate::server::Origin;

/// An attempt whose turn would come later than this is refused.
const TURN_MAX: Duration = Duration::from_secs(2);
/// So many of the attempts that may be made at once are left to the home link, which gives the signs of life: callers
/// whose runtimes come and go must not use up what it needs when it is lost.
const LEFT_TO_HOME: u32 = 1;
/// The pause after a failure; it doubles with each failure that follows. The longest pause is shorter than the time
/// for which a verb is asked again, so that every verb sees the server tried.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The attempts of one client at one server.
#[derive(Default)]
pub(crate) struct ConnectPolicy {
    state: Mutex<State>,
    /// Notified when an attempt at a server in trouble has ended.
    tried: Notify,
}

#[derive(Default)]
struct State {
    pace: RateLimiter,
    trouble: Option<LastFailure>,
}

/// The last attempt failed, or the server did not answer.
struct LastFailure {
    reason: Error,
    pause: Duration,
    until: Instant,
    is_tried: bool,
}

/// Why no attempt may be made now: what was wrong with the server when it was tried last.
pub(crate) enum BackedOff {
    /// Another connection's attempt is under way.
    Tried(Error),
    /// It is not the time for the next one.
    Paused(Error),
}

/// An attempt that may be made. Dropped without an outcome, it does not count as a failure.
pub(crate) struct Attempt {
    attempts: Arc<ConnectPolicy>,
    /// It finds out whether the trouble is over.
    is_trial: bool,
}

impl ConnectPolicy {
    /// Asks to make an attempt. It may begin after the time that comes with it.
    pub(crate) fn ask(self: &Arc<Self>, side: Origin) -> Result<(Attempt, Duration), BackedOff> {
        let (mut state, now) = (self.state(), Instant::now());
        let is_trial = state.trouble.is_some();
        if let Some(trouble) = &mut state.trouble {
            // A caller's runtime may stand still in the middle of its attempt, and the home link must not wait for that.
            if trouble.is_tried && side == Origin::Caller {
                return Err(BackedOff::Tried(trouble.reason.clone()));
            }
            if now < trouble.until {
                return Err(BackedOff::Paused(trouble.reason.clone()));
            }
        }
        let turn = match side {
            Origin::Home => state.pace.turn(now, 0, TURN_MAX),
            Origin::Caller => state.pace.turn(now, LEFT_TO_HOME, Duration::ZERO),
        };
        let Some(turn) = turn else {
            return Err(BackedOff::Paused(Error::unavailable(format!(
                "this client has made too many connections to make one more now: it makes one in {EACH:?}"
            ))));
        };
        if let Some(trouble) = &mut state.trouble {
            trouble.is_tried = true;
        }
        Ok((Attempt { attempts: self.clone(), is_trial }, turn))
    }

    /// The server does not answer: until the pause is over, attempts are refused with this reason.
    pub(crate) fn fail(&self, reason: &Error) {
        let now = Instant::now();
        let mut state = self.state();
        let pause = match &mut state.trouble {
            // Other connections failed for the same reason at the same time: that is one failure.
            Some(trouble) if now < trouble.until || trouble.is_tried => return,
            Some(trouble) => (trouble.pause * 2).min(PAUSE_MAX),
            None => PAUSE_FIRST,
        };
        let until = now + jitter(pause, getrandom::u64().unwrap_or(0));
        state.trouble = Some(LastFailure { reason: reason.clone(), pause, until, is_tried: false });
    }

    /// Why the server cannot be reached, as far as is known.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.state().trouble.as_ref().map(|trouble| trouble.reason.clone())
    }

    /// For how long no attempt may be made.
    pub(crate) fn pause(&self) -> Duration {
        let state = self.state();
        let until = state.trouble.as_ref().map(|trouble| trouble.until);
        until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
            .max(PAUSE_FIRST)
    }

    /// Returns once the attempt that is under way has ended.
    pub(crate) async fn tried(&self) {
        self.tried.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        // The wakers are those of the callers' executors, one of which may panic: that is not this attempt's affair.
        let tried = AssertUnwindSafe(|| self.attempts.tried.notify_waiters());
        let _it_was_said = catch_unwind(tried);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason() -> Error {
        Error::unavailable("nobody is there")
    }

    fn goes(attempts: &Arc<ConnectPolicy>) -> Option<(Attempt, Duration)> {
        attempts.ask(Origin::Caller).ok()
    }

    #[test]
    fn callers_leave_it_to_the_home_link_to_go_at_once() {
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
    fn after_a_failure_nobody_goes_for_a_pause_and_then_one_alone() {
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
            "the home link does not wait for a caller that may stand still"
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
        let pause = attempts.state().trouble.as_ref().unwrap().pause;
        assert_eq!(pause, PAUSE_FIRST);
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let attempts = Arc::new(ConnectPolicy::default());
        for _ in 0..10 {
            attempts.fail(&reason());
            attempts.state().trouble.as_mut().unwrap().until = Instant::now();
        }
        assert_eq!(attempts.state().trouble.as_ref().unwrap().pause, PAUSE_MAX);
    }
}
