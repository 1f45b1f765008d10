//! The fourth promise: a repeated request counts once, and a renewal never revives a ticket.

use tenure_core::{Engine as _, ErrorKind, LeaveOutcome, Owner, Ticket, TicketState, WaitMode};

use super::acts::{Acts as _, MUTEX, needs, refused};
use crate::Arena;

pub(crate) async fn joining_twice_is_joining_once(arena: &Arena) {
    let (one, two) = (arena.client().await, arena.client().await);
    let (holder, waiter) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    let first = one.holds(&holder).await;
    two.waits(&waiter).await;
    let again = one.holds(&holder).await;
    assert_eq!((first.number, first.ahead), (again.number, again.ahead));
    two.waits(&waiter).await;
    if arena.profile().await.fair {
        assert_eq!(one.ids("k").await, [holder.id, waiter.id]);
    }
    one.leaves(&holder).await;
    two.is_served(arena, &waiter).await;
    two.leaves(&waiter).await;
    assert_eq!(one.ids("k").await, [], "no second of them is left");
}

pub(crate) async fn two_attempts_of_a_ticket_hold_once(arena: &Arena) {
    let client = arena.client().await;
    let ticket = arena.ticket("k", MUTEX);
    let first = client.tries(&ticket).await.expect("the lock is free");
    let again = client.tries(&ticket).await.expect("the ticket holds already");
    assert_eq!(first.number, again.number);
    client.leaves(&ticket).await;
    assert!(client.tries(&arena.ticket("k", MUTEX)).await.is_some(), "the lock is free again");
}

pub(crate) async fn leaving_twice_is_leaving_once(arena: &Arena) {
    let (one, two) = (arena.client().await, arena.client().await);
    let [a, b, c] = [(); 3].map(|()| arena.ticket("k", MUTEX));
    one.holds(&a).await;
    two.waits(&b).await;
    two.waits(&c).await;
    assert_eq!(one.leaves(&a).await, LeaveOutcome::Holding);
    assert_eq!(one.leaves(&a).await, LeaveOutcome::Absent);
    two.is_served(arena, &b).await;
    assert_eq!(one.leaves(&a).await, LeaveOutcome::Absent);
    assert_eq!(two.stands(&b).await.unwrap().state, TicketState::Holding);
    assert_eq!(two.stands(&c).await.unwrap().state, TicketState::Waiting);
}

pub(crate) async fn a_late_release_does_not_free_the_next_holder(arena: &Arena) {
    let (late, next) = (arena.client().await, arena.client().await);
    let (old, new) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    late.holds(&old).await;
    next.leaves(&old).await;
    next.holds(&new).await;
    assert_eq!(late.leaves(&old).await, LeaveOutcome::Absent);
    assert_eq!(late.is_asked_to_leave(&old).await, LeaveOutcome::Absent);
    let place = next.stands(&new).await.expect("the next holder still holds");
    assert!(!place.leaving);
    assert_eq!(late.tries(&arena.ticket("k", MUTEX)).await, None);
}

pub(crate) async fn a_stranger_is_nowhere(arena: &Arena) {
    let client = arena.client().await;
    let stranger = arena.ticket("k", MUTEX);
    assert_eq!(client.stands(&stranger).await, None);
    assert_eq!(client.leaves(&stranger).await, LeaveOutcome::Absent);
    assert_eq!(client.is_asked_to_leave(&stranger).await, LeaveOutcome::Absent);
    assert_eq!(client.ids("k").await, []);
    assert_eq!(client.names("").await, [""; 0]);
}

pub(crate) async fn a_renewal_does_not_revive_a_ticket_that_left(arena: &Arena) {
    let client = arena.client().await;
    let ticket = arena.ticket("k", MUTEX);
    client.holds(&ticket).await;
    client.leaves(&ticket).await;
    assert_eq!(client.stands(&ticket).await, None);
    assert_eq!(client.ids("k").await, []);
    assert!(client.tries(&arena.ticket("k", MUTEX)).await.is_some());
    assert_eq!(client.stands(&ticket).await, None, "the next holder is not replaced");
}

pub(crate) async fn a_renewal_does_not_revive_a_ticket_that_was_removed(arena: &Arena) {
    let (owner, operator) = (arena.client().await, arena.client().await);
    let ticket = arena.ticket("k", MUTEX);
    owner.holds(&ticket).await;
    assert_eq!(operator.leaves(&ticket).await, LeaveOutcome::Holding);
    assert_eq!(owner.stands(&ticket).await, None);
    assert_eq!(owner.ids("k").await, []);
    let waiter = arena.ticket("k", MUTEX);
    operator.holds(&waiter).await;
    assert_eq!(owner.stands(&ticket).await, None);
    assert_eq!(operator.ids("k").await, [waiter.id]);
}

pub(crate) async fn a_renewal_does_not_revive_a_ticket_that_expired(arena: &Arena) {
    needs!(arena, arena.lives_by_ttl().await, "tickets do not end by a ttl here");
    let client = arena.client().await;
    let ticket = arena.brief("k", MUTEX);
    client.holds(&ticket).await;
    arena.pass(arena.ttl() * 2).await;
    assert_eq!(client.stands(&ticket).await, None);
    assert_eq!(client.stands(&ticket).await, None, "nor the second time");
    assert_eq!(client.ids("k").await, []);
}

pub(crate) async fn a_renewal_does_not_take_a_lock_that_others_held_meanwhile(arena: &Arena) {
    needs!(arena, arena.lives_by_ttl().await, "tickets do not end by a ttl here");
    let (late, other) = (arena.client().await, arena.client().await);
    let old = arena.brief("k", MUTEX);
    late.holds(&old).await;
    arena.pass(arena.ttl() * 2).await;
    let new = arena.ticket("k", MUTEX);
    other.holds(&new).await;
    assert_eq!(late.stands(&old).await, None, "another holds it");
    assert_eq!(other.ids("k").await, [new.id]);
    other.leaves(&new).await;
    assert_eq!(late.stands(&old).await, None, "another held it");
    assert_eq!(late.ids("k").await, []);
}

pub(crate) async fn renewing_twice_is_renewing_once(arena: &Arena) {
    let client = arena.client().await;
    let ticket = arena.ticket("k", MUTEX);
    let place = client.holds(&ticket).await;
    for _ in 0..20 {
        let again = client.stands(&ticket).await.expect("two renewals at once are no loss");
        assert_eq!((again.number, again.state), (place.number, place.state));
    }
    assert_eq!(client.ids("k").await, [ticket.id]);
}

pub(crate) async fn an_id_of_another_owner_is_refused(arena: &Arena) {
    let knows = arena.profile().await.fair;
    needs!(arena, knows, "its stores know the tries of a ticket, each by an id of its own");
    let (client, copy) = (arena.client().await, arena.client().await);
    let mine = arena.ticket("k", MUTEX);
    client.holds(&mine).await;
    let theirs = Ticket { owner: Owner::shortened("a copy of the process"), ..mine.clone() };
    for patience in [WaitMode::NoWait, WaitMode::Wait] {
        assert_eq!(refused(copy.join(&theirs, patience).await), ErrorKind::Invalid);
    }
    let line = client.sees("k").await;
    assert_eq!((line.len(), &line[0].0.owner), (1, &mine.owner));
    assert!(client.stands(&mine).await.is_some());
}

pub(crate) async fn only_the_id_distinguishes_tickets(arena: &Arena) {
    let client = arena.client().await;
    let mine = arena.ticket("k", MUTEX);
    client.holds(&mine).await;
    let twin = Ticket { id: tenure_core::TicketId::fresh(), ..mine.clone() };
    assert_eq!(client.stands(&twin).await, None);
    assert_eq!(client.leaves(&twin).await, LeaveOutcome::Absent);
    assert_eq!(client.tries(&twin).await, None, "the same owner does not enter twice");
    assert!(client.stands(&mine).await.is_some());
}
