//! Rooms: what is under way at a set of servers, bounded for each part of what they keep.
//!
//! A server that is silent fills only the rooms of its own parts, and calls for those are refused at once while one
//! call finds out whether the server answers again.

use std::sync::Arc;

use tenure_core::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connect_policy::{Attempt, BackedOff, ConnectPolicy};
use crate::server::Origin;

/// The rooms of one client.
pub struct Limiter(Vec<Part>);

/// What one server keeps, or a part of it.
struct Part {
    calls: Arc<Semaphore>,
    attempts: Arc<ConnectPolicy>,
}

/// A call that may be sent. Dropped without an outcome, it says nothing about the server.
pub struct LimiterPermit {
    _room: OwnedSemaphorePermit,
    attempts: Arc<ConnectPolicy>,
    /// It finds out whether the part's server answers again.
    trial: Option<Attempt>,
}

impl Limiter {
    /// Rooms for so many parts, each with place for so many calls at a time.
    pub fn new(parts: usize, calls_max: usize) -> Self {
        let calls = || Arc::new(Semaphore::new(calls_max));
        Self((0..parts).map(|_| Part { calls: calls(), attempts: Arc::default() }).collect())
    }

    /// Room for a call to this part, once there is some. A server that has not answered is not waited for: the error
    /// is what was said of it.
    pub async fn enter(&self, part: usize) -> Result<LimiterPermit, Error> {
        let Part { calls, attempts } = &self.0[part];
        let trial = match attempts.trouble() {
            None => None,
            Some(_) => match attempts.ask(Origin::Caller) {
                Ok((trial, _at_once)) => Some(trial),
                Err(BackedOff::Tried(reason) | BackedOff::Paused(reason)) => return Err(reason),
            },
        };
        let room = calls.clone().acquire_owned().await;
        let room = room.map_err(|_| Error::unavailable("the client is closed"))?;
        Ok(LimiterPermit { _room: room, attempts: attempts.clone(), trial })
    }
}

impl LimiterPermit {
    /// The server has answered, whatever it said.
    pub fn answered(self) {
        if let Some(trial) = self.trial {
            trial.succeeded();
        }
    }

    /// It has not answered in time.
    pub fn late(self, reason: &Error) {
        match self.trial {
            Some(trial) => trial.failed(reason),
            None => self.attempts.fail(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn enter(rooms: &Limiter, part: usize) -> Option<Result<LimiterPermit, Error>> {
        rooms.enter(part).now_or_never()
    }

    fn silence() -> Error {
        Error::unavailable("no answer")
    }

    #[test]
    fn a_full_part_leaves_room_in_the_others() {
        let rooms = Limiter::new(2, 3);
        let mut held: Vec<_> = (0..3).map(|_| enter(&rooms, 0).unwrap().unwrap()).collect();
        assert!(enter(&rooms, 0).is_none(), "it is full");
        assert!(enter(&rooms, 1).is_some());
        held.pop().unwrap().answered();
        assert!(enter(&rooms, 0).is_some());
    }

    #[test]
    fn a_silent_part_is_asked_by_one_call_alone() {
        let rooms = Limiter::new(2, 3);
        enter(&rooms, 0).unwrap().unwrap().late(&silence());
        let refused = enter(&rooms, 0).unwrap().err().unwrap();
        assert_eq!(refused.to_string(), silence().to_string());
        assert!(enter(&rooms, 1).unwrap().is_ok());
        std::thread::sleep(rooms.0[0].attempts.pause());
        let trial = enter(&rooms, 0).unwrap().unwrap();
        assert!(enter(&rooms, 0).unwrap().is_err());
        trial.answered();
        assert!((0..2).all(|_| enter(&rooms, 0).unwrap().is_ok()));
    }
}
