//! Short names for common steps of a case, each of which must succeed.

use tenure_core::event::{Cursor, Event, EventKind, Scope};
use tenure_core::layers::AnyEngine;
use tenure_core::{
    Engine as _, Error, ErrorKind, Key, LeaveMode, LeaveOutcome, Loss, Place, Result, Share,
    Ticket, TicketId, TicketState, WaitMode,
};

use crate::Arena;

/// Skips a case that does not apply to this store.
macro_rules! needs {
    ($arena:ident, $met:expr, $why:expr) => {
        if !$met {
            return $arena.skip($why);
        }
    };
}
pub(crate) use needs;

pub(crate) const MUTEX: Share = Share::WHOLE;

/// A share of `take` of `of`.
pub(crate) fn share(take: u32, of: u32) -> Share {
    Share::new(take, of).expect("the case uses a valid share")
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).expect("the case uses a valid key")
}

/// The methods of an engine, as a case uses them.
pub(crate) trait Acts {
    /// Joins, and may wait.
    async fn joins(&self, ticket: &Ticket) -> Place;
    /// Joins, and is served at once.
    async fn holds(&self, ticket: &Ticket) -> Place;
    /// Joins, and is not served yet.
    async fn waits(&self, ticket: &Ticket) -> Place;
    /// Joins only if it is served at once.
    async fn tries(&self, ticket: &Ticket) -> Option<Place>;
    /// Renews the ticket, and returns its place.
    async fn stands(&self, ticket: &Ticket) -> Option<Place>;
    /// Waits until it is served.
    async fn is_served(&self, arena: &Arena, ticket: &Ticket) -> Place;
    /// Leaves the line.
    async fn leaves(&self, ticket: &Ticket) -> LeaveOutcome;
    /// Asks it to leave.
    async fn is_asked_to_leave(&self, ticket: &Ticket) -> LeaveOutcome;
    /// The tickets of the line, from the front.
    async fn ids(&self, name: &str) -> Vec<TicketId>;
    /// The line of a key.
    async fn sees(&self, name: &str) -> Vec<(Ticket, Place)>;
    /// The names of all keys with this prefix.
    async fn names(&self, prefix: &str) -> Vec<String>;
    /// Starts to observe events.
    async fn looks_on(&self, scope: &Scope) -> Cursor;
}

impl Acts for AnyEngine {
    async fn joins(&self, ticket: &Ticket) -> Place {
        let joined = self.join(ticket, WaitMode::Wait).await.expect("the join succeeds");
        joined.expect("a ticket that may wait is in the line")
    }

    async fn holds(&self, ticket: &Ticket) -> Place {
        let place = self.joins(ticket).await;
        assert_eq!(place.state, TicketState::Holding, "the ticket is served");
        place
    }

    async fn waits(&self, ticket: &Ticket) -> Place {
        let place = self.joins(ticket).await;
        assert_eq!(place.state, TicketState::Waiting, "the ticket waits");
        place
    }

    async fn tries(&self, ticket: &Ticket) -> Option<Place> {
        let tried = self.join(ticket, WaitMode::NoWait).await.expect("the join succeeds");
        if let Some(place) = &tried {
            assert_eq!(
                place.state,
                TicketState::Holding,
                "a ticket with NoWait holds or is not in the line"
            );
        }
        tried
    }

    async fn stands(&self, ticket: &Ticket) -> Option<Place> {
        match self.renew(ticket).await {
            // A session that ended took its tickets along.
            Err(error) if error.loss().is_some() => None,
            renewed => renewed.expect("the renewal succeeds"),
        }
    }

    async fn is_served(&self, arena: &Arena, ticket: &Ticket) -> Place {
        let served = async {
            loop {
                let place = self.stands(ticket).await.expect("the ticket is in the line");
                if place.state == TicketState::Holding {
                    return place;
                }
                arena.pass(arena.beat() / 4).await;
            }
        };
        arena.soon("the front of the line is served", served).await
    }

    async fn leaves(&self, ticket: &Ticket) -> LeaveOutcome {
        once(self.leave(ticket, LeaveMode::Now).await.expect("the leave succeeds"))
    }

    async fn is_asked_to_leave(&self, ticket: &Ticket) -> LeaveOutcome {
        once(self.leave(ticket, LeaveMode::Graceful).await.expect("the leave succeeds"))
    }

    async fn ids(&self, name: &str) -> Vec<TicketId> {
        self.sees(name).await.into_iter().map(|(ticket, _)| ticket.id).collect()
    }

    async fn sees(&self, name: &str) -> Vec<(Ticket, Place)> {
        self.line(&key(name)).await.expect("the line can be seen")
    }

    async fn names(&self, prefix: &str) -> Vec<String> {
        let keys = self.keys(prefix).await.expect("the keys can be listed");
        keys.iter().map(|key| key.as_str().to_owned()).collect()
    }

    async fn looks_on(&self, scope: &Scope) -> Cursor {
        let news = self.events(scope, None).await.expect("events can be read");
        assert!(news.events.is_empty(), "without a cursor there are no events");
        news.cursor
    }
}

/// With retries, an engine may not know whether its own first attempt removed the ticket.
fn once(left: LeaveOutcome) -> LeaveOutcome {
    if left == LeaveOutcome::Unsure { LeaveOutcome::Absent } else { left }
}

/// Collects events until `wanted` have come.
pub(crate) async fn events(
    arena: &Arena,
    client: &AnyEngine,
    scope: &Scope,
    mut after: Cursor,
    wanted: usize,
) -> (Vec<Event>, Cursor) {
    let mut events = Vec::new();
    let collected = async {
        while events.len() < wanted {
            let news = client.events(scope, Some(after)).await.expect("events can be read");
            assert!(!news.missed, "the journal keeps these events");
            events.extend(news.events);
            after = news.cursor;
        }
    };
    arena.soon("the events are reported", collected).await;
    (events, after)
}

/// The kind and the ticket of each event.
pub(crate) fn kinds(events: &[Event]) -> Vec<(EventKind, TicketId)> {
    events.iter().map(|event| (event.kind, event.ticket.id)).collect()
}

/// The kind of the error, which must be one.
pub(crate) fn refused<T>(answer: Result<T>) -> ErrorKind {
    match answer {
        Ok(_) => panic!("the request must fail"),
        Err(error) => error.kind(),
    }
}

/// The loss, which the error must have.
pub(crate) fn lost<T>(answer: Result<T>) -> Option<Loss> {
    answer.err().as_ref().and_then(Error::loss)
}

/// Whether an observer sees the token of the holder. A store without an order may consist of
/// several, and show a later one, but never an earlier.
pub(crate) async fn is_token_of(arena: &Arena, seen: u64, own: impl Into<u64>) -> bool {
    let own = own.into();
    seen == own || (seen > own && !arena.profile().await.fair)
}
