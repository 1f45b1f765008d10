//! A session keeps all tickets of one ttl alive. Its end counts from before each sign of life was
//! sent.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{Either, join, select};
use tenure_core::sync::Mutex;
use tenure_core::{Loss, Result, Runtime, Time};
use tokio::sync::Mutex as AsyncMutex;

use crate::contract::{Granted, SessionId, SessionStore};

/// Part of a session's life for which the client waits for the answer to a sign of life.
const WAITS: u32 = 6;
/// Part of a session's life after which the next sign of life follows a failure or a timeout.
const HURRIES: u32 = 12;
/// Maximum signs of life in a row that come in a hurry because the store is not sure of half a
/// life. If it is not sure after half a life of them, it never is.
const UNSURE_MAX: u32 = HURRIES / 2;

/// Until when a session lives, as far as is known.
struct Life {
    ends: Time,
    /// When the last answered sign of life was sent.
    signed: Time,
}

/// One session of the store, as its owner knows it.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// How long it lives without a sign of life.
    pub(crate) granted: Duration,
    /// Interval of signs of life.
    every: Duration,
    life: Mutex<Life>,
    /// When the request for it was sent.
    opened: Time,
    over: AtomicBool,
    /// A task is ending it in the store.
    ends_in_store: AtomicBool,
    /// Held by the one task that sends a sign of life.
    proving: AsyncMutex<()>,
}

impl Session {
    /// Returns a session whose request was sent at `sent`.
    pub(crate) fn new(granted: Granted, sent: Time) -> Arc<Self> {
        let life = Mutex::new(Life { ends: sent.plus(granted.ttl), signed: sent });
        let Granted { session: id, ttl: granted, every } = granted;
        let (over, ends_in_store) = (AtomicBool::new(false), AtomicBool::new(false));
        let proving = AsyncMutex::default();
        let opened = sent;
        Arc::new(Self { id, granted, every, life, opened, over, ends_in_store, proving })
    }

    /// Returns its remaining life without another sign of life; zero once it is over.
    pub(crate) fn life(&self, now: Time) -> Duration {
        if self.over.load(Ordering::Acquire) { Duration::ZERO } else { now.until(self.end()) }
    }

    /// Returns the remaining life for a holder. Core subtracts 1 % for the drift of the store's
    /// clock, and a margin of 1 %, so it relies on 98 % of this. The two percent of the time that
    /// has passed are subtracted here.
    pub(crate) fn reliable_life(&self, now: Time) -> Duration {
        let life = self.life(now);
        life.saturating_sub(self.granted.saturating_sub(life) / 49)
    }

    /// Returns when it ends, as far as is known now.
    pub(crate) fn end(&self) -> Time {
        self.life.lock().ends
    }

    /// Returns when the next sign of life is due, if all goes well.
    fn due(&self) -> Time {
        self.life.lock().signed.plus(self.every)
    }

    /// Returns whether its tickets are lost. Every caller reads the clock: a timer that has not
    /// fired proves nothing.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.life(now).is_zero()
    }

    /// Returns whether the store has answered a sign of life since the session was opened.
    pub(crate) fn has_signed(&self) -> bool {
        self.life.lock().signed != self.opened
    }

    /// Returns whether it has missed no signs of life.
    pub(crate) fn is_fresh(&self, now: Time) -> bool {
        self.life(now) >= self.granted / 2
    }

    /// Returns whether tickets may join with it. A session that has missed signs of life may be
    /// over before its next ticket is used, so this asks the store first.
    pub(crate) async fn is_sound<S: SessionStore>(
        &self,
        store: &S,
        host: &dyn Runtime,
    ) -> Result<bool> {
        let _guard = self.proving.lock().await;
        let sent = host.now();
        if self.is_fresh(sent) {
            return Ok(true);
        }
        self.prove(store, host).await?;
        Ok(!self.is_over(host.now()))
    }

    /// Returns whether a sign of life is due so soon that a renewal sends it: see
    /// [`renew`](Self::renew).
    pub(crate) fn is_due_soon(&self, now: Time) -> bool {
        now.has_reached(self.life.lock().signed.plus(self.every * 2 / 3))
    }

    /// Sends a sign of life that is due soon, because a ticket is renewed: its owner relies on the
    /// known life of the session until its next renewal. Returns an error if the store refuses it.
    /// The remaining life shows whether it was answered at all.
    pub(crate) async fn renew<S: SessionStore>(&self, store: &S, host: &dyn Runtime) -> Result<()> {
        let Ok(_guard) = self.proving.try_lock() else {
            // Another task is sending one.
            drop(self.proving.lock().await);
            return Ok(());
        };
        if !self.is_due_soon(host.now()) {
            return Ok(());
        }
        match self.prove(store, host).await {
            Err(refused) if !refused.is_retryable() => Err(refused),
            // After a timeout the next one follows by itself, and soon.
            _ => Ok(()),
        }
    }

    /// Sends a sign of life. Returns the remaining life of the session; `None` if it is over.
    async fn prove<S: SessionStore>(
        &self,
        store: &S,
        host: &dyn Runtime,
    ) -> Result<Option<Duration>> {
        let sent = host.now();
        let life = sign(store, self.id, self.granted, host).await?;
        match life {
            Some(life) => self.extend(sent, life, host.now()),
            None => self.finish(),
        }
        Ok(life)
    }

    /// Marks the session as over, for good.
    pub(crate) fn finish(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Notes that the store received a sign of life that was sent at `sent`. An answer that comes
    /// too late revives nothing.
    fn extend(&self, sent: Time, life: Duration, now: Time) {
        let mut known = self.life.lock();
        if now.has_reached(known.ends) {
            self.over.store(true, Ordering::Release);
        }
        if !self.over.load(Ordering::Acquire) {
            known.ends = known.ends.max(sent.plus(life));
            known.signed = known.signed.max(sent);
        }
    }
}

/// Sends a sign of life, and waits for the answer for a part of the session's life. Returns the
/// remaining life; `None` if it is over.
async fn sign<S: SessionStore>(
    store: &S,
    id: SessionId,
    granted: Duration,
    host: &dyn Runtime,
) -> Result<Option<Duration>> {
    let within = granted / WAITS;
    match select(pin!(store.keep(id, within)), host.sleep(within)).await {
        Either::Left((Err(error), _)) if error.loss() == Some(Loss::SessionGone) => Ok(None),
        Either::Left((answer, _)) => answer,
        Either::Right(_) => Err(store.silence()),
    }
}

/// Ends a session in the store: a store that comes back may otherwise let it live for another ttl.
/// Retries until the store answers, or the client is dropped.
pub(crate) async fn end<S: SessionStore>(
    store: Weak<S>,
    session: Arc<Session>,
    host: Arc<dyn Runtime>,
) {
    let (id, granted) = (session.id, session.granted);
    if session.ends_in_store.swap(true, Ordering::AcqRel) {
        return;
    }
    drop(session);
    while let Some(asked) = store.upgrade() {
        let is_ended = {
            let end = pin!(asked.end(id));
            matches!(select(end, host.sleep(granted)).await, Either::Left((Ok(()), _)))
        };
        drop(asked);
        if is_ended {
            return;
        }
        host.sleep(granted / HURRIES).await;
    }
}

/// Sends signs of life until the session is over or has no user any more. Calls `beat` between
/// them, and when the session is over.
pub(crate) async fn keep_alive<S: SessionStore>(
    session: Weak<Session>,
    store: Weak<S>,
    host: Arc<dyn Runtime>,
    beat: impl Fn(&Arc<Session>) + Send,
) {
    let (mut hurries, mut unsure, mut is_refused) = (false, 0, false);
    loop {
        let Some(held) = session.upgrade() else { return };
        beat(&held);
        let now = host.now();
        let (granted, due, life) = (held.granted, held.due(), held.life(now));
        if life.is_zero() {
            held.finish();
            beat(&held);
            // Owners of its tickets renew meanwhile, and learn that it is over.
            let ended = end(store, held.clone(), host.clone());
            let told = async {
                host.sleep(granted).await;
                beat(&held);
                drop(held);
            };
            join(ended, told).await;
            return;
        }
        drop(held);
        let pause = if hurries { granted / HURRIES } else { now.until(due) };
        host.sleep(pause.min(life)).await;
        let (Some(held), Some(store)) = (session.upgrade(), store.upgrade()) else { return };
        let _guard = held.proving.lock().await;
        let now = host.now();
        if !hurries && !now.has_reached(held.due()) && !held.is_over(now) {
            // A renewal of a ticket has sent one.
            continue;
        }
        let proven = held.prove(&*store, &*host).await;
        let refused = proven.as_ref().err().filter(|error| !error.is_retryable());
        if let Some(error) = refused.filter(|_| !is_refused) {
            tracing::warn!(%error, "the signs of life of a session are refused: its tickets are lost when its life is over");
        }
        is_refused = refused.is_some();
        // After a timeout a store may be sure of less, and of the whole life only with the next
        // sign of life.
        let is_unsure = matches!(proven, Ok(Some(life)) if life < granted / 2);
        unsure = if is_unsure { unsure + 1 } else { 0 };
        hurries = proven.is_err() || (is_unsure && unsure <= UNSURE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_answer_gives_no_holder_more_than_98_percent_of_its_session() {
        let granted = Duration::from_secs(100);
        let sent = Time { boot_ns: 0, raw_ns: 0 };
        let session = Session::new(Granted { session: 1, ttl: granted, every: granted / 3 }, sent);
        for passed in (0..=98).map(Duration::from_secs) {
            let life = session.reliable_life(sent.plus(passed));
            // Durations are whole nanoseconds.
            let relied = passed + life * 98 / 100;
            assert!(relied.as_micros() <= (granted * 98 / 100).as_micros(), "{passed:?}: {life:?}");
        }
    }
}
