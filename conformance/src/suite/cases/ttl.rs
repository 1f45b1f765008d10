//! The fifth promise: a ticket expires after its ttl without a renewal, and never earlier.

use tenure_core::{Engine as _, LeaveOutcome, Liveness, Ticket, TicketState};

use super::acts::{Acts as _, MUTEX, needs};
use crate::Arena;

pub(crate) async fn the_dead_leave_by_themselves(arena: &Arena) {
    let (dead, client) = (arena.client().await, arena.client().await);
    dead.holds(&arena.brief("k", MUTEX)).await;
    drop(dead);
    let next = arena.ticket("k", MUTEX);
    client.joins(&next).await;
    client.is_served(arena, &next).await;
    assert_eq!(client.ids("k").await, [next.id]);
}

pub(crate) async fn a_holder_without_a_renewal_expires(arena: &Arena) {
    needs!(arena, arena.lives_by_ttl().await, "tickets do not end by a ttl here");
    let client = arena.client().await;
    let silent = arena.brief("k", MUTEX);
    client.holds(&silent).await;
    arena.pass(arena.ttl() * 2).await;
    assert_eq!(client.ids("k").await, []);
    assert_eq!(client.names("").await, [""; 0]);
    assert_eq!(client.leaves(&silent).await, LeaveOutcome::Absent);
    client.holds(&arena.ticket("k", MUTEX)).await;
}

pub(crate) async fn a_ticket_does_not_expire_early(arena: &Arena) {
    let client = arena.client().await;
    let ticket = arena.brief("k", MUTEX);
    let asked = arena.now();
    client.holds(&ticket).await;
    for _ in 0..17 {
        let ids = client.ids("k").await;
        let other = client.tries(&arena.ticket("k", MUTEX)).await;
        if asked.until(arena.now()) >= arena.ttl() / 20 * 19 {
            return;
        }
        assert_eq!(ids, [ticket.id]);
        assert_eq!(other, None);
        arena.pass(arena.ttl() / 20).await;
    }
}

pub(crate) async fn a_renewed_ticket_stays(arena: &Arena) {
    let client = arena.client().await;
    let (holder, waiter) = (arena.brief("k", MUTEX), arena.brief("k", MUTEX));
    let mut lived = arena.now();
    client.holds(&holder).await;
    client.waits(&waiter).await;
    for _ in 0..8 {
        arena.pass(arena.ttl() / 4).await;
        let before = arena.now();
        let (holds, stays) = (client.stands(&holder).await, client.stands(&waiter).await);
        if lived.until(arena.now()) >= arena.ttl() / 20 * 19 {
            return arena.skip("this machine stood still for a whole ttl");
        }
        assert_eq!(holds.expect("the ticket is renewed").state, TicketState::Holding);
        assert_eq!(stays.expect("the ticket is renewed").state, TicketState::Waiting);
        lived = before;
    }
}

pub(crate) async fn joining_again_renews(arena: &Arena) {
    let client = arena.client().await;
    let ticket = arena.brief("k", MUTEX);
    let mut sign = arena.now();
    let number = client.holds(&ticket).await.number;
    for _ in 0..5 {
        arena.pass(arena.ttl() / 3).await;
        let before = arena.now();
        let place = client.holds(&ticket).await;
        if sign.until(arena.now()) >= arena.ttl() / 20 * 19 {
            return arena.skip("this machine stood still for a whole ttl");
        }
        assert_eq!(place.number, number, "the ticket never left");
        sign = before;
    }
}

pub(crate) async fn looking_does_not_renew(arena: &Arena) {
    needs!(arena, arena.lives_by_ttl().await, "tickets do not end by a ttl here");
    let client = arena.client().await;
    client.holds(&arena.brief("k", MUTEX)).await;
    let gone = async {
        while !client.ids("k").await.is_empty() {
            client.names("").await;
            client.tries(&arena.ticket("other", MUTEX)).await;
            arena.pass(arena.ttl() / 10).await;
        }
    };
    arena.soon("a ticket ends, however much it is looked at", gone).await;
}

pub(crate) async fn an_end_never_moves_backwards(arena: &Arena) {
    let client = arena.client().await;
    let long = arena.ticket("k", MUTEX);
    client.holds(&long).await;
    let short = Ticket { ttl: arena.ttl(), ..long.clone() };
    assert!(client.stands(&short).await.is_some());
    client.joins(&short).await;
    arena.pass(arena.ttl() * 2).await;
    assert!(client.stands(&long).await.is_some(), "the ttl has not passed");
    assert_eq!(client.tries(&arena.ticket("k", MUTEX)).await, None);
}

pub(crate) async fn a_dead_waiter_does_not_block_the_line(arena: &Arena) {
    let (holder, dead, client) = (arena.client().await, arena.client().await, arena.client().await);
    let held = arena.ticket("k", MUTEX);
    holder.holds(&held).await;
    dead.waits(&arena.brief("k", MUTEX)).await;
    let next = arena.ticket("k", MUTEX);
    client.waits(&next).await;
    drop(dead);
    arena.pass(arena.ttl() * 2).await;
    holder.leaves(&held).await;
    client.is_served(arena, &next).await;
}

pub(crate) async fn a_waiter_that_dies_when_it_is_served_does_not_block_the_line(arena: &Arena) {
    let (holder, dead, client) = (arena.client().await, arena.client().await, arena.client().await);
    let held = arena.ticket("k", MUTEX);
    holder.holds(&held).await;
    dead.waits(&arena.brief("k", MUTEX)).await;
    let next = arena.ticket("k", MUTEX);
    client.waits(&next).await;
    drop(dead);
    holder.leaves(&held).await;
    client.is_served(arena, &next).await;
}

pub(crate) async fn a_waiter_without_a_renewal_expires(arena: &Arena) {
    needs!(arena, arena.lives_by_ttl().await, "tickets do not end by a ttl here");
    needs!(arena, arena.profile().await.fair, "waiters stand in no line here");
    let client = arena.client().await;
    let (holder, silent, next) =
        (arena.ticket("k", MUTEX), arena.brief("k", MUTEX), arena.ticket("k", MUTEX));
    client.holds(&holder).await;
    client.waits(&silent).await;
    client.waits(&next).await;
    arena.pass(arena.ttl() * 2).await;
    assert_eq!(client.ids("k").await, [holder.id, next.id]);
    assert_eq!(client.stands(&silent).await, None);
}

pub(crate) async fn a_ticket_behind_an_expired_one_is_served(arena: &Arena) {
    needs!(arena, arena.lives_by_ttl().await, "tickets do not end by a ttl here");
    needs!(arena, arena.profile().await.fair, "waiters stand in no line here");
    let client = arena.client().await;
    let (first, next) = (arena.ticket("first", MUTEX), arena.ticket("next", MUTEX));
    for waiter in [&first, &next] {
        client.holds(&arena.brief(waiter.key.as_str(), MUTEX)).await;
        client.waits(waiter).await;
    }
    arena.pass(arena.ttl() * 2).await;
    assert_eq!(
        client.is_asked_to_leave(&first).await,
        LeaveOutcome::Requested,
        "the ticket keeps its place until it stops"
    );
    assert_eq!(client.ids("first").await, [first.id]);
    assert_eq!(client.leaves(&first).await, LeaveOutcome::Holding);
    assert_eq!(client.leaves(&next).await, LeaveOutcome::Holding);
    assert_eq!(client.ids("next").await, []);
}

pub(crate) async fn a_place_has_the_rest_of_the_ttl(arena: &Arena) {
    needs!(arena, arena.lives_by_ttl().await, "tickets do not end by a ttl here");
    let client = arena.client().await;
    let ticket = arena.brief("k", MUTEX);
    let (ttl, asked) = (arena.ttl(), arena.now());
    let life = client.holds(&ticket).await.life.expect("the ttl is reported");
    let most = ttl + arena.profile().await.rounding;
    assert!(life <= most, "{life:?} is more than the requested ttl");
    assert!(life >= ttl.saturating_sub(asked.until(arena.now())) / 10 * 9, "{life:?} is too short");
    arena.pass(ttl / 4).await;
    if let [(_, place)] = client.sees("k").await[..] {
        let left = place.life.expect("the ttl is reported");
        assert!(left + ttl / 5 <= most, "{left:?} has not become less");
    }
    let renewed = client.stands(&ticket).await.and_then(|place| place.life);
    assert!(renewed.is_none_or(|renewed| renewed <= most && renewed >= ttl / 10), "{renewed:?}");
}

pub(crate) async fn a_waiter_learns_when_to_look_again(arena: &Arena) {
    needs!(arena, arena.lives_by_ttl().await, "tickets do not end by a ttl here");
    let client = arena.client().await;
    client.holds(&arena.brief("k", MUTEX)).await;
    let place = client.waits(&arena.ticket("k", MUTEX)).await;
    let most = arena.ttl() + arena.profile().await.rounding;
    assert!(place.look.is_none_or(|look| look <= most), "the holder expires earlier");
}

pub(crate) async fn a_ticket_of_a_kernel_session_needs_no_ttl(arena: &Arena) {
    let kernel = arena.profile().await.liveness == Liveness::Kernel;
    needs!(arena, kernel, "the kernel does not see to it here");
    let client = arena.client().await;
    let (holder, waiter) = (arena.brief("k", MUTEX), arena.brief("k", MUTEX));
    assert_eq!(client.holds(&holder).await.life, None);
    client.waits(&waiter).await;
    arena.pass(arena.ttl() * 4).await;
    assert_eq!(arena.client().await.ids("k").await, [holder.id, waiter.id]);
    assert!(client.stands(&holder).await.is_some());
    assert_eq!(client.stands(&waiter).await.unwrap().state, TicketState::Waiting);
}

pub(crate) async fn a_client_that_closes_removes_only_its_own_tickets(arena: &Arena) {
    let (one, two) = (arena.client().await, arena.client().await);
    let (ours, theirs) = (arena.ticket("ours", MUTEX), arena.brief("theirs", MUTEX));
    one.holds(&ours).await;
    two.holds(&theirs).await;
    drop(two);
    let gone = async {
        while !one.ids("theirs").await.is_empty() {
            arena.pass(arena.beat()).await;
        }
    };
    arena.soon("the tickets of a dead client leave", gone).await;
    assert!(one.stands(&ours).await.is_some());
    let third = arena.client().await;
    third.tries(&arena.ticket("theirs", MUTEX)).await.expect("the lock is free");
    assert_eq!(third.renew(&theirs).await.expect("the renewal returns"), None);
}
