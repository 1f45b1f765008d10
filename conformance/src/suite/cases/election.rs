//! Elections: never two leaders, no work after the seat is given up, and every term is observed.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tenure_core::{BoxFuture, Election, EventDelivery, Leader, Leaders, Loss, Result};
use tokio::sync::oneshot;

use super::acts::{is_token_of, lost, needs};
use crate::Arena;

async fn election(arena: &Arena) -> Election {
    arena.locks().await.election("k").renew_every(arena.beat())
}

async fn next(arena: &Arena, leaders: &mut Leaders) -> Option<Leader> {
    arena.soon("the next term is observed", leaders.next()).await.expect("the store answers")
}

/// Counts itself while it lives: dropped work is not counted.
struct Inside(Arc<AtomicU32>);

impl Inside {
    fn enter(count: &Arc<AtomicU32>) -> Self {
        assert_eq!(count.fetch_add(1, Ordering::SeqCst), 0, "there are two leaders");
        Self(count.clone())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) async fn there_are_never_two_leaders(arena: &Arena) {
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks: Vec<BoxFuture<()>> = Vec::new();
    for _ in 0..8 {
        let (election, host, inside) = (election(arena).await, arena.host(), inside.clone());
        tasks.push(Box::pin(async move {
            for _ in 0..4 {
                let (host, inside) = (host.clone(), inside.clone());
                let led = election.run(|token, term| {
                    let (host, inside) = (host.clone(), inside.clone());
                    async move {
                        let _guard = Inside::enter(&inside);
                        host.sleep(Duration::from_micros(50)).await;
                        term.check().expect("the term has not ended");
                        token.get()
                    }
                });
                led.await.expect("the candidate is elected");
            }
        }));
    }
    arena.together(tasks).await;
}

pub(crate) async fn work_is_stopped_before_the_seat_is_given_up(arena: &Arena) {
    let (first, second) = (election(arena).await, election(arena).await);
    let operator = arena.locks().await;
    let inside = Arc::new(AtomicU32::new(0));
    let terms = AtomicU32::new(0);
    let leads = first.run(|_, _| {
        let (inside, term) = (inside.clone(), terms.fetch_add(1, Ordering::SeqCst));
        async move {
            let _guard = Inside::enter(&inside);
            if term == 0 {
                std::future::pending::<()>().await;
            }
        }
    });
    let follows = async {
        while first.leader().await.unwrap().is_none() {
            arena.pass(arena.beat() / 4).await;
        }
        let mut waiting = Box::pin(second.campaign());
        arena.not_now("there are two leaders", &mut waiting).await;
        let leader = first.leader().await.unwrap().expect("there is a leader");
        operator.break_ticket("k", leader.id).await.unwrap();
        let seat = waiting.await.unwrap();
        assert_ne!(seat.id(), leader.id);
        let inside = Inside::enter(&inside);
        arena.pass(arena.beat()).await;
        drop(inside);
        seat.release().await.unwrap();
    };
    let both = futures_util::future::join(leads, follows);
    let (led, ()) = arena.soon("both have led", both).await;
    led.unwrap();
    assert_eq!(terms.load(Ordering::SeqCst), 2, "a broken leader campaigns again");
    assert!(operator.line("k").await.unwrap().is_empty());
}

pub(crate) async fn a_leader_may_resign(arena: &Arena) {
    let (first, second) = (election(arena).await, election(arena).await);
    assert_eq!(first.leader().await.unwrap(), None);
    let seat = first.clone().note("here").campaign().await.unwrap();
    assert!(second.try_campaign().await.unwrap().is_none());
    let (leader, token) =
        (second.leader().await.unwrap().expect("there is a leader"), seat.token());
    assert_eq!((&*leader.note, leader.id), ("here", seat.id()));
    assert!(is_token_of(arena, leader.term, seat.token()).await);
    seat.release().await.unwrap();
    assert_eq!(second.leader().await.unwrap(), None);
    let next = second.try_campaign().await.unwrap().expect("the seat is free");
    assert!(next.token() > token);
}

pub(crate) async fn a_candidate_that_gives_up_is_not_elected(arena: &Arena) {
    let (first, locks) = (election(arena).await, arena.locks().await);
    let second = locks.election("k").renew_every(arena.beat());
    let seat = first.campaign().await.unwrap();
    let mut waiting = Box::pin(second.campaign());
    arena.not_now("there are two leaders", &mut waiting).await;
    drop(waiting);
    arena.is_busy(second.try_campaign_for(arena.beat()).await);
    arena.soon("what was given up is given back", locks.flush()).await;
    seat.release().await.unwrap();
    assert_eq!(first.leader().await.unwrap(), None);
    drop(first.try_campaign().await.unwrap().expect("the seat is free"));
}

pub(crate) async fn the_note_of_a_leader_changes_in_place(arena: &Arena) {
    let (first, second) = (election(arena).await, election(arena).await);
    let seat = first.clone().note("one").campaign().await.unwrap();
    let mut leaders = second.observe().await.unwrap();
    let now = next(arena, &mut leaders).await.expect("there is a leader");
    assert_eq!((&*now.note, now.id), ("one", seat.id()));
    assert!(is_token_of(arena, now.term, seat.token()).await);
    seat.set_note("two").await.unwrap();
    let token = now.term;
    let now = next(arena, &mut leaders).await.expect("there is a leader");
    assert_eq!((&*now.note, now.term), ("two", token), "the term is the same");
    assert_eq!(second.leader().await.unwrap(), Some(now));
}

pub(crate) async fn an_observer_sees_every_term_in_order(arena: &Arena) {
    let (all, elections) = (arena.profile().await.events, election(arena).await);
    needs!(arena, all == EventDelivery::Every, "observers are shown only what lasts here");
    let mut leaders = elections.observe().await.unwrap();
    assert_eq!(next(arena, &mut leaders).await, None, "there is no leader yet");
    let mut tokens = Vec::new();
    for _ in 0..10 {
        let seat = election(arena).await.campaign().await.unwrap();
        tokens.push(seat.token());
        seat.release().await.unwrap();
    }
    for token in tokens {
        let leader = next(arena, &mut leaders).await.expect("a term, however short");
        assert_eq!(leader.term, token);
        assert_eq!(next(arena, &mut leaders).await, None, "and its end");
    }
}

pub(crate) async fn an_observer_sees_the_leader_and_its_successor(arena: &Arena) {
    let (first, second) = (election(arena).await, election(arena).await);
    let seat = first.campaign().await.unwrap();
    let mut leaders = second.observe().await.unwrap();
    let leader = next(arena, &mut leaders).await.expect("there is a leader");
    assert!(is_token_of(arena, leader.term, seat.token()).await);
    let mut more: Pin<Box<dyn Future<Output = Result<Option<Leader>>>>> = Box::pin(leaders.next());
    arena.not_now("the same term is reported twice", &mut more).await;
    drop(more);
    let token = seat.token();
    seat.release().await.unwrap();
    let next_seat = second.campaign().await.unwrap();
    let follows = async {
        loop {
            if let Some(leader) = leaders.next().await.expect("the store answers") {
                return leader;
            }
        }
    };
    let leader = arena.soon("the next term is observed", follows).await;
    assert!(is_token_of(arena, leader.term, next_seat.token()).await);
    assert!(leader.term > token.get());
}

pub(crate) async fn a_leader_is_notified_of_its_fall_without_a_check(arena: &Arena) {
    let election = election(arena).await;
    let operator = arena.locks().await;
    let seat = election.campaign().await.unwrap();
    operator.force_unlock("k", seat.id()).await.unwrap();
    let again = election.try_campaign().await.unwrap().expect("the seat is free");
    assert_eq!(arena.soon("the loss is reported", seat.lost()).await, Loss::Broken);
    assert_eq!(lost(seat.release().await), Some(Loss::Broken));
    again.check().expect("the same candidate may lead again");
}

pub(crate) async fn a_stop_takes_a_follower_out_of_the_line(arena: &Arena) {
    needs!(arena, arena.profile().await.fair, "waiters stand in no line here");
    let (leader, follower) = (election(arena).await, election(arena).await);
    let seat = leader.campaign().await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let led = follower.run_until(async { drop(stopped.await) }, |_, _| async {
        panic!("the term has not ended")
    });
    let mut led = Box::pin(led);
    arena.stands_in_line("k", 2, &mut led).await;
    drop(stop);
    let output = arena.soon("a follower stops", led).await.unwrap();
    assert_eq!(output, None::<()>);
    let locks = arena.locks().await;
    let alone = async {
        while locks.line("k").await.unwrap().len() > 1 {
            arena.pass(arena.beat() / 4).await;
        }
    };
    arena.soon("it is out of the line", alone).await;
    seat.release().await.unwrap();
}

pub(crate) async fn a_stop_ends_the_work_of_a_leader_before_the_next_leads(arena: &Arena) {
    let (first, second) = (election(arena).await, election(arena).await);
    let inside = Arc::new(AtomicU32::new(0));
    let (stop, stopped) = oneshot::channel::<()>();
    let led = first.run_until(async { drop(stopped.await) }, |_, _| {
        let inside = Inside::enter(&inside);
        async move {
            let _guard = inside;
            std::future::pending::<()>().await;
        }
    });
    let next = async {
        while inside.load(Ordering::SeqCst) == 0 {
            arena.pass(arena.beat() / 4).await;
        }
        drop(stop);
        let seat = second.campaign().await.unwrap();
        assert_eq!(inside.load(Ordering::SeqCst), 0, "there are two leaders");
        seat.release().await.unwrap();
    };
    let (output, ()) =
        arena.soon("the next one leads", Box::pin(futures_util::future::join(led, next))).await;
    assert_eq!(output.unwrap(), None);
}
