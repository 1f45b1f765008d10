//! `RedLock` over three servers: the effect of one bad server, and the view of an operator.

use std::sync::Arc;
use std::time::Duration;

use tenure_conformance::fault::stories::exclusion;
use tenure_core::event::EventKind;
use tenure_core::{
    Engine as _, LeaveMode, LeaveOutcome, Locks, Loss, Runtime, ThisRuntime, TicketState, WaitMode,
    WatchEvent,
};
use tenure_redis::RedLock;
use tenure_servers::redis::{FAKETIME, Masters, Setup};

use super::stage::{LONG, ask, connect, play, play_with, soon, ticket, until, until_line};

/// Number of lock and release pairs while one server is dead. The variable sets a higher number.
const PAIRS: u64 = 2000;
const PAIRS_VARIABLE: &str = "TENURE_REDLOCK_PAIRS";

async fn open(masters: &Masters) -> RedLock {
    RedLock::open(format!("{}?after_restart=trust", masters.url()))
        .await
        .expect("a majority answers")
}

async fn locks(masters: &Masters) -> Locks {
    open(masters).await.locks().clone()
}

#[test]
fn a_server_that_refuses_is_like_one_that_is_silent() {
    play(async || {
        let masters = Masters::start(3).unwrap();
        let (one, other) = (locks(&masters).await, locks(&masters).await);
        let guard = one.mutex("a").renew_every(Duration::from_secs(3)).lock().await.unwrap();
        let full = &masters.servers()[1];
        ask(full, "CONFIG SET maxmemory 1");
        assert!(other.mutex("a").try_lock().await.unwrap().is_none(), "busy is no error");
        let waiting = tokio::spawn(other.mutex("a").lock());
        until_line(&one, "a", 2).await;
        full.client().unwrap().command(&["ACL", "SETUSER", "default", "-evalsha"]).unwrap();
        for _ in 0..3 {
            guard.extend().await.unwrap();
        }
        guard.release().await.unwrap();
        let next = soon("the waiter is served", waiting).await.unwrap().unwrap();
        next.release().await.unwrap();
        // If two servers refuse, the error names both.
        let second = &masters.servers()[2];
        second.client().unwrap().command(&["ACL", "SETUSER", "default", "-evalsha"]).unwrap();
        let error = one.mutex("a").try_lock().await.unwrap_err();
        assert_eq!(error.kind(), tenure_core::ErrorKind::Rejected, "{error}");
        for server in [full, second] {
            assert!(error.to_string().contains(&server.port().to_string()), "{error}");
        }
    });
}

#[test]
fn who_waits_is_shown_watched_and_broken() {
    play(async || {
        let masters = Masters::start(3).unwrap();
        let (one, other, operator) =
            (locks(&masters).await, locks(&masters).await, locks(&masters).await);
        let guard = one.rwlock("a").ttl(LONG).read().await.unwrap();
        let mut watch = operator.watch_prefix("").await.unwrap();
        // A change between two looks that is undone is not seen, so each step waits until it was
        // seen.
        let mut sees = async |what, id| loop {
            let seen = soon("it is seen", watch.next()).await.unwrap();
            let WatchEvent::Event(event) = seen else { panic!("nothing is missed") };
            if event.kind == EventKind::Broken {
                continue;
            }
            assert_eq!((event.kind, event.ticket.id), (what, id));
            return;
        };
        let front = tokio::spawn(other.rwlock("a").ttl(LONG).write());
        until_line(&operator, "a", 2).await;
        let waiting = tokio::spawn(other.mutex("a").ttl(LONG).lock());
        until_line(&operator, "a", 3).await;
        let line = operator.line("a").await.unwrap();
        let shares: Vec<_> = line.iter().map(|ticket| ticket.share.take()).collect();
        assert!(shares[0] == 1 && shares[1] > 1 && shares[2] > 1, "{shares:?}");
        let standings = line.iter().map(|place| place.state);
        let (holding, waiter) = (TicketState::Holding, TicketState::Waiting);
        assert_eq!(standings.collect::<Vec<_>>(), [holding, waiter, waiter]);
        assert!(line.is_sorted_by_key(|place| (place.number, place.ahead)), "{line:?}");
        assert_eq!(operator.keys("").await.unwrap().len(), 1);

        let (first, last) = (line[1].id, line[2].id);
        sees(EventKind::Joined, first).await;
        sees(EventKind::Joined, last).await;
        assert_eq!(operator.break_ticket("a", first).await.unwrap(), LeaveOutcome::Waiting);
        let line = operator.line("a").await.unwrap();
        assert_eq!(line.len(), 2, "it is out at once");
        let broken = soon("its owner is told", front).await.unwrap().unwrap_err();
        assert_eq!(broken.loss(), Some(Loss::Broken));
        sees(EventKind::Left, first).await;
        let reader = guard.id();
        guard.release().await.unwrap();
        let next = soon("the other one is served", waiting).await.unwrap().unwrap();
        assert_eq!((next.id(), next.token().get() >= line[1].number), (last, true));

        sees(EventKind::Left, reader).await;
        sees(EventKind::Served, last).await;
        let held = next.handle();
        let told = tokio::spawn(held.lost());
        assert_eq!(operator.break_ticket("a", last).await.unwrap(), LeaveOutcome::Requested);
        assert_eq!(soon("the holder is told", told).await.unwrap(), Loss::Broken);
        drop(next);
        until_line(&operator, "a", 0).await;
        sees(EventKind::Left, last).await;
    });
}

#[test]
fn a_dead_server_leaves_few_tasks_behind() {
    play(async || {
        let masters = Masters::start(3).unwrap();
        let home: Arc<dyn Runtime> = Arc::new(ThisRuntime::new());
        let url = format!("{}?after_restart=trust", masters.url());
        let engine = RedLock::engine(&url, home).await.unwrap();
        masters.servers()[2].kill().unwrap();
        let pairs = std::env::var(PAIRS_VARIABLE).map_or(PAIRS, |pairs| pairs.parse().unwrap());
        let metrics = tokio::runtime::Handle::current().metrics();
        let (before, mut most) = (metrics.num_alive_tasks(), 0);
        for _ in 0..pairs {
            let ticket = ticket("a", Duration::from_secs(30));
            let place = engine.join(&ticket, WaitMode::NoWait).await.unwrap().unwrap();
            assert_eq!(place.state, TicketState::Holding);
            assert_eq!(engine.leave(&ticket, LeaveMode::Now).await.unwrap(), LeaveOutcome::Holding);
            most = most.max(metrics.num_alive_tasks());
        }
        println!("{pairs} pairs with a dead server: {most} tasks at most, {before} before");
        assert!(most <= before + 50, "{most} tasks at a time");
    });
}

#[test]
fn a_clock_that_is_ahead_is_told() {
    play_with(&[FAKETIME], async || {
        let masters = Masters::of(&Setup::new().settable_clock(), 3).unwrap();
        let right = open(&masters).await;
        assert!(right.health().answers().iter().all(|server| server.ahead.is_none()));
        masters.servers()[0].set_clock(86_400).unwrap();
        let redlock = open(&masters).await;
        let ahead = redlock.health().answers()[0].ahead.expect("its clock is ahead");
        assert!(ahead > Duration::from_secs(86_000), "{ahead:?}");
        let told = format!("{}: its clock is, or was, ", redlock.health().answers()[0].name);
        let warnings = &redlock.locks().guarantees().warnings;
        assert!(warnings.iter().any(|warning| warning.starts_with(&told)), "{warnings:?}");
        // A client that was there before sees it with the first number that it is given.
        until("it is seen", async || {
            right.locks().mutex("a").lock().await.unwrap().release().await.unwrap();
            right.health().answers()[0].ahead.is_some()
        })
        .await;
        assert!(redlock.locks().keys("").await.unwrap().is_empty());
    });
}

#[test]
fn no_two_hold_while_servers_of_a_majority_stop_and_forget() {
    play(async || {
        const TTL: Duration = Duration::from_secs(4);
        let masters = Masters::start(3).unwrap();
        let url = format!("{}?after_restart=refuse&ttl_max=4s", masters.url());
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(connect(&url).await);
        }
        exclusion::no_two_hold(clients, TTL, async || {
            for server in masters.servers() {
                server.freeze().unwrap();
                tokio::time::sleep(TTL).await;
                server.thaw().unwrap();
                server.kill().unwrap();
                server.restart().unwrap();
                tokio::time::sleep(TTL).await;
            }
        })
        .await;
    });
}
