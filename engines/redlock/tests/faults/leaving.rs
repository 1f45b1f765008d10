//! Tickets leave also while a store hangs.

use std::time::Duration;

use tenure_conformance::fault::Verb;
use tenure_core::*;

use super::moody::Mood;
use super::stage::{PATIENCE, TTL, hold, play, served, ticket, wait};

/// Long enough for another attempt, and short beside a ttl.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_leave_that_hangs_is_not_lost() {
    play(3, async |stage| {
        let (client, ticket) = (stage.client(), ticket());
        hold(&client, &ticket).await;
        stage.stores[1].is_when(Verb::Leave, Mood::Hangs);
        assert_eq!(client.leave(&ticket, LeaveMode::Now).await.unwrap(), LeaveOutcome::Holding);
        stage.pass(PATIENCE * 10).await;
        assert_eq!(stage.tickets().await, [0, 1, 0]);
        stage.stores[1].is(Mood::Well);
        stage.pass(SOON).await;
        assert_eq!(stage.tickets().await, [0; 3], "the ticket left before its ttl ended");
    });
}

#[test]
fn a_try_that_hangs_and_fails_is_not_lost() {
    play(3, async |stage| {
        let (one, other) = (stage.client(), stage.client());
        hold(&one, &ticket()).await;
        stage.stores[1].loses_everything();
        stage.stores[1].is_when(Verb::Leave, Mood::Hangs);
        // One store serves it, so it leaves there without holding.
        assert_eq!(other.join(&ticket(), WaitMode::NoWait).await.unwrap(), None);
        stage.pass(PATIENCE * 10).await;
        assert_eq!(stage.tickets().await, [1, 1, 1]);
        stage.stores[1].is(Mood::Well);
        stage.pass(SOON).await;
        assert_eq!(stage.tickets().await, [1, 0, 1]);
    });
}

#[test]
fn the_next_one_never_sits_out_a_ttl_for_a_turn_that_hangs() {
    play(3, async |stage| {
        let (one, other) = (stage.client(), stage.client());
        let (holder, first, second) = (ticket(), ticket(), ticket());
        hold(&one, &holder).await;
        wait(&one, &first).await;
        wait(&other, &second).await;
        one.leave(&holder, LeaveMode::Now).await.unwrap();
        assert!(served(&one, &first).await.is_some());
        for turns in &stage.turns {
            turns.is_when(Verb::Leave, Mood::Hangs);
        }
        one.leave(&first, LeaveMode::Now).await.unwrap();
        stage.pass(PATIENCE * 10).await;
        assert_eq!(other.renew(&second).await.unwrap().unwrap().state, TicketState::Waiting);
        for turns in &stage.turns {
            turns.is(Mood::Well);
        }
        let waited = stage.time_of(async { assert!(served(&other, &second).await.is_some()) });
        let waited = waited.await;
        assert!(waited < SOON && waited < TTL, "the wait took {waited:?}");
    });
}

#[test]
fn nothing_is_left_once_it_is_closed() {
    play(5, async |stage| {
        let client = stage.client();
        for verb in [Verb::Join, Verb::Leave] {
            let (holder, waiter) = (ticket(), ticket());
            stage.stores[1].is_when(verb, Mood::Hangs);
            stage.stores[3].is_when(verb, Mood::Fails);
            hold(&client, &holder).await;
            wait(&client, &waiter).await;
            client.leave(&holder, LeaveMode::Now).await.unwrap();
            client.leave(&waiter, LeaveMode::Now).await.unwrap();
            stage.stores.iter().for_each(|store| store.is(Mood::Well));
            client.close().await;
            assert_eq!((stage.tickets().await, stage.places().await), (vec![0; 5], vec![0; 5]));
        }
    });
}
