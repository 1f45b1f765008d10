//! A run of a slot that has begun: its end is written by the holder of the lock.

use std::time::Duration;

use super::Once;
use super::history::{History, SlotRun, SlotState, time};
use crate::{Backoff, Error, LeaseHandle, Loss, Result};

/// First pause after a write that was not answered, and longest pause.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A run of a slot that has begun. If it is dropped, the slot counts as begun, and the next caller
/// runs it again.
///
/// ```
/// use tenure::{SlotStart, SlotState};
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let (nightly, guard) = (locks.once("nightly").slot("1"), locks.mutex("nightly").lock().await?);
/// let SlotStart::Begun(attempt) = nightly.start(&guard.handle()).await? else { unreachable!() };
/// attempt.failed().await?;
/// assert_eq!(nightly.slots().await?[0].state, SlotState::Failed);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "a run that has begun must be reported as succeeded or failed"]
pub struct SlotAttempt {
    pub(super) once: Once,
    pub(super) lease: LeaseHandle,
    pub(super) run: SlotRun,
    /// The text that this run wrote when it began.
    pub(super) text: String,
}

impl SlotAttempt {
    /// The name of the slot.
    pub fn slot(&self) -> &str {
        &self.run.slot
    }

    /// Number of runs of this slot that have begun, with this one.
    pub fn attempts(&self) -> u32 {
        self.run.attempts
    }

    /// Writes that the work has succeeded. Call it before the lock is released.
    ///
    /// # Errors
    ///
    /// In both cases the slot may run again:
    ///
    /// * [`Lost`](crate::ErrorKind::Lost): the lock was lost, and the success does not count.
    /// * [`Unavailable`](crate::ErrorKind::Unavailable): the store has not confirmed it.
    pub async fn succeeded(self) -> Result<()> {
        self.end(SlotState::Succeeded).await
    }

    /// Writes that the work has failed.
    ///
    /// # Errors
    ///
    /// Those of [`succeeded`](SlotAttempt::succeeded).
    pub async fn failed(self) -> Result<()> {
        self.end(SlotState::Failed).await
    }

    async fn end(self, state: SlotState) -> Result<()> {
        let Self { once, lease, mut run, text: mut seen } = self;
        let key = once.claim.key()?;
        let runtime = once.claim.locks.client.runtime.clone();
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        let mut history = History::parse(key, &seen)?;
        let mut unanswered = None;
        for _ in 0..super::WRITES_MAX {
            let now_ms = once.now_ms();
            (run.state, run.at) = (state, time(now_ms));
            run.kept_until = run.at.checked_add(once.keep).unwrap_or(run.kept_until);
            history.end(run.clone());
            let text = history.to_text();
            lease.check()?;
            match once.swap(&seen, &text).await {
                Ok(stored) if stored == text => return Ok(()),
                // An operator has reset a slot, or a later holder has begun a run.
                Ok(stored) => seen = stored,
                Err(error) if error.is_retryable() => {
                    unanswered = Some(error);
                    runtime.sleep(backoff.next(runtime.random())).await;
                    lease.check()?;
                    seen = match once.swap("", "").await {
                        Ok(stored) => stored,
                        Err(_) => continue,
                    };
                }
                Err(error) => return Err(error),
            }
            // Even if this run is in the text, its write was not confirmed: it is written anew.
            history = History::parse(key, &seen)?;
            if history.token > run.token.get() {
                return Err(Error::lost(Loss::Overtaken));
            }
        }
        Err(unanswered.unwrap_or_else(|| once.contended()))
    }
}
