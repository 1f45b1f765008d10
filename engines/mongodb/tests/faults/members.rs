//! Members: what becomes of locks when the primary goes, and when no majority is there.

use tenure_core::{Engine as _, Kind, Leave, Patience, Standing, Wake};
use tenure_servers::mongodb::{Members, doc};

use super::stage::{LONG, join_at_last, play, soon, store, ticket, until};

#[test]
fn a_lock_outlives_the_primary_and_a_hand_over_is_heard_afterwards() {
    play(async || {
        let members = Members::start(3).unwrap();
        let (holder, waiter) = (store(&members.url()).await, store(&members.url()).await);
        let (held, waits) = (ticket("a", LONG), ticket("a", LONG));
        let first = holder.join(&held, Patience::Wait).await.unwrap().unwrap();
        let second = waiter.join(&waits, Patience::Wait).await.unwrap().unwrap();
        assert_eq!(second.standing, Standing::Waiting);
        let primary = members.primary().unwrap();
        let watch = waiter.watch(&waits, Standing::Waiting);
        let fail_over = async {
            primary.kill().unwrap();
            until("the next primary knows the holder", async || {
                holder
                    .renew(&held)
                    .await
                    .is_ok_and(|place| place.is_some_and(|place| place.number == first.number))
            })
            .await;
            until("it is released", async || holder.leave(&held, Leave::Now).await.is_ok()).await;
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
        assert_eq!((place.await.standing, second.number > first.number), (Standing::Holding, true));
    });
}

#[test]
fn a_primary_that_steps_down_loses_nothing() {
    play(async || {
        let members = Members::start(3).unwrap();
        let store = store(&members.url()).await;
        let held = ticket("a", LONG);
        let before = store.join(&held, Patience::Wait).await.unwrap().unwrap();
        let primary = members.primary().unwrap();
        // The connection may end with it.
        let _gone = primary.command("admin", doc! { "replSetStepDown": 20, "force": true });
        until("another one takes over", async || store.renew(&held).await.is_ok()).await;
        let place = store.renew(&held).await.unwrap().expect("it stands there");
        assert_eq!(place.number, before.number);
    });
}

#[test]
fn without_a_majority_nothing_counts() {
    play(async || {
        let members = Members::start(3).unwrap();
        let store = store(&format!("{}&timeout=1s", members.url())).await;
        let held = ticket("a", LONG);
        join_at_last(&store, &held).await;
        let primary = members.primary().unwrap();
        let others: Vec<_> =
            members.servers().iter().filter(|it| it.port() != primary.port()).collect();
        for other in &others {
            other.freeze().unwrap();
        }
        let late = ticket("b", LONG);
        let error = store.join(&late, Patience::Wait).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "{error:?}");
        for other in &others {
            other.thaw().unwrap();
        }
        until("a majority is back", async || store.renew(&held).await.is_ok()).await;
        until("what was left behind is taken back", async || {
            store.leave(&late, Leave::Now).await.is_ok()
        })
        .await;
        assert!(store.line(&late.key).await.unwrap().is_empty());
    });
}

#[test]
fn a_frozen_primary_is_replaced_and_its_late_word_does_not_count() {
    play(async || {
        let members = Members::start(3).unwrap();
        let store = store(&format!("{}&timeout=1s", members.url())).await;
        let held = ticket("a", LONG);
        let before = join_at_last(&store, &held).await;
        let primary = members.primary().unwrap();
        primary.freeze().unwrap();
        until("another one takes over", async || store.renew(&held).await.is_ok()).await;
        assert_eq!(
            store.leave(&held, Leave::Now).await.unwrap_or(tenure_core::Left::Holding),
            tenure_core::Left::Holding
        );
        primary.thaw().unwrap();
        let next = soon("the next ticket is in", async {
            loop {
                if let Ok(Some(place)) = store.join(&ticket("a", LONG), Patience::Wait).await {
                    return place;
                }
            }
        });
        assert!(next.await.number > before.number);
    });
}
