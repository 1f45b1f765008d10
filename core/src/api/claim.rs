//! A claim: who wants how much of which key, on what terms. Every primitive is one with another share.

use std::time::Duration;

use crate::background::acquire::{Wait, acquire};
use crate::lease::options::LockOptions;
use crate::{Error, Guard, Key, Locks, Note, Result, Share, Ticket};

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) locks: Locks,
    pub(crate) key: Result<Key>,
    pub(crate) terms: LockOptions,
}

impl Claim {
    pub(crate) fn new(locks: &Locks, key: impl AsRef<str>) -> Self {
        Self { locks: locks.clone(), key: Key::new(key), terms: LockOptions::default() }
    }

    pub(crate) fn key(&self) -> Result<&Key> {
        self.key.as_ref().map_err(Clone::clone)
    }

    /// Waits as long as it takes. This future, like the others here, owns what it needs, so that it
    /// can be spawned.
    pub(crate) fn wait(&self, share: Share) -> impl Future<Output = Result<Guard>> + Send + use<> {
        let claim = self.clone();
        async move {
            claim.acquire(share, Wait::Ever).await?.ok_or_else(|| {
                Error::unavailable("the store turned away a ticket whose owner would have waited")
            })
        }
    }

    /// Takes it if it is free.
    pub(crate) fn attempt(
        &self,
        share: Share,
    ) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.clone().acquire(share, Wait::Never)
    }

    /// Waits for so long.
    pub(crate) fn wait_for(
        &self,
        share: Share,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.clone().acquire(share, Wait::For(time))
    }

    async fn acquire(self, share: Share, wait: Wait) -> Result<Option<Guard>> {
        let Self { locks, key, terms } = self;
        let rhythm = terms.rhythm(&locks.inner.profile)?;
        let plain = locks.ticket(key?);
        let note = terms.note.map_or(Ok(plain.note.clone()), Note::new)?;
        let ticket = Ticket { share, ttl: terms.ttl, note, ..plain };
        acquire(&locks.inner, &ticket, rhythm, wait).await
    }
}

/// The terms that can be chosen for every primitive which is held.
macro_rules! terms {
    () => {
        /// How long it lives in the store without a sign of life, 30 s by default.
        ///
        /// Shorter frees it sooner after a crash; longer rides out longer trouble with the store. Means
        /// nothing where the kernel knows that the holder lives.
        pub fn ttl(mut self, ttl: std::time::Duration) -> Self {
            self.claim.terms.ttl = ttl;
            self
        }

        /// How often a sign of life is given, a third of the ttl by default.
        pub fn renew_every(mut self, period: std::time::Duration) -> Self {
            self.claim.terms.renew_every = Some(period);
            self
        }

        /// How long before the end of its life it counts as lost: the larger of 50 ms and a hundredth
        /// of the ttl by default. It must cover what the holder does between a check and its effect.
        pub fn margin(mut self, margin: std::time::Duration) -> Self {
            self.claim.terms.margin = Some(margin);
            self
        }

        /// How much faster the store's clock may run than this machine's, in parts per million:
        /// 10,000, which is one percent, by default.
        pub fn drift_ppm(mut self, drift_ppm: u32) -> Self {
            self.claim.terms.drift_ppm = drift_ppm;
            self
        }

        /// What others see beside it in the line.
        pub fn note(mut self, note: impl Into<std::sync::Arc<str>>) -> Self {
            self.claim.terms.note = Some(note.into());
            self
        }

        /// After so long it is lost, and renewed no more: a limit for work that hangs.
        pub fn max_hold(mut self, time: std::time::Duration) -> Self {
            self.claim.terms.max_hold = Some(time);
            self
        }

        /// The same for programs without async.
        pub fn blocking(&self) -> crate::blocking::Blocking<Self> {
            crate::blocking::Blocking::new(self.clone())
        }

        /// It is not renewed by itself, only by [`extend`](crate::LeaseHandle::extend).
        pub fn manual_renewal(mut self) -> Self {
            self.claim.terms.manual_renewal = true;
            self
        }
    };
}
pub(crate) use terms;
