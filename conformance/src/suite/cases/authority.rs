//! The sixth promise: every answer comes from one truth of the store, to every client.

use tenure_core::{Engine as _, LeaveOutcome, TicketState};

use super::acts::{Acts as _, MUTEX, needs};
use crate::Arena;

const ROUNDS: u32 = 20;

pub(crate) async fn every_client_sees_at_once_what_another_did(arena: &Arena) {
    let (one, two) = (arena.client().await, arena.client().await);
    for round in 0..ROUNDS {
        let (actor, other) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let ticket = arena.ticket("k", MUTEX);
        let place = actor.holds(&ticket).await;
        let seen = other.sees("k").await;
        assert_eq!((seen.len(), seen[0].0.id), (1, ticket.id));
        assert!(seen[0].1.number >= place.number);
        assert_eq!(other.names("").await, ["k"]);
        let noted = ticket.clone().with_note(format!("round {round}")).unwrap();
        actor.stands(&noted).await.expect("the ticket is in the line");
        assert_eq!(other.sees("k").await[0].0.note, noted.note);
        assert_eq!(actor.leaves(&ticket).await, LeaveOutcome::Holding);
        assert_eq!(other.ids("k").await, []);
        assert_eq!(other.names("").await, [""; 0]);
    }
}

pub(crate) async fn a_ticket_that_one_client_removes_is_gone_for_every_other(arena: &Arena) {
    let (one, two) = (arena.client().await, arena.client().await);
    for _ in 0..ROUNDS {
        let ticket = arena.ticket("k", MUTEX);
        one.holds(&ticket).await;
        assert_eq!(two.leaves(&ticket).await, LeaveOutcome::Holding);
        assert_eq!(one.stands(&ticket).await, None);
        let next = arena.ticket("k", MUTEX);
        assert_eq!(one.holds(&next).await.state, TicketState::Holding);
        assert!(two.tries(&arena.ticket("k", MUTEX)).await.is_none(), "the lock is held");
        one.leaves(&next).await;
    }
}

pub(crate) async fn every_client_continues_the_count_of_another(arena: &Arena) {
    needs!(arena, arena.counts().await, "it keeps no counts");
    let clients = [arena.client().await, arena.client().await, arena.client().await];
    let key = tenure_core::Key::new("k").expect("the key is valid");
    for (round, client) in (1..=u64::from(ROUNDS)).zip(clients.iter().cycle()) {
        let counter = client.add(&key, 1, None).await.expect("the counter works");
        assert_eq!(counter.value, round);
    }
}
