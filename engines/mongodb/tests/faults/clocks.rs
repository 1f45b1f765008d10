//! Clocks: a clock that is set, or that differs from the others, moves no number back.

use std::time::{Duration, Instant};

use tenure_core::{Engine as _, LeaveMode, Result, Ticket, TicketState, WaitMode};
use tenure_servers::mongodb::{FAKETIME, Members, Setup, doc};

use super::stage::{LONG, connect, join, play_with, store, ticket, until};

/// Repeats a request until the server answers it: the driver may take a server whose clock jumps
/// for a silent one, and connects anew.
async fn answered<T, F: Future<Output = Result<T>>>(ask: impl Fn() -> F) -> T {
    loop {
        match ask().await {
            Err(error) if error.is_retryable() => {}
            answer => return answer.expect("the server answers"),
        }
    }
}

#[test]
fn a_clock_that_is_set_back_ends_no_life_early_and_numbers_grow() {
    play_with(&[FAKETIME], async || {
        let server = Setup::new().settable_clock().start().unwrap();
        let store = store(&server.url()).await;
        let (idle, held) = (ticket("idle", LONG), ticket("a", Duration::from_secs(600)));
        let last_idle = join(&store, &idle).await.number;
        store.leave(&idle, LeaveMode::Now).await.unwrap();
        let before = join(&store, &held).await;
        server.set_clock(-3600).unwrap();
        let place = answered(|| store.renew(&held)).await.expect("it stands there");
        assert_eq!((place.number, place.state), (before.number, TicketState::Holding));
        let joined = async |ticket: Ticket| {
            answered(|| store.join(&ticket, WaitMode::Wait)).await.expect("a waiter stands in line")
        };
        assert!(joined(ticket("idle", LONG)).await.number > last_idle);
        let behind = joined(ticket("a", LONG)).await;
        assert!(behind.number > before.number && behind.state == TicketState::Waiting);
    });
}

#[test]
fn a_clock_that_is_set_back_makes_no_window_longer() {
    play_with(&[FAKETIME], async || {
        let server = Setup::new().settable_clock().start().unwrap();
        let locks = connect(server.url()).await;
        let per = Duration::from_secs(3);
        let counter = || locks.counter("mails").window(per).limit(2);
        assert!(counter().add(2).await.unwrap().allowed);
        server.set_clock(-3600).unwrap();
        let began = Instant::now();
        let refused = answered(|| counter().add(1)).await;
        assert!(
            !refused.allowed && refused.resets_in.is_some_and(|left| left <= per),
            "{refused:?}"
        );
        let is_open = async || counter().add(1).await.is_ok_and(|count| count.allowed);
        until("the window is over", is_open).await;
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    });
}

#[test]
fn a_clock_that_is_set_forward_ends_lives_and_numbers_grow() {
    play_with(&[FAKETIME], async || {
        let server = Setup::new().settable_clock().start().unwrap();
        let store = store(&server.url()).await;
        let held = ticket("a", Duration::from_secs(60));
        let before = join(&store, &held).await;
        server.set_clock(120).unwrap();
        let next = join(&store, &ticket("a", LONG)).await;
        assert_eq!(next.state, TicketState::Holding);
        assert!(next.number > before.number);
        assert_eq!(store.renew(&held).await.unwrap(), None, "its life has ended");
        server.set_clock(0).unwrap();
        let last = join(&store, &ticket("a", LONG)).await;
        assert!(last.number > next.number && last.state == TicketState::Waiting);
    });
}

#[test]
fn numbers_grow_after_a_fail_over_among_members_whose_clocks_are_apart() {
    play_with(&[FAKETIME], async || {
        let off = Setup::new().clock_off_by_s(3);
        let members = Members::start_with(&[Setup::new(), Setup::new(), off]).unwrap();
        let old = members.primary().unwrap();
        let store = store(&members.url()).await;
        let held = ticket("a", LONG);
        let before = join(&store, &held).await;
        // The connection may end with it.
        let _ = old.command("admin", doc! { "replSetStepDown": 20, "force": true });
        until("another one takes over", async || store.renew(&held).await.is_ok()).await;
        let place = store.renew(&held).await.unwrap().expect("it stands there");
        assert_eq!(place.number, before.number);
        let next = join(&store, &ticket("a", LONG)).await;
        assert!(next.number > before.number && next.state == TicketState::Waiting);
    });
}
