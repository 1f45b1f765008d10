//! The kinds of exclusive lock: a mutex, the last permit of a semaphore, and a writer.

use std::time::Duration;

use tenure_core::{LeaseHandle, Locks, Mutex, Permit, Result, RwLock, Semaphore};

pub(crate) use crate::any_guard::AnyGuard as Grip;

use crate::Arena;

/// The permits of the semaphore of which one is left.
const PERMITS: u32 = 5;

/// A kind of exclusive lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    /// All permits but one are taken during the whole case.
    LastPermit,
    Writer,
}

/// A store with one free lock of this kind.
pub(crate) struct Exclusive {
    kind: Kind,
    beat: Duration,
    ttl: Duration,
    drained: Option<Permit>,
}

impl Exclusive {
    /// `None`: the store has no such locks.
    pub(crate) async fn prepare(kind: Kind, arena: &Arena) -> Option<Self> {
        let mut drained = None;
        if kind == Kind::LastPermit {
            if !arena.keeps_permits().await {
                arena.skip("it keeps no permits");
                return None;
            }
            let semaphore = arena.locks().await.semaphore("k", PERMITS).ttl(arena.long_ttl());
            let semaphore = semaphore.renew_every(arena.beat());
            drained =
                Some(semaphore.acquire_many(PERMITS - 1).await.expect("the permits are free"));
        }
        Some(Self { kind, beat: arena.beat(), ttl: arena.ttl(), drained })
    }

    /// The number of tickets in the line when the lock is free.
    pub(crate) fn others(&self) -> usize {
        usize::from(self.kind == Kind::LastPermit)
    }

    /// The lease of the other permits of a semaphore. Without it, several callers hold at once.
    pub(crate) fn drained(&self) -> Option<LeaseHandle> {
        self.drained.as_ref().map(Permit::handle)
    }

    /// A lock with a long ttl and a short renewal period.
    pub(crate) fn of(&self, locks: &Locks) -> Lock {
        let beat = self.beat;
        match self.kind {
            Kind::Mutex => Lock::Mutex(locks.mutex("k").renew_every(beat)),
            Kind::LastPermit => Lock::Permit(locks.semaphore("k", PERMITS).renew_every(beat)),
            Kind::Writer => Lock::Writer(locks.rwlock("k").renew_every(beat)),
        }
    }

    /// A lock with one ttl and a short renewal period.
    pub(crate) fn brief(&self, locks: &Locks) -> Lock {
        self.of(locks).ttl(self.ttl)
    }
}

/// A lock of any kind.
#[derive(Clone)]
pub(crate) enum Lock {
    Mutex(Mutex),
    Permit(Semaphore),
    Writer(RwLock),
}

/// The same option for each kind.
macro_rules! term {
    ($($term:ident($($arg:ident: $type:ty)?);)*) => {
        $(pub(crate) fn $term(self $(, $arg: $type)?) -> Self {
            match self {
                Self::Mutex(lock) => Self::Mutex(lock.$term($($arg)?)),
                Self::Permit(lock) => Self::Permit(lock.$term($($arg)?)),
                Self::Writer(lock) => Self::Writer(lock.$term($($arg)?)),
            }
        })*
    };
}

impl Lock {
    term! {
        ttl(ttl: Duration);
        renew_every(beat: Duration);
        max_hold(time: Duration);
        note(note: &str);
        manual_renewal();
    }

    pub(crate) async fn lock(&self) -> Result<Grip> {
        Ok(match self {
            Self::Mutex(lock) => lock.lock().await?.into(),
            Self::Permit(lock) => lock.acquire().await?.into(),
            Self::Writer(lock) => lock.write().await?.into(),
        })
    }

    /// A read lock, for a reader-writer lock.
    pub(crate) async fn read(&self) -> Result<Grip> {
        let Self::Writer(lock) = self else { panic!("only a reader-writer lock has readers") };
        lock.read().await.map(Grip::from)
    }

    /// Several permits, for a semaphore.
    pub(crate) async fn acquire_many(&self, count: u32) -> Result<Grip> {
        let Self::Permit(lock) = self else { panic!("only a semaphore has permits") };
        lock.acquire_many(count).await.map(Grip::from)
    }

    pub(crate) async fn try_lock(&self) -> Result<Option<Grip>> {
        Ok(match self {
            Self::Mutex(lock) => lock.try_lock().await?.map(Grip::from),
            Self::Permit(lock) => lock.try_acquire().await?.map(Grip::from),
            Self::Writer(lock) => lock.try_write().await?.map(Grip::from),
        })
    }

    pub(crate) async fn try_lock_for(&self, time: Duration) -> Result<Option<Grip>> {
        Ok(match self {
            Self::Mutex(lock) => lock.try_lock_for(time).await?.map(Grip::from),
            Self::Permit(lock) => lock.try_acquire_for(time).await?.map(Grip::from),
            Self::Writer(lock) => lock.try_write_for(time).await?.map(Grip::from),
        })
    }
}
