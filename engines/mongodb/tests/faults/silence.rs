//! Silence: a server that stands still, and callers who have their answer all the same.

use std::time::{Duration, Instant};

use tenure_core::{Engine as _, Kind, Patience};
use tenure_servers::mongodb::Server;

use super::stage::{LONG, join, play, store, ticket, until};

#[test]
fn all_callers_of_a_frozen_server_have_their_answer_within_the_one_time() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let within = store.profile().answers_within;
        let held = ticket("a", LONG);
        let before = join(&store, &held).await;
        server.freeze().unwrap();
        let began = Instant::now();
        let others: Vec<_> = (0..40).map(|at| ticket(&format!("k{at}"), LONG)).collect();
        let asked = others.iter().map(|ticket| store.join(ticket, Patience::Wait));
        for answer in futures_util::future::join_all(asked).await {
            assert_eq!(answer.unwrap_err().kind(), Kind::Unavailable);
        }
        assert!(began.elapsed() < within * 3, "{:?}", began.elapsed());
        server.thaw().unwrap();
        until("it answers again", async || store.renew(&held).await.is_ok()).await;
        let place = store.renew(&held).await.unwrap().expect("it stands there");
        assert_eq!(place.number, before.number);
    });
}

#[test]
fn a_killed_server_keeps_its_locks() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let (held, waits) = (ticket("a", LONG), ticket("a", LONG));
        let before = join(&store, &held).await;
        join(&store, &waits).await;
        server.kill().unwrap();
        server.restart().unwrap();
        until("it answers again", async || store.renew(&held).await.is_ok()).await;
        let place = store.renew(&held).await.unwrap().expect("it stands there");
        assert_eq!(place.number, before.number);
        assert_eq!(store.line(&held.key).await.unwrap().len(), 2);
    });
}

#[test]
fn a_holder_that_was_silent_for_longer_than_its_life_is_out() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let brief = ticket("a", Duration::from_millis(300));
        let first = store.join(&brief, Patience::Wait).await.unwrap().unwrap();
        until("its life ends", async || store.line(&brief.key).await.unwrap().is_empty()).await;
        assert_eq!(store.renew(&brief).await.unwrap(), None);
        let next = store.join(&ticket("a", LONG), Patience::Wait).await.unwrap().unwrap();
        assert!(next.number > first.number);
    });
}
