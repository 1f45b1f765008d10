//! Members: what becomes of locks when the primary fails, and when there is no majority.

use std::time::Duration;

use tenure_conformance::fault::stories::{exclusion, members as stories};
use tenure_core::{Engine as _, ErrorKind, LeaveMode, TicketState, WaitMode, Wake};
use tenure_mongodb::MongoStore;
use tenure_servers::mongodb::{Members, doc};

use super::stage::{LONG, connect, join, play, soon, store, ticket, until};

#[test]
fn a_lock_outlives_the_primary_and_a_hand_over_is_heard_afterwards() {
    play(async || {
        let members = Members::start(3).unwrap();
        let (holder, waiter) = (store(&members.url()).await, store(&members.url()).await);
        let (held, waits) = (ticket("a", LONG), ticket("a", LONG));
        let first = holder.join(&held, WaitMode::Wait).await.unwrap().unwrap();
        let second = waiter.join(&waits, WaitMode::Wait).await.unwrap().unwrap();
        assert_eq!(second.state, TicketState::Waiting);
        let primary = members.primary().unwrap();
        let watch = waiter.watch(&waits, TicketState::Waiting);
        let fail_over = async {
            primary.kill().unwrap();
            until("the next primary knows the holder", async || {
                holder
                    .renew(&held)
                    .await
                    .is_ok_and(|place| place.is_some_and(|place| place.number == first.number))
            })
            .await;
            until("it is released", async || holder.leave(&held, LeaveMode::Now).await.is_ok())
                .await;
            std::future::pending::<()>().await;
        };
        let woken = soon("the waiter is woken", async {
            tokio::select! { woken = watch => woken, () = fail_over => unreachable!("it goes on") }
        });
        assert!(matches!(woken.await.unwrap(), Wake::Served(_) | Wake::Look));
        let place = soon("it holds", async {
            loop {
                if let Ok(Some(place)) = waiter.renew(&waits).await {
                    return place;
                }
            }
        });
        assert_eq!((place.await.state, second.number > first.number), (TicketState::Holding, true));
    });
}

#[test]
fn a_primary_that_steps_down_loses_nothing() {
    play(async || {
        let members = Members::start(3).unwrap();
        let store = store(&members.url()).await;
        let held = ticket("a", LONG);
        let before = store.join(&held, WaitMode::Wait).await.unwrap().unwrap();
        let primary = members.primary().unwrap();
        // The connection may end with it.
        let _ = primary.command("admin", doc! { "replSetStepDown": 20, "force": true });
        until("another one takes over", async || store.renew(&held).await.is_ok()).await;
        let place = store.renew(&held).await.unwrap().expect("it stands there");
        assert_eq!(place.number, before.number);
    });
}

#[test]
fn without_a_majority_nothing_counts() {
    play(async || {
        let members = Members::start(3).unwrap();
        let store = store(&members.url()).await;
        let held = ticket("a", LONG);
        join(&store, &held).await;
        let primary = members.primary().unwrap();
        let others: Vec<_> =
            members.servers().iter().filter(|it| it.port() != primary.port()).collect();
        for other in &others {
            other.freeze().unwrap();
        }
        let late = ticket("b", LONG);
        let error = store.join(&late, WaitMode::Wait).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        for other in &others {
            other.thaw().unwrap();
        }
        until("a majority is back", async || store.renew(&held).await.is_ok()).await;
        until("what was left behind is taken back", async || {
            store.leave(&late, LeaveMode::Now).await.is_ok()
        })
        .await;
        assert!(store.line(&late.key).await.unwrap().is_empty());
    });
}

#[test]
fn without_a_majority_holders_are_told_and_with_it_again_locks_are_given_with_higher_numbers() {
    play(async || {
        let members = Members::start(3).unwrap();
        let locks = connect(members.url()).await;
        let primary = members.primary().unwrap();
        let other = members.servers().iter().find(|it| it.port() != primary.port()).unwrap();
        let stand_still = || [primary, other].iter().for_each(|one| one.freeze().unwrap());
        let go_on = || [primary, other].iter().for_each(|one| one.thaw().unwrap());
        let ttl = Duration::from_secs(2);
        stories::the_loss_of_the_majority_is_told(locks, ttl, stand_still, go_on).await;
    });
}

#[test]
fn members_without_a_primary_are_told_from_servers_that_are_gone() {
    play(async || {
        let members = Members::start(3).unwrap();
        let primary = members.primary().unwrap();
        let survivor = members.servers().iter().find(|it| it.port() != primary.port()).unwrap();
        for server in members.servers().iter().filter(|it| it.port() != survivor.port()) {
            server.kill().unwrap();
        }
        let error = MongoStore::open(&members.url()).await.expect_err("no member takes writes");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("an election takes some ten seconds"), "{error}");
        survivor.kill().unwrap();
        let error = MongoStore::open(&members.url()).await.expect_err("there is no member");
        assert!(error.to_string().contains("is the server running?"), "{error}");
    });
}

#[test]
fn a_frozen_primary_is_replaced_and_its_late_word_does_not_count() {
    play(async || {
        let members = Members::start(3).unwrap();
        let store = store(&members.url()).await;
        let held = ticket("a", LONG);
        let before = join(&store, &held).await;
        let primary = members.primary().unwrap();
        primary.freeze().unwrap();
        until("another one takes over", async || store.renew(&held).await.is_ok()).await;
        assert_eq!(
            store.leave(&held, LeaveMode::Now).await.unwrap_or(tenure_core::LeaveOutcome::Holding),
            tenure_core::LeaveOutcome::Holding
        );
        primary.thaw().unwrap();
        let next = soon("the next ticket is in", async {
            loop {
                if let Ok(Some(place)) = store.join(&ticket("a", LONG), WaitMode::Wait).await {
                    return place;
                }
            }
        });
        assert!(next.await.number > before.number);
    });
}

#[test]
fn all_members_may_be_restarted_and_no_lock_is_lost() {
    play(async || {
        let members = Members::start(3).unwrap();
        let store = store(&members.url()).await;
        let (held, waits) = (ticket("a", LONG), ticket("a", LONG));
        let before = join(&store, &held).await;
        join(&store, &waits).await;
        for server in members.servers() {
            server.kill().unwrap();
        }
        for server in members.servers() {
            server.restart().unwrap();
        }
        until("they answer again", async || store.renew(&held).await.is_ok()).await;
        let place = store.renew(&held).await.unwrap().expect("it stands there");
        assert_eq!((place.number, place.state), (before.number, TicketState::Holding));
        assert_eq!(store.line(&held.key).await.unwrap().len(), 2);
    });
}

#[test]
fn a_primary_that_stands_still_for_longer_than_a_ttl_never_makes_two_holders() {
    play(async || {
        let members = Members::start(3).unwrap();
        let (locks, other) = (connect(members.url()).await, connect(members.url()).await);
        // No member is elected within this time, and so no holder renews.
        let ttl = Duration::from_secs(1);
        let guard = locks.mutex("a").ttl(ttl).lock().await.unwrap();
        let old = members.primary().unwrap();
        old.freeze().unwrap();
        let next = soon("the next one is served", async {
            loop {
                match other.mutex("a").lock().await {
                    Ok(next) => return next,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
                }
            }
        });
        let next = next.await;
        // The new holder was served after the old one had been notified.
        assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
        assert!(next.token() > guard.token());
        old.thaw().unwrap();
        until("the old one follows", async || !old.is_primary()).await;
        next.extend().await.unwrap();
        assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
        next.release().await.unwrap();
    });
}

#[test]
fn a_url_that_reads_from_secondaries_gives_the_same_locks() {
    play(async || {
        let members = Members::start(3).unwrap();
        let url = format!("{}&readPreference=secondaryPreferred&w=1", members.url());
        let (holder, other) = (store(&url).await, store(&url).await);
        let held = ticket("a", LONG);
        let before = join(&holder, &held).await;
        assert!(other.join(&ticket("a", LONG), WaitMode::NoWait).await.unwrap().is_none());
        let line = other.line(&held.key).await.unwrap();
        assert_eq!((line.len(), line[0].1.number), (1, before.number));
        assert_eq!(other.keys("").await.unwrap(), std::slice::from_ref(&held.key));
    });
}

#[test]
fn no_two_hold_while_members_stop_and_die() {
    play(async || {
        const TTL: Duration = Duration::from_secs(4);
        let members = Members::start(3).unwrap();
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(connect(members.url()).await);
        }
        exclusion::no_two_hold(clients, TTL, async || {
            let dies = members.primary().unwrap();
            dies.kill().unwrap();
            members.next_primary(dies).unwrap();
            tokio::time::sleep(TTL).await;
            dies.restart().unwrap();
            let stops = members.primary().unwrap();
            stops.freeze().unwrap();
            members.next_primary(stops).unwrap();
            tokio::time::sleep(TTL).await;
            stops.thaw().unwrap();
            tokio::time::sleep(TTL).await;
        })
        .await;
    });
}
