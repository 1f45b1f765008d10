//! A claim: a key, a share of its line, and the options of the lease. Every primitive is one.

use std::time::Duration;

use crate::background::acquire::{Wait, acquire};
use crate::background::lease::Lease;
use crate::lease::figures::Meter;
use crate::lease::options::LockOptions;
use crate::{Error, Key, Locks, Note, Result, Share, Ticket};

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) locks: Locks,
    pub(crate) key: Result<Key>,
    pub(crate) options: LockOptions,
}

impl Claim {
    pub(crate) fn new(locks: &Locks, key: impl AsRef<str>) -> Self {
        Self { locks: locks.clone(), key: Key::new(key), options: LockOptions::default() }
    }

    pub(crate) fn key(&self) -> Result<&Key> {
        self.key.as_ref().map_err(Clone::clone)
    }

    /// Waits without a time limit. The returned future owns its data, so that it can be spawned.
    pub(crate) fn wait(&self, share: Share) -> impl Future<Output = Result<Lease>> + Send + use<> {
        let claim = self.clone();
        async move { claim.acquire(share, Wait::Ever).await?.ok_or_else(busy_while_waiting) }
    }

    /// Takes the lock if it is free.
    pub(crate) fn attempt(
        &self,
        share: Share,
    ) -> impl Future<Output = Result<Option<Lease>>> + Send + use<> {
        self.clone().acquire(share, Wait::Never)
    }

    /// Waits for at most `time`.
    pub(crate) fn wait_for(
        &self,
        share: Share,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Lease>>> + Send + use<> {
        self.clone().acquire(share, Wait::For(time))
    }

    async fn acquire(self, share: Share, wait: Wait) -> Result<Option<Lease>> {
        let Self { locks, key, options } = self;
        let schedule = options.schedule(&locks.client.guarantees)?;
        let plain = locks.ticket(key?);
        let meter = Meter { election: options.election, ..locks.meter(&plain.key) };
        let note = options.note.map_or(Ok(plain.note.clone()), Note::new)?;
        let ticket = Ticket { share, ttl: options.ttl, note, ..plain };
        acquire(&locks.client, ticket, schedule, meter, wait).await
    }
}

/// A bug of an engine.
pub(crate) fn busy_while_waiting() -> Error {
    Error::rejected("internal error: the engine answered `busy` to a request that waits")
}

/// The options of every primitive that has a lease.
macro_rules! lease_options {
    () => {
        /// The ttl of the lease, 30 s by default. The lease expires when it is not renewed for that
        /// long.
        ///
        /// A shorter ttl frees the lock sooner after a crash. A longer one survives longer outages
        /// of the store. It has no effect where the kernel knows that the holder lives.
        pub fn ttl(mut self, ttl: std::time::Duration) -> Self {
            self.claim.options.ttl = ttl;
            self
        }

        /// The time between two renewals, a third of the ttl by default and at least 1 ms. It has
        /// no effect after [`manual_renewal`](Self::manual_renewal).
        pub fn renew_every(mut self, period: std::time::Duration) -> Self {
            self.claim.options.renew_every = Some(period);
            self
        }

        /// A note that others see beside the ticket in the line.
        pub fn note(mut self, note: impl Into<std::sync::Arc<str>>) -> Self {
            self.claim.options.note = Some(note.into());
            self
        }

        /// The maximum time to hold the lock: it is lost after `time`. A limit for work that hangs.
        pub fn max_hold(mut self, time: std::time::Duration) -> Self {
            self.claim.options.max_hold = Some(time);
            self
        }

        /// The blocking form, for programs without async.
        pub fn blocking(&self) -> crate::blocking::Blocking<Self> {
            crate::blocking::Blocking::new(self.clone())
        }

        /// Turns automatic renewal off. The program calls [`extend`](crate::LeaseHandle::extend).
        pub fn manual_renewal(mut self) -> Self {
            self.claim.options.manual_renewal = true;
            self
        }
    };
}
pub(crate) use lease_options;
