//! The first promise: joining is one atomic step, to the back of the line.

use std::sync::{Arc, Mutex};

use tenure_core::{BoxFuture, Engine as _, LeaveOutcome, TicketState, WaitMode};

use super::acts::{Acts as _, MUTEX, needs};
use crate::Arena;

pub(crate) async fn a_ticket_joins_at_the_back(arena: &Arena) {
    needs!(arena, arena.profile().await.fair, "waiters stand in no order here");
    let client = arena.client().await;
    let tickets = [(); 5].map(|()| arena.ticket("k", MUTEX));
    for (ahead, ticket) in (0..).zip(&tickets) {
        assert_eq!(client.joins(ticket).await.ahead, behind(ahead));
    }
    assert_eq!(client.ids("k").await, tickets.map(|ticket| ticket.id));
}

/// The share that this number of mutexes takes.
fn behind(tickets: u64) -> u64 {
    tickets * u64::from(MUTEX.take())
}

pub(crate) async fn the_first_to_join_is_served_first(arena: &Arena) {
    needs!(arena, arena.profile().await.fair, "waiters stand in no order here");
    let clients = [arena.client().await, arena.client().await, arena.client().await];
    let tickets = [(); 9].map(|()| arena.ticket("k", MUTEX));
    for (client, ticket) in clients.iter().cycle().zip(&tickets) {
        client.joins(ticket).await;
    }
    for (at, ticket) in tickets.iter().enumerate() {
        for (behind, other) in tickets.iter().enumerate().skip(at) {
            let place = clients[behind % 3].stands(other).await.expect("the ticket is in the line");
            assert_eq!(place.state == TicketState::Holding, behind == at, "only the first holds");
        }
        clients[at % 3].leaves(ticket).await;
    }
}

pub(crate) async fn of_parallel_joins_only_one_is_served(arena: &Arena) {
    let joined = Arc::new(Mutex::new(Vec::new()));
    let (mut tasks, mut clients): (Vec<BoxFuture<()>>, Vec<_>) = (Vec::new(), Vec::new());
    for _ in 0..12 {
        let (client, joined) = (arena.client().await, joined.clone());
        clients.push(client.clone());
        let tickets = [(); 4].map(|()| arena.ticket("k", MUTEX));
        tasks.push(Box::pin(async move {
            for ticket in tickets {
                if let Some(place) = client.join(&ticket, WaitMode::Wait).await.unwrap() {
                    joined.lock().unwrap().push((ticket.id, place));
                }
            }
        }));
    }
    arena.together(tasks).await;
    let holding = |place: &tenure_core::Place| place.state == TicketState::Holding;
    let joined = joined.lock().unwrap().clone();
    assert_eq!(joined.len(), 48, "every ticket is in the line");
    let served = joined.iter().filter(|(_, place)| holding(place)).count();
    if !arena.profile().await.fair {
        assert!(served <= 1, "{served} hold together");
        return;
    }
    assert_eq!(served, 1);
    let line = clients[0].sees("k").await;
    assert_eq!(line.len(), 48, "each ticket is in the line once");
    for (at, (ticket, place)) in line.iter().enumerate() {
        assert_eq!(place.ahead, behind(at as u64));
        let (_, then) = joined.iter().find(|(id, _)| *id == ticket.id).expect("the ticket joined");
        assert_eq!(
            (then.number, then.ahead),
            (place.number, place.ahead),
            "the place is unchanged"
        );
    }
}

pub(crate) async fn a_leave_from_the_middle_keeps_the_order(arena: &Arena) {
    needs!(arena, arena.profile().await.fair, "waiters stand in no order here");
    let client = arena.client().await;
    let [a, b, c, d] = [(); 4].map(|()| arena.ticket("k", MUTEX));
    for ticket in [&a, &b, &c, &d] {
        client.joins(ticket).await;
    }
    assert_eq!(client.leaves(&c).await, LeaveOutcome::Waiting);
    assert_eq!(client.ids("k").await, [a.id, b.id, d.id]);
    assert_eq!(client.leaves(&a).await, LeaveOutcome::Holding);
    assert_eq!(client.ids("k").await, [b.id, d.id]);
    assert_eq!(client.stands(&b).await.unwrap().state, TicketState::Holding);
    let place = client.stands(&d).await.unwrap();
    assert_eq!((place.state, place.ahead), (TicketState::Waiting, behind(1)));
}

pub(crate) async fn a_leave_serves_the_waiter_behind(arena: &Arena) {
    let (one, two) = (arena.client().await, arena.client().await);
    let (holder, waiter) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    one.holds(&holder).await;
    two.waits(&waiter).await;
    assert_eq!(one.leaves(&holder).await, LeaveOutcome::Holding);
    two.is_served(arena, &waiter).await;
    assert_eq!(one.tries(&arena.ticket("k", MUTEX)).await, None, "now the waiter holds");
}

pub(crate) async fn lines_do_not_touch_each_other(arena: &Arena) {
    let client = arena.client().await;
    let tickets = ["a", "b", "c"].map(|name| arena.ticket(name, MUTEX));
    for ticket in &tickets {
        client.holds(ticket).await;
    }
    client.leaves(&tickets[1]).await;
    assert_eq!(client.ids("a").await, [tickets[0].id]);
    assert_eq!(client.ids("b").await, []);
    assert_eq!(client.ids("c").await, [tickets[2].id]);
}
