//! Rooms: what is under way in a cluster, bounded for each part of its slots.
//!
//! The servers of a cluster have slots that lie together. So a server that is silent fills only the rooms that are
//! its own, and calls for its parts are refused at once while one of them finds out whether it answers again.

use std::sync::Arc;

use redis::RedisResult;
use tenure_core::Error;
use tokio::sync::Semaphore;

use crate::attempts::{Attempt, Attempts, Whose};
use crate::calls::{self, Room};

/// So many parts the slots have here.
const PARTS: u16 = 64;
/// The most calls that may be under way for one part.
const PART_CALLS_MAX: usize = 8;
const SLOTS: u16 = 16_384;

/// The rooms of one client of a cluster.
pub(crate) struct Rooms(Vec<Part>);

/// Some neighbouring slots.
struct Part {
    calls: Arc<Semaphore>,
    attempts: Arc<Attempts>,
}

/// A call that may be sent.
pub(crate) struct Entry {
    _room: Room,
    attempts: Arc<Attempts>,
    /// It is the one that finds out whether the part's server answers again.
    trial: Option<Attempt>,
}

impl Rooms {
    pub(crate) fn new() -> Self {
        let calls = || Arc::new(Semaphore::new(PART_CALLS_MAX));
        Self((0..PARTS).map(|_| Part { calls: calls(), attempts: Arc::default() }).collect())
    }

    /// Room for a call for this key, once there is some. Whose server has not answered is not waited for.
    pub(crate) async fn enter(&self, key: &[u8]) -> RedisResult<Entry> {
        let Part { calls, attempts } = &self.0[usize::from(slot(key) / (SLOTS / PARTS))];
        let trial = match attempts.trouble() {
            None => None,
            Some(_) => Some(attempts.ask(Whose::Caller).map_err(|_| calls::late())?.0),
        };
        let room = calls.clone().acquire_owned().await.map_err(|_| calls::over())?;
        Ok(Entry { _room: room, attempts: attempts.clone(), trial })
    }
}

impl Entry {
    /// The server has answered, whatever it said.
    pub(crate) fn answered(self) {
        if let Some(trial) = self.trial {
            trial.succeeded();
        }
    }

    /// It has not answered in time.
    pub(crate) fn late(self, reason: &Error) {
        match self.trial {
            Some(trial) => trial.failed(reason),
            None => self.attempts.fail(reason),
        }
    }
}

/// The slot of a key of Tenure's, whose tag chooses it: a CRC of 16 bits, as Redis Cluster defines it.
fn slot(key: &[u8]) -> u16 {
    let tag = key
        .split(|byte| *byte == b'{')
        .nth(1)
        .and_then(|rest| rest.split(|byte| *byte == b'}').next());
    let crc = tag.unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use redis::cluster_routing::Slot;

    use super::*;

    #[test]
    fn a_slot_is_the_one_that_a_cluster_has_for_the_key() {
        for key in ["123456789", "tenure:{v1.ab}", "tenure:{v1.ab}:t", "tenure:{turn.v1.0}", "x"] {
            assert_eq!(Slot::new(slot(key.as_bytes())), Some(Slot::for_key(key)), "{key}");
        }
    }
}
