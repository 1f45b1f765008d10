//! Breaking: a waiter is removed at once, a holder is asked to leave, and there are never two.

use tenure_core::{
    Engine as _, LeaveOutcome, Loss, Note, Owner, Share, Ticket, TicketId, TicketState,
};

use super::acts::{Acts as _, MUTEX, lost, needs};
use crate::Arena;

pub(crate) async fn a_waiter_is_out_at_once(arena: &Arena) {
    needs!(arena, arena.profile().await.fair, "waiters stand in no line here");
    let (client, operator) = (arena.client().await, arena.client().await);
    let [a, b, c] = [(); 3].map(|()| arena.ticket("k", MUTEX));
    for ticket in [&a, &b, &c] {
        client.joins(ticket).await;
    }
    assert_eq!(operator.is_asked_to_leave(&b).await, LeaveOutcome::Waiting);
    assert_eq!(client.ids("k").await, [a.id, c.id]);
    assert_eq!(client.stands(&b).await, None);
    assert_eq!(operator.is_asked_to_leave(&b).await, LeaveOutcome::Absent);
    client.leaves(&a).await;
    assert_eq!(client.stands(&c).await.unwrap().state, TicketState::Holding);
}

pub(crate) async fn a_holder_keeps_its_place_until_it_leaves(arena: &Arena) {
    let (owner, operator) = (arena.client().await, arena.client().await);
    let (holder, waiter) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    owner.holds(&holder).await;
    operator.waits(&waiter).await;
    assert_eq!(operator.is_asked_to_leave(&holder).await, LeaveOutcome::Requested);
    assert_eq!(operator.is_asked_to_leave(&holder).await, LeaveOutcome::Requested, "twice is once");
    let place = owner.stands(&holder).await.expect("the ticket is still in the line");
    assert!(place.leaving && place.state == TicketState::Holding);
    for _ in 0..3 {
        let line = operator.sees("k").await;
        assert_eq!(line[0].0.id, holder.id);
        assert!(line[0].1.leaving);
        assert_eq!(operator.stands(&waiter).await.unwrap().state, TicketState::Waiting);
        assert_eq!(operator.tries(&arena.ticket("k", MUTEX)).await, None);
        arena.pass(arena.ttl() / 20).await;
    }
    assert_eq!(owner.leaves(&holder).await, LeaveOutcome::Holding);
    operator.is_served(arena, &waiter).await;
}

pub(crate) async fn a_renewal_does_not_change_a_holder_that_was_asked_to_leave(arena: &Arena) {
    let (owner, operator) = (arena.client().await, arena.client().await);
    let holder = arena.brief("k", Share::READER);
    owner.holds(&holder).await;
    operator.is_asked_to_leave(&holder).await;
    let before = owner.stands(&holder).await.expect("the ticket is in the line");
    let longer = Ticket { ttl: holder.ttl * 4, note: Note::shortened("changed"), ..holder.clone() };
    let after = owner.stands(&longer).await.expect("the ticket is in the line");
    assert!(after.leaving && after.number == before.number);
    assert!(after.life <= before.life, "the renewal does not extend it");
    assert_eq!(operator.sees("k").await[0].0.note, holder.note);
}

pub(crate) async fn a_holder_that_was_asked_to_leave_expires(arena: &Arena) {
    let (owner, operator) = (arena.client().await, arena.client().await);
    let (holder, waiter) = (arena.brief("k", MUTEX), arena.ticket("k", MUTEX));
    owner.holds(&holder).await;
    operator.waits(&waiter).await;
    operator.is_asked_to_leave(&holder).await;
    let by_ttl = arena.lives_by_ttl().await;
    if !by_ttl {
        drop(owner);
    }
    operator.is_served(arena, &waiter).await;
    assert_eq!(operator.leaves(&holder).await, LeaveOutcome::Absent);
}

pub(crate) async fn an_id_and_a_key_are_enough(arena: &Arena) {
    let (owner, operator) = (arena.client().await, arena.client().await);
    let holder = arena.ticket("k", tenure_core::Share::WHOLE);
    owner.holds(&holder).await;
    let mut handle: Ticket = arena.brief("k", MUTEX);
    handle.id = TicketId::from_u128(holder.id.to_u128());
    handle.owner = Owner::shortened("an operator");
    handle.note = Note::shortened("a stale view");
    assert_eq!(operator.is_asked_to_leave(&handle).await, LeaveOutcome::Requested);
    assert_eq!(operator.leaves(&handle).await, LeaveOutcome::Holding);
    assert_eq!(owner.ids("k").await, []);
}

pub(crate) async fn a_ticket_that_is_forced_out_is_gone_at_once(arena: &Arena) {
    let (owner, operator) = (arena.client().await, arena.client().await);
    let (holder, waiter) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    owner.holds(&holder).await;
    operator.waits(&waiter).await;
    assert_eq!(operator.leaves(&holder).await, LeaveOutcome::Holding);
    operator.is_served(arena, &waiter).await;
    assert_eq!(owner.stands(&holder).await, None);
    assert_eq!(owner.leaves(&holder).await, LeaveOutcome::Absent);
    assert_eq!(operator.ids("k").await, [waiter.id]);
}

pub(crate) async fn a_holder_is_asked_to_leave_and_the_next_waits_until_it_has(arena: &Arena) {
    let (locks, operator) = (arena.locks().await, arena.locks().await);
    let guard = locks.mutex("k").renew_every(arena.beat()).lock().await.unwrap();
    assert_eq!(operator.break_ticket("k", guard.id()).await.unwrap(), LeaveOutcome::Requested);
    assert_eq!(arena.soon("the holder is notified", guard.lost()).await, Loss::Broken);
    assert_eq!(lost(guard.check()), Some(Loss::Broken));
    assert!(operator.mutex("k").try_lock().await.unwrap().is_none(), "the holder has not left yet");
    assert_eq!(lost(guard.release().await), Some(Loss::Broken));
    let next = operator.mutex("k").try_lock().await.unwrap();
    assert!(next.is_some(), "the holder has left");
}

pub(crate) async fn a_broken_holder_stops_its_work_before_the_next_begins(arena: &Arena) {
    let (locks, operator) = (arena.locks().await, arena.locks().await);
    let guard = locks.mutex("k").renew_every(arena.beat()).lock().await.unwrap();
    let id = guard.id();
    let broken = async {
        let stopped = guard.run(std::future::pending::<()>()).await;
        assert_eq!(lost(stopped), Some(Loss::Broken));
        drop(guard);
    };
    let breaks = async {
        operator.break_ticket("k", id).await.unwrap();
        operator.mutex("k").renew_every(arena.beat()).lock().await.unwrap()
    };
    let (next, ()) =
        arena.soon("the next is served", futures_util::future::join(breaks, broken)).await;
    next.check().unwrap();
}

pub(crate) async fn a_broken_waiter_learns_that_it_was_broken(arena: &Arena) {
    needs!(arena, arena.profile().await.fair, "waiters stand in no line here");
    let (locks, operator) = (arena.locks().await, arena.locks().await);
    let guard = locks.mutex("k").lock().await.unwrap();
    let waiting = locks.mutex("k").renew_every(arena.beat());
    let breaks = async {
        let line = loop {
            let line = operator.line("k").await.unwrap();
            if line.len() == 2 {
                break line;
            }
            arena.pass(arena.beat() / 4).await;
        };
        assert_eq!(operator.break_ticket("k", line[1].id).await.unwrap(), LeaveOutcome::Waiting);
    };
    let both = futures_util::future::join(waiting.lock(), breaks);
    let (waited, ()) = arena.soon("a broken waiter is notified", both).await;
    assert_eq!(lost(waited), Some(Loss::Broken));
    guard.check().unwrap();
    guard.release().await.unwrap();
    assert!(operator.line("k").await.unwrap().is_empty());
}

pub(crate) async fn a_holder_that_is_forced_out_is_notified(arena: &Arena) {
    let (locks, operator) = (arena.locks().await, arena.locks().await);
    let guard = locks.mutex("k").renew_every(arena.beat()).lock().await.unwrap();
    let token = guard.token();
    assert_eq!(operator.force_unlock("k", guard.id()).await.unwrap(), LeaveOutcome::Holding);
    let next = operator.mutex("k").try_lock().await.unwrap().expect("the lock is free at once");
    assert!(next.token() > token, "the old holder's writes can be refused");
    assert_eq!(arena.soon("the holder is notified", guard.lost()).await, Loss::Broken);
    assert_eq!(lost(guard.release().await), Some(Loss::Broken));
    next.check().unwrap();
    next.release().await.unwrap();
}

pub(crate) async fn an_absent_ticket_cannot_be_broken(arena: &Arena) {
    let locks = arena.locks().await;
    let absent = TicketId::fresh();
    assert_eq!(locks.break_ticket("k", absent).await.unwrap(), LeaveOutcome::Absent);
    assert_eq!(locks.force_unlock("k", absent).await.unwrap(), LeaveOutcome::Absent);
    let guard = locks.mutex("k").lock().await.unwrap();
    assert_eq!(locks.break_ticket("other", guard.id()).await.unwrap(), LeaveOutcome::Absent);
    assert_eq!(locks.break_ticket("k", absent).await.unwrap(), LeaveOutcome::Absent);
    guard.check().unwrap();
    guard.release().await.unwrap();
    assert!(arena.client().await.keys("").await.unwrap().is_empty());
}
