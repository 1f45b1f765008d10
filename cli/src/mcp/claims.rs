//! A claim: the keys that one call of `take` got.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure::{Key, LeaseHandle, Locks, ReadGuard, WriteGuard};

use crate::failure::Failure;
use crate::screen::quoted;

/// A guard of one key.
pub(super) enum KeyGuard {
    Exclusive(WriteGuard),
    Shared(ReadGuard),
}

impl KeyGuard {
    pub(super) fn handle(&self) -> LeaseHandle {
        match self {
            Self::Exclusive(guard) => guard.handle(),
            Self::Shared(guard) => guard.handle(),
        }
    }

    pub(super) async fn release(self) -> tenure::Result<()> {
        match self {
            Self::Exclusive(guard) => guard.release().await,
            Self::Shared(guard) => guard.release().await,
        }
    }

    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// The key and its token, as data.
    pub(super) fn data(&self) -> Value {
        match self {
            Self::Exclusive(guard) => {
                let (key, token) = (guard.key().as_str(), guard.token().get());
                json!({ "key": key, "mode": "exclusive", "token": token })
            }
            // Shared holders have no fencing token.
            Self::Shared(guard) => json!({ "key": guard.key().as_str(), "mode": "shared" }),
        }
    }
}

/// The keys that one call of `take` got. Dropping it releases them in the background.
pub(super) struct SessionClaim(pub(super) Vec<KeyGuard>);

impl SessionClaim {
    /// Returns an error if one of the locks is lost.
    pub(super) fn check(&self) -> tenure::Result<()> {
        self.0.iter().try_for_each(|guard| guard.handle().check())
    }

    /// The keys, for messages.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> =
            self.0.iter().map(|guard| quoted(guard.handle().key().as_str())).collect();
        names.join(", ")
    }

    /// The time until the first lease ends without a renewal.
    pub(super) fn remaining(&self) -> Option<Duration> {
        self.0.iter().filter_map(|guard| guard.handle().remaining()).min()
    }
}

/// The end of an attempt to take several keys.
pub(super) enum Taken {
    All(SessionClaim),
    /// This key was busy, and all others are released.
    Busy(Key),
}

/// Takes one key after the other, until a deadline.
pub(super) async fn take_each(
    locks: &Locks,
    keys: &[Key],
    shared: bool,
    wait: Duration,
    note: &str,
) -> Result<Taken, Failure> {
    let began = Instant::now();
    let mut claim = SessionClaim(Vec::new());
    for key in keys {
        let (lock, left) = (locks.rwlock(key).note(note), wait.saturating_sub(began.elapsed()));
        let guard = if shared {
            lock.try_read_for(left).await?.map(KeyGuard::Shared)
        } else {
            lock.try_write_for(left).await?.map(KeyGuard::Exclusive)
        };
        let Some(guard) = guard else {
            for guard in claim.0 {
                // Without an answer its lease ends by itself.
                let _ = guard.release().await;
            }
            return Ok(Taken::Busy(key.clone()));
        };
        claim.0.push(guard);
    }
    Ok(Taken::All(claim))
}
