//! A limit on the calls in flight for each part of a set of servers.
//!
//! A server that does not answer fills up only its own parts. Calls for these parts are refused at
//! once, while a single call finds out whether the server answers again.

use std::sync::Arc;

use tenure_core::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connect_policy::{Attempt, BackedOff, ConnectPolicy};
use crate::server::Origin;

/// A limiter for the calls of one client.
pub struct Limiter(Vec<Part>);

/// One server, or a part of its data.
struct Part {
    calls: Arc<Semaphore>,
    attempts: Arc<ConnectPolicy>,
}

/// A permit for one call. If it is dropped without an outcome, nothing is known about the server.
pub struct LimiterPermit {
    _room: OwnedSemaphorePermit,
    attempts: Arc<ConnectPolicy>,
    /// Present if this call finds out whether the server of the part answers again.
    trial: Option<Attempt>,
}

impl Limiter {
    /// Returns a limiter for this number of parts, each with `calls_max` calls in flight at most.
    pub fn new(parts: usize, calls_max: usize) -> Self {
        let calls = || Arc::new(Semaphore::new(calls_max));
        Self((0..parts).map(|_| Part { calls: calls(), attempts: Arc::default() }).collect())
    }

    /// Waits for a permit for a call to this part.
    ///
    /// # Errors
    ///
    /// The reason of the last failure if the server did not answer and another call tries it now,
    /// or the pause after the failure is not over.
    ///
    /// # Panics
    ///
    /// Panics if there is no such part.
    pub async fn enter(&self, part: usize) -> Result<LimiterPermit, Error> {
        let Part { calls, attempts } = &self.0[part];
        let trial = match attempts.trouble() {
            None => None,
            Some(_) => match attempts.ask(Origin::Caller) {
                // The pause of a trial that a caller makes is always zero.
                Ok((trial, _)) => Some(trial),
                Err(BackedOff::Tried(reason) | BackedOff::Paused(reason)) => return Err(reason),
            },
        };
        let room = calls.clone().acquire_owned().await;
        let room = room.map_err(|_| Error::unavailable("the client is closed"))?;
        Ok(LimiterPermit { _room: room, attempts: attempts.clone(), trial })
    }
}

impl LimiterPermit {
    /// Notes that the server has answered. An error is an answer.
    pub fn answered(self) {
        if let Some(trial) = self.trial {
            trial.succeeded();
        }
    }

    /// Notes that the server has not answered in time. Further calls are refused with `reason`.
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
