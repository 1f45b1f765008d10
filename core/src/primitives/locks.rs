//! One store, and all the locks in it.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::select;

use crate::keeping::admission::Admission;
use crate::keeping::keep::Keeper;
use crate::keeping::sweep::Sweeper;
use crate::wrap::{AnyEngine, Hosted, Traced};
use crate::{
    Engine, Host, Key, Leave, Left, Liveness, Need, Owner, Place, PrivateThread, Profile, Result,
    Share, Ticket, TicketId,
};

/// The locks of one store. Clones share everything.
///
/// ```
/// use tenure_core::{Locks, Memory};
///
/// # tenure_core::blocking::block_on(async {
/// let locks = Locks::new(Memory::new()).owned_by("worker-7")?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let (ticket, place) = locks.line("invoices/42").await?.remove(0);
/// assert_eq!((&*ticket.owner, place.number), ("worker-7", guard.token()));
/// guard.release().await?;
/// locks.close().await;
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Locks {
    pub(crate) inner: Arc<Inner>,
    owner: Owner,
}

pub(crate) struct Inner {
    pub(crate) engine: AnyEngine,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) sweeper: Arc<Sweeper>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) profile: Profile,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.keeper.close();
    }
}

impl Locks {
    /// The locks that this engine keeps.
    ///
    /// An engine whose verbs are [`quick`](Profile::quick) is called in place. Any other should be made on
    /// the thread it is to live on: see [`hosted`](Locks::hosted).
    pub fn new(engine: impl Engine) -> Self {
        Self::on(engine, Arc::new(PrivateThread::for_timers()))
    }

    /// The locks of an engine that drives sockets: it is made and called on a private thread, so
    /// that its renewals go on whatever the caller's own threads do.
    pub async fn hosted<E, M>(make: M) -> Result<Self>
    where
        E: Engine,
        M: Future<Output = Result<E>> + Send + 'static,
    {
        let host: Arc<dyn Host> = Arc::new(PrivateThread::for_drivers());
        let engine = Hosted::make(host.clone(), make).await?;
        Ok(Self::on(engine, host))
    }

    /// The locks that this engine keeps, with their keeper and sweeper on this host.
    pub fn on(engine: impl Engine, host: Arc<dyn Host>) -> Self {
        let engine = AnyEngine::new(engine);
        let profile = engine.profile();
        let keeper = Keeper::new(engine.clone(), host.clone());
        let sweeper = Sweeper::new(engine.clone(), host.clone());
        let admission = Admission::new(host.clone());
        let inner = Arc::new(Inner { engine, host, keeper, sweeper, admission, profile });
        Self { inner, owner: Owner::this_process() }
    }

    /// The same locks, with a keeper and a sweeper of their own on this host. The engine stays where it was made.
    #[must_use]
    pub fn kept_on(&self, host: Arc<dyn Host>) -> Self {
        Self { owner: self.owner.clone(), ..Self::on(self.inner.engine.clone(), host) }
    }

    /// The same locks, telling `tracing` what they do, and `metrics` with that feature. See
    /// [`Traced`](crate::wrap::Traced).
    #[must_use]
    pub fn traced(&self) -> Self {
        let Inner { engine, host, .. } = &*self.inner;
        let traced = Traced::new(engine.clone(), host.clone());
        Self { owner: self.owner.clone(), ..Self::on(traced, host.clone()) }
    }

    /// The same locks, for an owner of this name: what others see in the line.
    pub fn owned_by(&self, owner: &str) -> Result<Self> {
        Ok(Self { inner: self.inner.clone(), owner: Owner::new(owner)? })
    }

    /// What this store promises.
    pub fn guarantees(&self) -> &Profile {
        &self.inner.profile
    }

    /// Refuses a store that does not promise all of this.
    pub fn require(&self, needs: &[Need]) -> Result<()> {
        self.inner.profile.require(needs)
    }

    /// The tickets in the line of a key, from the front.
    pub async fn line(&self, key: impl AsRef<str>) -> Result<Vec<(Ticket, Place)>> {
        self.inner.engine.line(&Key::new(key)?).await
    }

    /// The keys that begin with `prefix` and have a holder or a waiter, in order.
    pub async fn keys(&self, prefix: impl AsRef<str>) -> Result<Vec<Key>> {
        self.inner.engine.keys(prefix.as_ref()).await
    }

    /// Breaks somebody's ticket: a waiter is out at once; a holder is told, and is out when it has
    /// stopped, at the latest when its life ends. So a break never makes two holders.
    pub async fn break_ticket(&self, key: impl AsRef<str>, id: TicketId) -> Result<Left> {
        self.take_out(key.as_ref(), id, Leave::Soon).await
    }

    /// Takes out somebody's ticket at once, whatever its owner does.
    ///
    /// **If the owner still works, there are two holders.** For an owner who is known to be gone or stuck,
    /// and work that refuses old tokens.
    pub async fn force_out(&self, key: impl AsRef<str>, id: TicketId) -> Result<Left> {
        self.take_out(key.as_ref(), id, Leave::Now).await
    }

    /// Returns once everything that was dropped has been given back to the store, as far as it could be. While a store is away whose
    /// tickets live by a session, this waits for it: put a time-out around it.
    pub async fn settled(&self) {
        self.inner.sweeper.settled().await;
    }

    /// Returns once nothing is under way any more: what was dropped is given back, and the store is let go
    /// of. Call it before a program ends: a guard that is dropped on the way out of `main` is given back in
    /// the background, and the process may end sooner, so that its lock stays until its ttl is over.
    ///
    /// A store that does not answer is not waited for longer than the ttls of what was dropped; or, where that lives by a session, which
    /// ends here, for twice the time that an answer may take ([`Profile::answers_within`]).
    ///
    /// Guards should be released first. What is asked of these locks later may be
    /// [`Unavailable`](crate::Kind::Unavailable).
    pub async fn close(&self) {
        let Inner { engine, host, sweeper, profile, .. } = &*self.inner;
        if profile.liveness == Liveness::Session {
            let _settled =
                select(pin!(sweeper.settled()), host.sleep(profile.answers_within)).await;
            let _closed = select(pin!(engine.close()), host.sleep(profile.answers_within)).await;
            sweeper.leave_the_rest();
        } else {
            sweeper.settled().await;
            engine.close().await;
        }
    }

    async fn take_out(&self, key: &str, id: TicketId, how: Leave) -> Result<Left> {
        let ticket = Ticket { id, ..self.ticket(Key::new(key)?) };
        self.inner.engine.leave(&ticket, how).await
    }

    /// A ticket of this owner, with everything else at its default.
    pub(crate) fn ticket(&self, key: Key) -> Ticket {
        Ticket { owner: self.owner.clone(), ..Ticket::new(key, Share::WHOLE) }
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks")
            .field("engine", &self.inner.profile.name)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}
