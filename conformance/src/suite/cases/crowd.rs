//! Many callers of one key at the same time, each on a thread of its own in real time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::sync::Mutex;
use tenure_core::{LeaseHandle, Liveness, Result, Runtime, TicketId};

use super::kind::{Grip, Lock};
use crate::Arena;

/// Time that each caller holds.
const STAY: Duration = Duration::from_micros(100);
/// Renewal period of a caller where the store pushes, in ttls of the arena. A hundred short periods
/// keep a server busy without need.
const SLOW_BEAT_TTLS: u32 = 5;

/// The callers of one key, and the holders among them.
pub(crate) struct Crowd {
    host: Arc<dyn Runtime>,
    ttl: Duration,
    beat: Duration,
    /// Time limit of one wait. It ends a hang.
    limit: Duration,
    /// The number of permits.
    permits: u32,
    /// Holds the other permits of the key, if it has some.
    drained: Option<LeaseHandle>,
    is_simulated: bool,
    /// Whether a busy machine may lose a lock: its ttl is long, but that of a session is not.
    may_lose: bool,
    inside: Mutex<Inside>,
}

/// The holders, and their tokens in the order of their entry.
#[derive(Default)]
struct Inside {
    holders: Vec<(LeaseHandle, u32)>,
    tokens: Vec<u64>,
}

impl Crowd {
    pub(crate) async fn of(arena: &Arena, permits: u32, drained: Option<LeaseHandle>) -> Arc<Self> {
        let (profile, is_simulated) = (arena.profile().await, arena.is_simulated());
        let is_slow = profile.push && !is_simulated;
        Arc::new(Self {
            host: arena.host(),
            ttl: arena.long_ttl(),
            beat: if is_slow { arena.ttl() * SLOW_BEAT_TTLS } else { arena.beat() },
            limit: arena.case_limit(),
            permits,
            drained,
            is_simulated,
            may_lose: profile.liveness == Liveness::Session && !is_simulated,
            inside: Mutex::default(),
        })
    }

    /// A lock that a busy machine does not lose.
    pub(crate) fn terms(&self, lock: Lock) -> Lock {
        lock.ttl(self.ttl).renew_every(self.beat)
    }

    /// Waits for a lock of this number of permits, holds it for `STAY`, and releases it.
    pub(crate) async fn comes_and_goes<F>(&self, permits: u32, lock: impl Fn() -> F)
    where
        F: Future<Output = Result<Grip>>,
    {
        let grip = loop {
            let grip = self.locked(&lock).await;
            if self.comes(grip.handle(), permits) {
                break grip;
            }
            assert!(self.may_lose, "the lock was lost at once");
        };
        self.host.sleep(STAY).await;
        self.was_held(grip.check());
        self.goes(grip.id());
        self.was_held(grip.release().await);
    }

    /// The tokens in the order of entry.
    pub(crate) fn tokens(&self) -> Vec<u64> {
        self.inside().tokens.clone()
    }

    /// Retries while the store does not answer in time, as a user does.
    async fn locked<F: Future<Output = Result<Grip>>>(&self, lock: &impl Fn() -> F) -> Grip {
        let locked = async {
            loop {
                match lock().await {
                    Err(error) if self.may_be_slow(&error) => {}
                    locked => return locked.expect("the lock is granted"),
                }
            }
        };
        match select(std::pin::pin!(locked), self.host.sleep(self.limit)).await {
            Either::Left((grip, _)) => grip,
            Either::Right(_) => panic!("within {:?} the lock was not granted", self.limit),
        }
    }

    /// Whether this caller holds on entry. All others that believe to hold are counted. The
    /// newcomer is checked last: if it still holds, it held during the count.
    fn comes(&self, newcomer: LeaseHandle, permits: u32) -> bool {
        let (id, token) = (newcomer.id(), newcomer.number());
        let mut inside = self.inside();
        inside.holders.push((newcomer, permits));
        inside.holders.retain(|(held, _)| held.check().is_ok());
        if inside.holders.last().is_none_or(|(last, _)| last.id() != id) {
            return false;
        }
        let out: u32 = inside.holders.iter().map(|(_, permits)| permits).sum();
        let are_apart = self.drained.as_ref().is_none_or(|drained| drained.check().is_ok());
        assert!(out <= self.permits || !are_apart, "{out} of {} permits are held", self.permits);
        inside.tokens.push(token);
        true
    }

    fn goes(&self, id: TicketId) {
        self.inside().holders.retain(|(held, _)| held.id() != id);
    }

    fn was_held(&self, outcome: Result<()>) {
        match outcome {
            Err(error) if self.may_be_slow(&error) || (self.may_lose && error.loss().is_some()) => {
            }
            outcome => outcome.expect("the lock was held"),
        }
    }

    fn may_be_slow(&self, error: &tenure_core::Error) -> bool {
        !self.is_simulated && error.is_retryable()
    }

    fn inside(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock()
    }
}
