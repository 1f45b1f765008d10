//! What the stories are told with: short words for common acts, each of which must succeed.

use tenure_core::event::{Cursor, Event, EventKind, Scope};
use tenure_core::layers::AnyEngine;
use tenure_core::{
    Engine as _, Error, ErrorKind, Key, LeaveMode, LeaveOutcome, Loss, Place, Result, Share,
    Ticket, TicketId, TicketState, WaitMode,
};

use crate::Arena;

/// Leaves a case aloud where it does not apply.
macro_rules! needs {
    ($arena:ident, $met:expr, $why:expr) => {
        if !$met {
            return $arena.skip($why);
        }
    };
}
pub(crate) use needs;

pub(crate) const MUTEX: Share = Share::WHOLE;

/// So many of so many.
pub(crate) fn share(take: u32, of: u32) -> Share {
    Share::new(take, of).expect("the case names a share that can be")
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).expect("the case names a key")
}

/// The verbs of an engine, as a story uses them.
pub(crate) trait Acts {
    /// Joins, and waits if it must.
    async fn joins(&self, ticket: &Ticket) -> Place;
    /// Joins, and is served at once.
    async fn holds(&self, ticket: &Ticket) -> Place;
    /// Joins, and is not served yet.
    async fn waits(&self, ticket: &Ticket) -> Place;
    /// Would take it if it were free.
    async fn tries(&self, ticket: &Ticket) -> Option<Place>;
    /// Where the ticket stands, by its own sign of life.
    async fn stands(&self, ticket: &Ticket) -> Option<Place>;
    /// Is served, now or soon.
    async fn is_served(&self, arena: &Arena, ticket: &Ticket) -> Place;
    /// Is out of the line.
    async fn leaves(&self, ticket: &Ticket) -> LeaveOutcome;
    /// Is told to leave.
    async fn is_told(&self, ticket: &Ticket) -> LeaveOutcome;
    /// The tickets of the line, from the front.
    async fn ids(&self, name: &str) -> Vec<TicketId>;
    /// The line of a key.
    async fn sees(&self, name: &str) -> Vec<(Ticket, Place)>;
    /// The names of all keys with this prefix.
    async fn names(&self, prefix: &str) -> Vec<String>;
    /// Begins to look on.
    async fn looks_on(&self, scope: &Scope) -> Cursor;
}

impl Acts for AnyEngine {
    async fn joins(&self, ticket: &Ticket) -> Place {
        let joined = self.join(ticket, WaitMode::Wait).await.expect("it may join");
        joined.expect("who waits is not turned away")
    }

    async fn holds(&self, ticket: &Ticket) -> Place {
        let place = self.joins(ticket).await;
        assert_eq!(place.state, TicketState::Holding, "nobody is in the way of this ticket");
        place
    }

    async fn waits(&self, ticket: &Ticket) -> Place {
        let place = self.joins(ticket).await;
        assert_eq!(place.state, TicketState::Waiting, "somebody is in the way of this ticket");
        place
    }

    async fn tries(&self, ticket: &Ticket) -> Option<Place> {
        let tried = self.join(ticket, WaitMode::NoWait).await.expect("it may try");
        if let Some(place) = &tried {
            assert_eq!(place.state, TicketState::Holding, "who would not wait does not wait");
        }
        tried
    }

    async fn stands(&self, ticket: &Ticket) -> Option<Place> {
        match self.renew(ticket).await {
            // A session that is over has taken its tickets along.
            Err(error) if error.loss().is_some() => None,
            renewed => renewed.expect("it may be renewed"),
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
        arena.soon("a ticket with nobody in its way is served", served).await
    }

    async fn leaves(&self, ticket: &Ticket) -> LeaveOutcome {
        once(self.leave(ticket, LeaveMode::Now).await.expect("it may leave"))
    }

    async fn is_told(&self, ticket: &Ticket) -> LeaveOutcome {
        once(self.leave(ticket, LeaveMode::Graceful).await.expect("it may be told to leave"))
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
        let news = self.events(scope, None).await.expect("anybody may look on");
        assert!(news.events.is_empty(), "without a cursor there are no events");
        news.cursor
    }
}

/// An engine that asks again may not know whether it was its own first attempt that took a ticket out.
fn once(left: LeaveOutcome) -> LeaveOutcome {
    if left == LeaveOutcome::Unsure { LeaveOutcome::Absent } else { left }
}

/// Collects events until as many have come as were wanted.
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
            let news = client.events(scope, Some(after)).await.expect("anybody may look on");
            assert!(!news.missed, "so few events are not too many");
            events.extend(news.events);
            after = news.cursor;
        }
    };
    arena.soon("what happened is told", collected).await;
    (events, after)
}

/// What happened to which ticket.
pub(crate) fn told(events: &[Event]) -> Vec<(EventKind, TicketId)> {
    events.iter().map(|event| (event.kind, event.ticket.id)).collect()
}

/// The kind of an error that must be one.
pub(crate) fn refused<T>(answer: Result<T>) -> ErrorKind {
    match answer {
        Ok(_) => panic!("this must be refused"),
        Err(error) => error.kind(),
    }
}

/// Why it is lost, by an error that must say so.
pub(crate) fn lost<T>(answer: Result<T>) -> Option<Loss> {
    answer.err().as_ref().and_then(Error::loss)
}

/// Whether an onlooker sees the number that the holder knows. A store that is made of several, and
/// promises no order, may have shown it a later one: never an earlier.
pub(crate) async fn is_token_of(arena: &Arena, seen: u64, own: u64) -> bool {
    seen == own || (seen > own && !arena.profile().await.fair)
}
