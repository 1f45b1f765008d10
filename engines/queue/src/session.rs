//! A session: what keeps all tickets of one ttl alive. Its end is counted from before each sign of life was sent.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::{Either, join, select};
use tenure_core::{Loss, Result, Runtime, Time};
use tokio::sync::Mutex as AsyncMutex;

use crate::contract::{Granted, SessionId, Store};

/// A sign of life is waited for in such a part of a session's life.
const WAITS: u32 = 6;
/// After a failure or a silence, the next one comes after such a part of it.
const HURRIES: u32 = 12;
/// So many signs of life in a row are given in a hurry because the store is not sure of half a life. A store that is not sure of it after
/// half a life of them never is.
const UNSURE_MAX: u32 = HURRIES / 2;

/// Until when a session lives, as far as is known.
struct Life {
    ends: Time,
    /// When the last sign of life was sent that was answered.
    signed: Time,
}

/// One session of the store, as its owner believes in it.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// How long it lives without a sign of life.
    pub(crate) granted: Duration,
    /// From one sign of life to the next.
    every: Duration,
    life: Mutex<Life>,
    /// When it was asked for.
    opened: Time,
    over: AtomicBool,
    /// Somebody sees to it that the store ends it.
    ends_in_store: AtomicBool,
    /// One asks at a time whether it lives.
    proving: AsyncMutex<()>,
}

impl Session {
    /// A session that was asked for at `sent`.
    pub(crate) fn new(granted: Granted, sent: Time) -> Arc<Self> {
        let life = Mutex::new(Life { ends: sent.plus(granted.ttl), signed: sent });
        let Granted { session: id, ttl: granted, every } = granted;
        let (over, ends_in_store) = (AtomicBool::new(false), AtomicBool::new(false));
        let proving = AsyncMutex::default();
        let opened = sent;
        Arc::new(Self { id, granted, every, life, opened, over, ends_in_store, proving })
    }

    /// For how long it lives on without another sign of life; nothing, once it is over.
    pub(crate) fn life(&self, now: Time) -> Duration {
        if self.over.load(Ordering::Acquire) { Duration::ZERO } else { now.until(self.end()) }
    }

    /// When it ends, as far as is known now.
    pub(crate) fn end(&self) -> Time {
        self.known().ends
    }

    /// When the next sign of life is due, if all goes well.
    fn due(&self) -> Time {
        self.known().signed.plus(self.every)
    }

    /// Whether its tickets are lost. Every caller reads the clock: a timer that has not fired proves nothing.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.life(now).is_zero()
    }

    /// Whether the store has answered a sign of life since the session was opened.
    pub(crate) fn has_signed(&self) -> bool {
        self.known().signed != self.opened
    }

    /// Whether it has missed no signs of life.
    pub(crate) fn is_fresh(&self, now: Time) -> bool {
        self.life(now) >= self.granted / 2
    }

    /// Whether tickets may come in by it. One that has missed signs of life may be over before its next ticket has done anything,
    /// so the store is asked first.
    pub(crate) async fn is_sound<S: Store>(&self, store: &S, host: &dyn Runtime) -> Result<bool> {
        let _alone = self.proving.lock().await;
        let sent = host.now();
        if self.is_fresh(sent) {
            return Ok(true);
        }
        self.prove(store, host).await?;
        Ok(!self.is_over(host.now()))
    }

    /// Whether a sign of life is due so soon that a renewal gives it: see [`renew`](Self::renew).
    pub(crate) fn is_due_soon(&self, now: Time) -> bool {
        now.has_reached(self.known().signed.plus(self.every * 2 / 3))
    }

    /// A ticket is renewed, and its owner counts on what is known of the session's life until it renews the next time: a sign of life that
    /// is due soon is given now. A store that refuses it is an error; whether it was answered at all is seen by that life.
    pub(crate) async fn renew<S: Store>(&self, store: &S, host: &dyn Runtime) -> Result<()> {
        let Ok(_alone) = self.proving.try_lock() else {
            // It is given just now.
            drop(self.proving.lock().await);
            return Ok(());
        };
        if !self.is_due_soon(host.now()) {
            return Ok(());
        }
        match self.prove(store, host).await {
            Err(refused) if !refused.is_retryable() => Err(refused),
            // After a silence, the next one comes by itself, and soon.
            _ => Ok(()),
        }
    }

    /// Gives a sign of life. Answers for how long the session lives; `None` if it is over.
    async fn prove<S: Store>(&self, store: &S, host: &dyn Runtime) -> Result<Option<Duration>> {
        let sent = host.now();
        let life = sign(store, self.id, self.granted, host).await?;
        match life {
            Some(life) => self.extend(sent, life, host.now()),
            None => self.finish(),
        }
        Ok(life)
    }

    /// It is over, for good.
    pub(crate) fn finish(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// The store heard a sign of life that was sent at `sent`. An answer that comes too late revives nothing.
    fn extend(&self, sent: Time, life: Duration, now: Time) {
        let mut known = self.known();
        if now.has_reached(known.ends) {
            self.over.store(true, Ordering::Release);
        }
        if !self.over.load(Ordering::Acquire) {
            known.ends = known.ends.max(sent.plus(life));
            known.signed = known.signed.max(sent);
        }
    }

    fn known(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sign of life, for which nobody waits longer than a part of the session's life. Answers for how long that goes on; `None` if it is
/// over.
async fn sign<S: Store>(
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

/// What the server still keeps of a session is of no use to anybody: a store that comes back may let it live for once more as long. So
/// it is asked until it answers, or nobody uses it any more.
pub(crate) async fn end<S: Store>(store: Weak<S>, session: Arc<Session>, host: Arc<dyn Runtime>) {
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

/// Gives signs of life until the session is over or nobody has it any more; then tells whoever must know.
pub(crate) async fn keep_alive<S: Store>(
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
            // Whoever lived by it asks meanwhile, and is told.
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
        let _alone = held.proving.lock().await;
        let now = host.now();
        if !hurries && !now.has_reached(held.due()) && !held.is_over(now) {
            // A ticket that was renewed has given one.
            continue;
        }
        let proven = held.prove(&*store, &*host).await;
        let refused = proven.as_ref().err().filter(|error| !error.is_retryable());
        if let Some(error) = refused.filter(|_| !is_refused) {
            tracing::warn!(%error, "the signs of life of a session are refused: its tickets are lost when its life is over");
        }
        is_refused = refused.is_some();
        // After a silence a store may be sure of less, and of the whole life only with the next one.
        let is_unsure = matches!(proven, Ok(Some(life)) if life < granted / 2);
        unsure = if is_unsure { unsure + 1 } else { 0 };
        hurries = proven.is_err() || (is_unsure && unsure <= UNSURE_MAX);
    }
}
