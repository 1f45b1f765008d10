//! Watching: a waiter is notified when it is served, and a holder when it is not any more.

use std::pin::pin;

use tenure_core::layers::AnyEngine;
use tenure_core::{Engine as _, LeaveOutcome, Ticket, TicketState, Wake};

use super::acts::{Acts as _, MUTEX, needs};
use crate::Arena;

/// The result of a watch, from now on or since the ticket joined.
async fn woken(arena: &Arena, client: &AnyEngine, ticket: &Ticket, seen: TicketState) -> Wake {
    let watch = client.watch(ticket, seen);
    arena.soon("a watch returns", watch).await.expect("a ticket can be watched")
}

/// Watches a ticket until a renewal or the watch reports its state.
async fn served_by_notification(arena: &Arena, client: &AnyEngine, ticket: &Ticket) -> u64 {
    let served = async {
        loop {
            match client
                .watch(ticket, TicketState::Waiting)
                .await
                .expect("the ticket can be watched")
            {
                Wake::Served(number) => return number,
                Wake::Look => {
                    let place = client.stands(ticket).await.expect("the ticket is in the line");
                    if place.state == TicketState::Holding {
                        return place.number;
                    }
                }
            }
        }
    };
    arena.soon("the ticket is notified", served).await
}

pub(crate) async fn a_ticket_that_is_served_is_notified(arena: &Arena) {
    needs!(arena, arena.profile().await.push, "the heartbeat finds it here");
    let (one, two) = (arena.client().await, arena.client().await);
    let (holder, waiter) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    one.holds(&holder).await;
    two.waits(&waiter).await;
    let mut watch = Box::pin(served_by_notification(arena, &two, &waiter));
    arena.not_now("the waiter is served", &mut watch).await;
    one.leaves(&holder).await;
    let number = watch.await;
    assert_eq!(two.stands(&waiter).await.map(|place| place.number), Some(number));
}

pub(crate) async fn a_change_before_the_watch_counts(arena: &Arena) {
    needs!(arena, arena.profile().await.push, "the heartbeat finds it here");
    let (one, two) = (arena.client().await, arena.client().await);
    let (holder, waiter) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    one.holds(&holder).await;
    two.waits(&waiter).await;
    one.leaves(&holder).await;
    let number = served_by_notification(arena, &two, &waiter).await;
    assert_eq!(two.stands(&waiter).await.map(|place| place.number), Some(number));
}

pub(crate) async fn the_bell_rings_for_one_after_the_other(arena: &Arena) {
    needs!(arena, arena.profile().await.push, "the heartbeat finds it here");
    let mut line = Vec::new();
    for _ in 0..8 {
        let (client, ticket) = (arena.client().await, arena.ticket("k", MUTEX));
        client.joins(&ticket).await;
        line.push((client, ticket));
    }
    for (client, ticket) in &line {
        let number = served_by_notification(arena, client, ticket).await;
        assert_eq!(client.stands(ticket).await.map(|place| place.number), Some(number));
        client.leaves(ticket).await;
    }
}

pub(crate) async fn a_waiter_that_is_broken_is_notified(arena: &Arena) {
    let profile = arena.profile().await;
    needs!(arena, profile.push && profile.fair, "the heartbeat finds it here");
    let (one, two) = (arena.client().await, arena.client().await);
    let (holder, waiter) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    one.holds(&holder).await;
    two.waits(&waiter).await;
    let mut watch = pin!(two.watch(&waiter, TicketState::Waiting));
    arena.not_now("the waiter is woken", &mut watch).await;
    assert_eq!(one.is_asked_to_leave(&waiter).await, LeaveOutcome::Waiting);
    let wake =
        arena.soon("a broken waiter is woken", watch).await.expect("the ticket can be watched");
    assert_eq!(wake, Wake::Look);
    assert_eq!(two.stands(&waiter).await, None);
}

pub(crate) async fn a_holder_that_is_asked_to_leave_is_notified(arena: &Arena) {
    needs!(arena, arena.profile().await.push, "the heartbeat finds it here");
    let (owner, operator) = (arena.client().await, arena.client().await);
    let holder = arena.ticket("k", MUTEX);
    owner.holds(&holder).await;
    let mut watch = pin!(owner.watch(&holder, TicketState::Holding));
    arena.not_now("the holder is woken", &mut watch).await;
    operator.is_asked_to_leave(&holder).await;
    arena.soon("a broken holder is woken", watch).await.expect("the ticket can be watched");
    assert!(owner.stands(&holder).await.is_some_and(|place| place.leaving));
    woken(arena, &owner, &holder, TicketState::Holding).await;
}

pub(crate) async fn a_holder_that_is_forced_out_is_notified_by_a_watch(arena: &Arena) {
    needs!(arena, arena.profile().await.push, "the heartbeat finds it here");
    let (owner, operator) = (arena.client().await, arena.client().await);
    let holder = arena.ticket("k", MUTEX);
    owner.holds(&holder).await;
    let mut watch = pin!(owner.watch(&holder, TicketState::Holding));
    arena.not_now("the holder is woken", &mut watch).await;
    operator.leaves(&holder).await;
    let wake =
        arena.soon("a forced-out holder is woken", watch).await.expect("the ticket can be watched");
    assert_eq!(wake, Wake::Look);
    assert_eq!(woken(arena, &owner, &holder, TicketState::Holding).await, Wake::Look);
}

pub(crate) async fn a_watch_that_is_given_up_takes_nothing_along(arena: &Arena) {
    let (one, two) = (arena.client().await, arena.client().await);
    let (holder, waiter) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    one.holds(&holder).await;
    two.waits(&waiter).await;
    for _ in 0..3 {
        let mut watch = Box::pin(served_by_notification(arena, &two, &waiter));
        arena.not_now("the waiter is served", &mut watch).await;
    }
    one.leaves(&holder).await;
    two.is_served(arena, &waiter).await;
}
