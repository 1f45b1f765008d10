//! The waiters of a quorum are seen, watched and removed as in any store.

use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_conformance::fault::Verb;
use tenure_core::event::{EventKind, Scope};
use tenure_core::*;

use super::moody::Mood;
use super::stage::{PATIENCE, TTL, hold, key, play, served, ticket, wait};

fn sharing(take: u32) -> Ticket {
    Ticket { share: Share::new(take, SHARE_OF_MAX).unwrap(), ..ticket() }
}

#[test]
fn a_line_shows_the_holders_before_the_waiters() {
    play(3, async |stage| {
        let (one, other) = (stage.client(), stage.client());
        let readers = [sharing(1), sharing(1)];
        let (writer, last) = (sharing(SHARE_OF_MAX), ticket());
        for reader in &readers {
            hold(&one, reader).await;
        }
        wait(&other, &writer).await;
        wait(&one, &last).await;
        let mut waited_as = Vec::new();
        for observer in [&one, &other, &stage.client()] {
            let line = observer.line(&key()).await.unwrap();
            let seen: Vec<_> = line
                .iter()
                .map(|(ticket, place)| (ticket.id, ticket.share, place.ahead, place.state))
                .collect();
            let whole = u64::from(SHARE_OF_MAX);
            let expected = [
                (readers[0].id, readers[0].share, 0, TicketState::Holding),
                (readers[1].id, readers[1].share, 1, TicketState::Holding),
                (writer.id, writer.share, 2, TicketState::Waiting),
                (last.id, last.share, 2 + whole, TicketState::Waiting),
            ];
            assert_eq!(seen, expected);
            let numbers: Vec<u64> = line.iter().map(|(_, place)| place.number).collect();
            assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
            waited_as = numbers[2..].to_vec();
            assert_eq!(observer.keys("").await.unwrap(), [key()]);
        }
        for reader in &readers {
            one.leave(reader, LeaveMode::Now).await.unwrap();
        }
        let token = served(&other, &writer).await.unwrap().number;
        assert!(token >= waited_as[0], "the waiter had {}, and holds with {token}", waited_as[0]);
        other.leave(&writer, LeaveMode::Now).await.unwrap();
        let later = served(&one, &last).await.unwrap().number;
        assert!(later >= waited_as[1] && later > token);
        one.leave(&last, LeaveMode::Now).await.unwrap();
        assert!(one.line(&key()).await.unwrap().is_empty());
        assert!(one.keys("").await.unwrap().is_empty());
    });
}

#[test]
fn an_observer_sees_one_ticket_wait_and_be_served() {
    play(3, async |stage| {
        let (one, other, observer) = (stage.client(), stage.client(), stage.client());
        let (first, second) = (ticket(), ticket());
        hold(&one, &first).await;
        let scope = Scope::Prefix(String::new());
        let mut cursor = observer.events(&scope, None).await.unwrap().cursor;
        let mut next = async || {
            let news = observer.events(&scope, Some(cursor)).await.unwrap();
            cursor = news.cursor;
            assert!(!news.missed);
            let seen = news.events.iter().map(|event| (event.kind, event.ticket.id));
            seen.collect::<Vec<_>>()
        };
        wait(&other, &second).await;
        assert_eq!(next().await, [(EventKind::Joined, second.id)]);
        one.leave(&first, LeaveMode::Now).await.unwrap();
        assert_eq!(next().await, [(EventKind::Left, first.id)]);
        assert!(served(&other, &second).await.is_some());
        assert_eq!(next().await, [(EventKind::Served, second.id)]);
        other.leave(&second, LeaveMode::Now).await.unwrap();
        assert_eq!(next().await, [(EventKind::Left, second.id)]);
    });
}

#[test]
fn a_waiter_that_is_broken_is_out_at_once_and_stays_out() {
    // The first waiter is about to attempt; the others watch.
    for broken in 0..3 {
        play(3, async |stage| {
            let (holding, waiting, operator) = (stage.client(), stage.client(), stage.client());
            let (holder, waiters) = (ticket(), [ticket(), ticket(), ticket()]);
            hold(&holding, &holder).await;
            for waiter in &waiters {
                wait(&waiting, waiter).await;
                waiting.renew(waiter).await.unwrap();
            }
            let out = &waiters[broken];
            let owner = served(&waiting, out);
            let mut owner = std::pin::pin!(owner);
            assert!((&mut owner).now_or_never().is_none());
            let seen = Ticket { ttl: Duration::from_secs(1), ..out.clone() };
            assert_eq!(
                operator.leave(&seen, LeaveMode::Graceful).await.unwrap(),
                LeaveOutcome::Waiting
            );
            let line = operator.line(&key()).await.unwrap();
            assert_eq!(line.len(), 3, "the ticket is out at once");
            let ended = async { assert_eq!(owner.await, None, "the owner is notified") };
            assert!(stage.time_of(ended).await <= PATIENCE, "and soon");
            assert_eq!(operator.line(&key()).await.unwrap(), line, "the ticket does not come back");
            assert_eq!(
                operator.leave(&seen, LeaveMode::Graceful).await.unwrap(),
                LeaveOutcome::Absent
            );
            holding.leave(&holder, LeaveMode::Now).await.unwrap();
            for waiter in waiters.iter().filter(|waiter| waiter.id != out.id) {
                assert!(served(&waiting, waiter).await.is_some());
                waiting.leave(waiter, LeaveMode::Now).await.unwrap();
            }
        });
    }
}

#[test]
fn a_waiter_of_a_mutex_is_notified_that_it_was_broken() {
    play(3, async |stage| {
        let (one, other, operator) = (stage.locks(), stage.locks(), stage.locks());
        let guard = one.mutex("k").lock().await.unwrap();
        let mutex = other.mutex("k");
        let mut waiter = Box::pin(mutex.lock());
        while operator.line("k").await.unwrap().len() < 2 {
            assert!((&mut waiter).now_or_never().is_none());
            stage.pass(PATIENCE).await;
        }
        let id = operator.line("k").await.unwrap()[1].id;
        assert_eq!(operator.break_ticket("k", id).await.unwrap(), LeaveOutcome::Waiting);
        assert_eq!(waiter.await.unwrap_err().loss(), Some(Loss::Broken));
        guard.release().await.unwrap();
    });
}

#[test]
fn a_store_that_loses_its_waiters_breaks_no_ticket() {
    play(3, async |stage| {
        let (one, other) = (stage.client(), stage.client());
        let (holder, waiters) = (ticket(), [ticket(), ticket()]);
        hold(&one, &holder).await;
        for waiter in &waiters {
            wait(&other, waiter).await;
        }
        stage.turns.iter().for_each(super::moody::Moody::loses_everything);
        stage.pass(TTL / 3).await;
        for waiter in &waiters {
            assert!(
                other.renew(waiter).await.unwrap().is_some(),
                "the waiter is in the line again"
            );
        }
        assert_eq!(one.line(&key()).await.unwrap().len(), 3);
    });
}

#[test]
fn a_holder_that_is_broken_is_notified_at_once() {
    play(3, async |stage| {
        let (locks, operator) = (stage.locks(), stage.locks());
        let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        let mut lost = Box::pin(guard.lost());
        assert!((&mut lost).now_or_never().is_none());
        assert_eq!(operator.break_ticket("k", guard.id()).await.unwrap(), LeaveOutcome::Requested);
        let line = operator.line("k").await.unwrap();
        assert!(line[0].leaving, "the holder keeps its place until it has stopped");
        let ended = async { assert_eq!(lost.await, Loss::Broken) };
        assert!(stage.time_of(ended).await <= PATIENCE);
        assert!(operator.mutex("k").try_lock().await.unwrap().is_none());
        drop(guard);
        locks.flush().await;
        assert!(operator.mutex("k").try_lock().await.unwrap().is_some());
    });
}

#[test]
fn a_writer_that_becomes_a_reader_is_shown_as_one() {
    for missed in 0..3 {
        play(3, async |stage| {
            let client = stage.client();
            let writer = sharing(SHARE_OF_MAX);
            hold(&client, &writer).await;
            stage.pass(Duration::from_secs(1)).await;
            // One store misses it, and still shows its own data.
            stage.stores[missed].is_when(Verb::Renew, Mood::Fails);
            let reader =
                Ticket { share: sharing(1).share, note: Note::shortened("reads"), ..writer };
            client.renew(&reader).await.unwrap().unwrap();
            for observer in [&client, &stage.client()] {
                let line = observer.line(&key()).await.unwrap();
                assert_eq!((line.len(), &line[0].0), (1, &reader));
                assert_eq!(line[0].1.life, Some(TTL), "the longest ttl is shown");
            }
        });
    }
}

#[test]
fn a_join_that_is_sent_again_after_a_break_reports_the_break() {
    play(3, async |stage| {
        let (holding, waiting, operator) = (stage.client(), stage.client(), stage.client());
        let (holder, waiter) = (ticket(), ticket());
        hold(&holding, &holder).await;
        wait(&waiting, &waiter).await;
        operator.leave(&waiter, LeaveMode::Graceful).await.unwrap();
        let error = waiting.join(&waiter, WaitMode::Wait).await.unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Broken));
        assert_eq!(operator.line(&key()).await.unwrap().len(), 1, "it stays out");
    });
}
