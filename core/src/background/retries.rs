//! Requests that are sent again when their answers are lost.

use std::time::Duration;

use futures_util::future::{Either, select};

use crate::background::backoff::Backoff;
use crate::{Error, Result, Runtime, Time};

/// This part of the time is left to report that it is over.
const REPORT_PART: u32 = 16;

/// How often a request is sent again if its answer is lost, and the first pause before that.
///
/// ```
/// use tenure::engine::Retries;
///
/// const RETRIES: Retries = Retries::times(4);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    times: u32,
    pause: Duration,
}

impl Retries {
    /// Never again.
    pub const NONE: Self = Self::times(0);

    /// Up to this many times, the first after 50 ms. Each pause is twice as long as the one before.
    #[must_use]
    pub const fn times(times: u32) -> Self {
        Self { times, pause: Duration::from_millis(50) }
    }

    /// With this first pause.
    #[must_use]
    pub const fn after(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Sends a request until it is answered. The first attempt has its own time limit; further
    /// attempts begin and end within this time. The request may arrive more than once: it must
    /// only read, or do the same when it is repeated.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tenure::engine::{BackgroundRuntime, Retries};
    /// use tenure::Error;
    ///
    /// # tenure::blocking::block_on(async {
    /// let (runtime, mut lost) = (BackgroundRuntime::for_timers(), 1);
    /// let request = || {
    ///     lost -= 1;
    ///     let answer = if lost < 0 { Ok("answer") } else { Err(Error::unavailable("lost")) };
    ///     std::future::ready(answer)
    /// };
    /// let answer = Retries::times(4).run(&runtime, Duration::from_secs(5), request).await?;
    /// assert_eq!(answer, "answer");
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The first error that is not [retryable](Error::is_retryable), or the last error.
    pub async fn run<T, F: Future<Output = Result<T>>>(
        self,
        runtime: &dyn Runtime,
        within: Duration,
        mut request: impl FnMut() -> F,
    ) -> Result<T> {
        self.attempts(runtime, within, |_| request()).await.0
    }

    /// Sends a request until it is answered. It gets the number of attempts before.
    pub(crate) async fn attempts<T, F: Future<Output = Result<T>>>(
        self,
        runtime: &dyn Runtime,
        within: Duration,
        mut request: impl FnMut(u32) -> F,
    ) -> (Result<T>, Attempts) {
        let mut attempts = self.begin(runtime, within);
        loop {
            let before = attempts.sent;
            let outcome = attempts.send(runtime, || request(before)).await;
            if outcome.as_ref().is_err_and(Error::is_retryable) {
                match attempts.pause(runtime).await {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(error) => return (Err(error), attempts),
                }
            }
            return (outcome, attempts);
        }
    }

    pub(crate) fn begin(self, runtime: &dyn Runtime, within: Duration) -> Attempts {
        Attempts {
            left: self.times,
            sent: 0,
            pauses: Backoff::new(self.pause, Duration::MAX),
            over: runtime.now().plus(within.saturating_sub(within / REPORT_PART)),
            lost: None,
        }
    }
}

/// The attempts of one request. All of them together have one time limit.
pub(crate) struct Attempts {
    left: u32,
    /// Number of attempts that were sent.
    sent: u32,
    pauses: Backoff,
    over: Time,
    /// The error of the last attempt that was not answered.
    lost: Option<Error>,
}

impl Attempts {
    /// Sends the request. The first attempt has the engine's own time limit. Further attempts share
    /// the rest of the time.
    pub(crate) async fn send<T, F>(
        &mut self,
        runtime: &dyn Runtime,
        request: impl FnOnce() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.sent += 1;
        let outcome = match self.lost.take() {
            None => request().await,
            Some(lost) => {
                let late = runtime.sleep(runtime.now().until(self.over));
                // Boxed, because retries are rare and would enlarge the future of every operation.
                match select(Box::pin(request()), late).await {
                    Either::Left((outcome, _)) => outcome,
                    Either::Right(_) => Err(lost),
                }
            }
        };
        if let Err(error) = &outcome
            && error.is_retryable()
        {
            self.lost = Some(error.clone());
        }
        outcome
    }

    /// Waits before the next attempt. Returns `false` if there is none.
    ///
    /// # Errors
    ///
    /// The runtime has ended.
    pub(crate) async fn pause(&mut self, runtime: &dyn Runtime) -> Result<bool> {
        let pause = self.pauses.next(runtime.random());
        if self.left == 0 || runtime.now().plus(pause).has_reached(self.over) {
            return Ok(false);
        }
        self.left -= 1;
        tracing::trace!(error = ?self.lost, "sending the request again");
        runtime.ready()?;
        runtime.sleep(pause).await;
        Ok(true)
    }

    /// The outcome of a request that changes a line. If an attempt was not answered, the outcome is
    /// unknown even if a later one is refused.
    pub(crate) fn outcome<T>(&self, outcome: Result<T>) -> Result<T> {
        match outcome {
            Err(error) if self.sent > 1 && !error.is_retryable() => Err(Error::unavailable(
                format!("{error}; an earlier attempt was not answered, and may have succeeded"),
            )
            .caused_by(error)),
            outcome => outcome,
        }
    }
}
