//! The third promise: one rule decides which tickets are served.

use tenure_core::layers::AnyEngine;
use tenure_core::{Engine as _, ErrorKind, LeaveOutcome, Ticket, TicketState, WaitMode, served};

use super::acts::{Acts as _, MUTEX, needs, refused, share};
use crate::Arena;
use crate::sim::Chance;

/// Checks the whole line against the rule.
async fn obeys(client: &AnyEngine, name: &str) {
    let mut ahead = 0;
    for (ticket, place) in client.sees(name).await {
        assert_eq!(place.ahead, ahead, "the sum of the shares ahead");
        let holding = place.state == TicketState::Holding;
        assert_eq!(holding, served(ahead, ticket.share), "{:?} behind {ahead}", ticket.share);
        ahead += u64::from(ticket.share.take());
    }
}

pub(crate) async fn the_front_is_served_as_long_as_it_fits(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, "it keeps no such capacities");
    let client = arena.client().await;
    let mut chance = Chance::new(arena.host().random());
    let mut line: Vec<Ticket> = Vec::new();
    for _ in 0..60 {
        if line.len() < 4 || chance.next().is_multiple_of(2) {
            let take = u32::try_from(chance.next() % 5).unwrap_or(0) + 1;
            let ticket = arena.ticket("k", share(take, 5));
            client.joins(&ticket).await;
            line.push(ticket);
        } else {
            let at = usize::try_from(chance.next()).unwrap_or(0) % line.len();
            client.leaves(&line.remove(at)).await;
        }
        obeys(&client, "k").await;
        for ticket in &line {
            let place = client.stands(ticket).await.expect("the ticket is in the line");
            assert_eq!(place.state == TicketState::Holding, served(place.ahead, ticket.share));
        }
    }
}

pub(crate) async fn exactly_the_capacity_is_served(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, "it keeps no such capacities");
    let client = arena.client().await;
    let mut holders = Vec::new();
    for _ in 0..5 {
        let ticket = arena.ticket("k", share(1, 5));
        assert!(client.tries(&ticket).await.is_some(), "five fit");
        holders.push(ticket);
    }
    assert_eq!(client.tries(&arena.ticket("k", share(1, 5))).await, None, "a sixth does not");
    client.leaves(&holders[2]).await;
    assert_eq!(client.tries(&arena.ticket("k", share(2, 5))).await, None, "two do not fit");
    assert!(client.tries(&arena.ticket("k", share(1, 5))).await.is_some(), "one does");
}

pub(crate) async fn a_join_that_may_not_wait_leaves_no_trace(arena: &Arena) {
    let (one, two) = (arena.client().await, arena.client().await);
    let holder = arena.ticket("k", MUTEX);
    one.holds(&holder).await;
    let hasty = arena.ticket("k", MUTEX);
    assert_eq!(two.tries(&hasty).await, None);
    assert_eq!(one.ids("k").await, [holder.id]);
    assert_eq!(two.stands(&hasty).await, None);
    assert_eq!(two.leaves(&hasty).await, LeaveOutcome::Absent);
    one.leaves(&holder).await;
    assert_eq!(one.ids("k").await, [], "the ticket was not served later");
    assert_eq!(one.names("").await, [""; 0]);
}

pub(crate) async fn a_join_that_may_not_wait_does_not_overtake(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, "it keeps no such capacities");
    let client = arena.client().await;
    let (holder, large) = (arena.ticket("k", share(2, 3)), arena.ticket("k", share(3, 3)));
    client.holds(&holder).await;
    client.waits(&large).await;
    assert_eq!(client.tries(&arena.ticket("k", share(1, 3))).await, None, "another ticket waits");
    client.leaves(&large).await;
    assert!(client.tries(&arena.ticket("k", share(1, 3))).await.is_some(), "no ticket waits now");
}

pub(crate) async fn another_capacity_is_refused_and_changes_nothing(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, "it keeps no such capacities");
    let (one, two) = (arena.client().await, arena.client().await);
    let holder = arena.ticket("k", MUTEX);
    one.holds(&holder).await;
    for patience in [WaitMode::NoWait, WaitMode::Wait] {
        let ticket = arena.ticket("k", share(5, 5));
        let error = two.join(&ticket, patience).await.expect_err("a semaphore is no mutex");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let words = ["mutex or reader-writer lock", "asked for as a semaphore of 5"];
        assert!(words.iter().all(|kind| error.to_string().contains(kind)), "{error}");
        assert_eq!(two.stands(&ticket).await, None);
        assert_eq!(one.ids("k").await, [holder.id]);
    }
    assert_eq!(one.stands(&holder).await.unwrap().state, TicketState::Holding);
    one.leaves(&holder).await;
    two.holds(&arena.ticket("k", share(5, 5))).await;
}

pub(crate) async fn a_semaphore_of_another_size_is_refused(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, "it keeps no such capacities");
    let client = arena.client().await;
    let holder = arena.ticket("k", share(1, 3));
    client.holds(&holder).await;
    for of in [2, 4, 1] {
        let other = arena.ticket("k", share(1, of));
        assert_eq!(refused(client.join(&other, WaitMode::Wait).await), ErrorKind::Invalid);
    }
    assert_eq!(client.ids("k").await, [holder.id]);
    client.leaves(&holder).await;
    client.holds(&arena.ticket("k", share(1, 4))).await;
}

pub(crate) async fn a_renewal_may_shrink_a_share(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, "it keeps no such capacities");
    let client = arena.client().await;
    let (holder, waiter) = (arena.ticket("k", share(3, 3)), arena.ticket("k", share(2, 3)));
    client.holds(&holder).await;
    client.waits(&waiter).await;
    let smaller = Ticket { share: share(1, 3), ..holder.clone() };
    assert_eq!(client.stands(&smaller).await.unwrap().state, TicketState::Holding);
    assert_eq!(client.stands(&waiter).await.unwrap().state, TicketState::Holding);
    assert_eq!(client.sees("k").await[0].0.share, share(1, 3));
    obeys(&client, "k").await;
}

pub(crate) async fn a_renewal_never_grows_a_share(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, "it keeps no such capacities");
    let client = arena.client().await;
    let (one, two) = (arena.ticket("k", share(1, 3)), arena.ticket("k", share(2, 3)));
    client.holds(&one).await;
    client.holds(&two).await;
    let larger = Ticket { share: share(3, 3), ..one.clone() };
    assert_eq!(client.stands(&larger).await.unwrap().state, TicketState::Holding);
    assert_eq!(client.sees("k").await[0].0.share, share(1, 3));
    assert_eq!(client.stands(&two).await.unwrap().state, TicketState::Holding);
    obeys(&client, "k").await;
}

pub(crate) async fn a_writer_that_becomes_a_reader_admits_readers(arena: &Arena) {
    let max = tenure_core::SHARE_OF_MAX;
    let client = arena.client().await;
    let (writer, reader) = (arena.ticket("k", share(max, max)), arena.ticket("k", share(1, max)));
    client.holds(&writer).await;
    client.waits(&reader).await;
    let smaller = Ticket { share: share(1, max), ..writer };
    assert!(client.stands(&smaller).await.is_some());
    client.is_served(arena, &reader).await;
    assert!(client.stands(&smaller).await.is_some(), "the reader itself still holds");
}
