//! The second promise: a token is above every earlier token of its key.

use std::sync::{Arc, Mutex};

use tenure_core::layers::AnyEngine;
use tenure_core::{BoxFuture, Engine as _, NUMBER_MAX, Ticket, TokenDurability, WaitMode};

use super::acts::{Acts as _, MUTEX, needs};
use crate::Arena;

/// The token of a ticket that joins and leaves.
async fn next(arena: &Arena, client: &AnyEngine) -> u64 {
    let ticket = arena.ticket("k", MUTEX);
    let place = client.holds(&ticket).await;
    client.leaves(&ticket).await;
    place.number
}

async fn keeps_numbers(arena: &Arena) -> bool {
    arena.profile().await.fencing > TokenDurability::None
}

pub(crate) async fn numbers_grow_from_holder_to_holder(arena: &Arena) {
    needs!(arena, keeps_numbers(arena).await, "there are no numbers to rely on");
    let client = arena.client().await;
    let mut last = 0;
    for _ in 0..200 {
        let number = next(arena, &client).await;
        assert!(number > last, "{number} is not above {last}");
        assert!(number <= NUMBER_MAX);
        last = number;
    }
}

pub(crate) async fn numbers_grow_from_client_to_client(arena: &Arena) {
    needs!(arena, keeps_numbers(arena).await, "there are no numbers to rely on");
    let mut last = 0;
    for _ in 0..6 {
        let number = next(arena, &arena.client().await).await;
        assert!(number > last, "{number} is not above {last}");
        last = number;
        arena.pass(arena.ttl() / 100).await;
    }
}

pub(crate) async fn numbers_survive_an_empty_line(arena: &Arena) {
    needs!(arena, keeps_numbers(arena).await, "there are no numbers to rely on");
    let client = arena.client().await;
    let floor =
        Ticket { floor: next(arena, &client).await + 1_000_000_000, ..arena.ticket("k", MUTEX) };
    let high = client.holds(&floor).await.number;
    client.leaves(&floor).await;
    assert_eq!(client.ids("k").await, [], "the line is empty");
    arena.pass(arena.ttl() * 2).await;
    assert!(next(arena, &arena.client().await).await > high);
}

pub(crate) async fn numbers_grow_after_an_expiry(arena: &Arena) {
    needs!(arena, keeps_numbers(arena).await, "there are no numbers to rely on");
    let (dead, client) = (arena.client().await, arena.client().await);
    let first = dead.holds(&arena.brief("k", MUTEX)).await.number;
    drop(dead);
    let next = arena.ticket("k", MUTEX);
    client.joins(&next).await;
    assert!(client.is_served(arena, &next).await.number > first);
}

pub(crate) async fn numbers_grow_after_a_break(arena: &Arena) {
    needs!(arena, keeps_numbers(arena).await, "there are no numbers to rely on");
    let client = arena.client().await;
    let broken = arena.ticket("k", MUTEX);
    let first = client.holds(&broken).await.number;
    client.is_asked_to_leave(&broken).await;
    client.leaves(&broken).await;
    let second = next(arena, &client).await;
    assert!(second > first);
    let forced = arena.ticket("k", MUTEX);
    let third = client.holds(&forced).await.number;
    arena.client().await.leaves(&forced).await;
    assert!(third > second && next(arena, &client).await > third);
}

pub(crate) async fn numbers_grow_along_the_line(arena: &Arena) {
    needs!(arena, keeps_numbers(arena).await, "there are no numbers to rely on");
    needs!(arena, arena.profile().await.fair, "waiters have no numbers here");
    let (mut tasks, mut clients): (Vec<BoxFuture<()>>, Vec<_>) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let client = arena.client().await;
        clients.push(client.clone());
        let tickets = [(); 8].map(|()| arena.ticket("k", MUTEX));
        tasks.push(Box::pin(async move {
            for ticket in tickets {
                client.joins(&ticket).await;
            }
        }));
    }
    arena.together(tasks).await;
    let line = clients[0].sees("k").await;
    assert_eq!(line.len(), 64);
    assert!(line.is_sorted_by(|(_, before), (_, after)| before.number < after.number));
}

pub(crate) async fn parallel_joins_get_distinct_numbers(arena: &Arena) {
    needs!(arena, keeps_numbers(arena).await, "there are no numbers to rely on");
    let given = Arc::new(Mutex::new(Vec::new()));
    let mut tasks: Vec<BoxFuture<()>> = Vec::new();
    for _ in 0..8 {
        let (client, given) = (arena.client().await, given.clone());
        let tickets = [(); 20].map(|()| arena.ticket("k", MUTEX));
        tasks.push(Box::pin(async move {
            for ticket in tickets {
                if let Some(place) = client.join(&ticket, WaitMode::NoWait).await.unwrap() {
                    given.lock().unwrap().push(place.number);
                    client.leaves(&ticket).await;
                }
            }
        }));
    }
    arena.together(tasks).await;
    let given = given.lock().unwrap().clone();
    assert!(!given.is_empty() || !arena.profile().await.fair, "one was served");
    assert!(given.is_sorted_by(|before, after| before < after), "{given:?} do not grow");
}

pub(crate) async fn a_number_stays_as_long_as_its_ticket(arena: &Arena) {
    let client = arena.client().await;
    let ticket = arena.ticket("k", MUTEX);
    let number = client.holds(&ticket).await.number;
    for _ in 0..3 {
        assert_eq!(client.stands(&ticket).await.unwrap().number, number);
        assert_eq!(client.joins(&ticket).await.number, number);
        assert_eq!(client.sees("k").await[0].1.number, number);
        arena.pass(arena.beat()).await;
    }
}

pub(crate) async fn a_waiter_keeps_its_number_when_it_is_served(arena: &Arena) {
    needs!(arena, arena.profile().await.fair, "waiters have no numbers here");
    let client = arena.client().await;
    let (holder, waiter) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    client.holds(&holder).await;
    let number = client.waits(&waiter).await.number;
    client.leaves(&holder).await;
    assert_eq!(client.is_served(arena, &waiter).await.number, number);
}

pub(crate) async fn a_number_is_not_below_its_floor(arena: &Arena) {
    needs!(arena, keeps_numbers(arena).await, "there are no numbers to rely on");
    let client = arena.client().await;
    let floor = next(arena, &client).await + 5_000_000_000;
    let high = Ticket { floor, ..arena.ticket("k", MUTEX) };
    let first = client.holds(&high).await.number;
    assert!(first >= floor, "{first} is below {floor}");
    client.leaves(&high).await;
    let second = next(arena, &client).await;
    assert!(second > first, "later numbers are above it");
}

pub(crate) async fn numbers_grow_above_the_floor_of_a_renewal(arena: &Arena) {
    needs!(arena, keeps_numbers(arena).await, "there are no numbers to rely on");
    let client = arena.client().await;
    let ticket = arena.ticket("k", MUTEX);
    let number = client.holds(&ticket).await.number;
    let floor = number + 5_000_000_000;
    let raised = client.stands(&Ticket { floor, ..ticket.clone() }).await.unwrap();
    assert_eq!(raised.number, number, "the token is unchanged");
    client.leaves(&ticket).await;
    assert!(next(arena, &client).await > floor);
}

pub(crate) async fn numbers_grow_when_the_store_comes_back_with_older_data(arena: &Arena) {
    needs!(arena, keeps_numbers(arena).await, "there are no numbers to rely on");
    let Some(past) = arena.past() else {
        arena.skip("it cannot be made to come back with older data here");
        return;
    };
    let (one, two) = (arena.client().await, arena.client().await);
    next(arena, &one).await;
    for _ in 0..3 {
        (past.remember)().await;
        let mut last = 0;
        for _ in 0..20 {
            last = next(arena, &one).await;
        }
        // The end and the start of a session take time.
        arena.pass(arena.beat()).await;
        (past.come_back)().await;
        for client in [&one, &two] {
            let number = next(arena, client).await;
            assert!(number > last, "{number} was given after {last}");
            last = number;
        }
    }
}
