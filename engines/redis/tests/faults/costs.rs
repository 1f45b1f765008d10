//! The costs of a line for the server: after many shares have come and gone, for kept numbers, and
//! for onlookers.

use std::time::{Duration, Instant};

use tenure_core::event::Scope;
use tenure_core::{
    Engine as _, ErrorKind, LeaveMode, LeaveOutcome, Share, Ticket, TicketState, WaitMode,
};
use tenure_servers::redis::Server;

use super::stage::{LONG, ask, assert_refused, calls, connect, head, play, store, ticket, until};

/// Maximum number of different shares that may wait in one line.
const SHARES_MAX: u32 = 128;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Returns a ticket for `take` of a million places.
fn of(key: &str, take: u32) -> Ticket {
    Ticket { share: Share::new(take, 1_000_000).unwrap(), ..ticket(key, LONG) }
}

#[test]
fn shares_that_came_and_went_cost_a_renewal_nothing() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let (holder, waiter) = (of("a", 1_000_000), of("a", 1));
        store.join(&holder, WaitMode::Wait).await.unwrap().unwrap();
        store.join(&waiter, WaitMode::Wait).await.unwrap().unwrap();
        let renewal = async || {
            let (counts, before) = (calls(&server, "zcount"), Instant::now());
            store.renew(&waiter).await.unwrap().unwrap();
            (calls(&server, "zcount") - counts, before.elapsed())
        };
        let before = renewal().await;
        for take in 2..10_002 {
            let ticket = of("a", take);
            store.join(&ticket, WaitMode::Wait).await.unwrap().unwrap();
            assert_eq!(store.leave(&ticket, LeaveMode::Now).await.unwrap(), LeaveOutcome::Waiting);
        }
        let after = renewal().await;
        println!(
            "a renewal made {} counts before, {} after: {before:?}, {after:?}",
            before.0, after.0
        );
        assert_eq!(after.0, before.0);
        assert_eq!(ask(&server, &format!("EXISTS {}:o", head("a"))).integer(), Ok(0));
    });
}

#[test]
fn so_many_different_shares_wait_and_no_more() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let holder = of("a", 1_000_000);
        store.join(&holder, WaitMode::Wait).await.unwrap().unwrap();
        // The share of the first waiter does not count towards the limit.
        let mut waiting = Vec::new();
        for take in 1..=SHARES_MAX + 1 {
            let ticket = of("a", take);
            store.join(&ticket, WaitMode::Wait).await.unwrap().unwrap();
            waiting.push(ticket);
        }
        let another = of("a", 500_000);
        let refused = store.join(&another, WaitMode::Wait).await;
        assert_refused(refused, ErrorKind::Rejected, &["128 different sizes wait", "\"a\""]);
        assert_eq!(store.renew(&another).await.unwrap(), None, "nothing was changed");
        // Sizes that wait already are welcome.
        for take in [1, 2, SHARES_MAX] {
            let ticket = of("a", take);
            store.join(&ticket, WaitMode::Wait).await.unwrap().unwrap();
            waiting.push(ticket);
        }
        // A share that would shrink to another size lives on as it is.
        let last = waiting[waiting.len() - 4].clone();
        let fewer = Ticket { share: Share::new(SHARES_MAX, 1_000_000).unwrap(), ..last.clone() };
        store.renew(&fewer).await.unwrap().unwrap();
        let ahead: u64 = waiting.iter().map(|ticket| u64::from(ticket.share.take())).sum();
        let place = store.renew(&waiting[waiting.len() - 1]).await.unwrap().unwrap();
        let own = u64::from(waiting[waiting.len() - 1].share.take());
        assert_eq!(place.ahead, 1_000_000 + ahead - own - 1, "one of them takes one less");
        // Its size was the only one of its kind, so there is room now.
        store.join(&another, WaitMode::Wait).await.unwrap().unwrap();
        for ticket in waiting.iter().chain([&another, &holder]) {
            assert_ne!(store.leave(ticket, LeaveMode::Now).await.unwrap(), LeaveOutcome::Absent);
        }
        assert_eq!(
            ask(&server, &format!("EXISTS {0}:o {0}:l {0}:500000", head("a"))).integer(),
            Ok(0)
        );
    });
}

#[test]
fn a_number_ahead_of_the_clock_is_kept_until_the_clock_has_reached_it() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let life = |key: &str| ask(&server, &format!("PTTL {}", head(key))).integer().unwrap();
        let day = i64::try_from(DAY.as_millis()).unwrap();
        let brief = Duration::from_secs(30);
        let number =
            store.join(&ticket("now", brief), WaitMode::Wait).await.unwrap().unwrap().number;
        let floor = number + u64::try_from(DAY.as_micros()).unwrap();
        // The ticket is left, or it expires, or its floor is raised to the number of another
        // server.
        let high = |key: &str| Ticket { floor, ..ticket(key, brief) };
        let left = high("left");
        assert!(store.join(&left, WaitMode::Wait).await.unwrap().unwrap().number >= floor);
        assert!(life("left") > day - 60_000, "while it holds: {}", life("left"));
        store.leave(&left, LeaveMode::Now).await.unwrap();
        assert!(life("left") > day - 60_000, "when it is idle: {}", life("left"));
        let told = high("told");
        store.join(&Ticket { floor: 0, ..told.clone() }, WaitMode::Wait).await.unwrap().unwrap();
        assert!(life("told") <= 120_000, "the clock is ahead of it");
        store.renew(&told).await.unwrap().unwrap();
        assert!(life("told") > day - 60_000, "{}", life("told"));
        for key in ["left", "told"] {
            let next = Ticket { floor: 0, ..high(key) };
            let place = store.join(&next, WaitMode::Wait).await.unwrap().unwrap();
            assert!(place.number > floor || key == "told" && place.state == TicketState::Waiting);
            assert!(life(key) > day - 60_000, "for the next one: {}", life(key));
        }
    });
}

#[test]
fn an_idle_line_is_kept_for_a_minute_or_two() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        for (key, ttl) in [("brief", 1), ("usual", 30), ("long", 3600)] {
            let ttl = Duration::from_secs(ttl);
            locks.mutex(key).ttl(ttl).lock().await.unwrap().release().await.unwrap();
            let life = ask(&server, &format!("PTTL {}", head(key))).integer().unwrap();
            assert!((30_000..=120_000).contains(&life), "{key}: {life} ms");
        }
        let size = ask(&server, &format!("MEMORY USAGE {}", head("usual"))).integer().unwrap();
        assert!(size <= 200, "{size} bytes");
    });
}

#[test]
fn a_line_whose_first_ticket_has_ended_is_shown_by_a_full_server() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let (brief, second, third) =
            (ticket("a", Duration::from_millis(300)), ticket("a", LONG), ticket("a", LONG));
        for ticket in [&brief, &second, &third] {
            store.join(ticket, WaitMode::Wait).await.unwrap().unwrap();
        }
        ask(&server, "CONFIG SET maxmemory 1mb");
        let shown = async || {
            let line = store.line(&brief.key).await.unwrap();
            line.into_iter().map(|(ticket, place)| (ticket.id, place.state)).collect::<Vec<_>>()
        };
        until("its life has ended", async || shown().await.len() == 2).await;
        let (holding, waiting) = (TicketState::Holding, TicketState::Waiting);
        assert_eq!(shown().await, [(second.id, holding), (third.id, waiting)]);
        assert_eq!(store.keys("").await.unwrap(), std::slice::from_ref(&second.key));
        // And it is so for the ticket itself.
        assert_eq!(store.renew(&second).await.unwrap().unwrap().state, holding);
    });
}

#[test]
fn an_onlooker_takes_a_twentieth_of_a_core_whatever_the_server_keeps() {
    play(async || {
        const IDLE: u32 = 200_000;
        const WATCHED: Duration = Duration::from_secs(10);
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let sample = ticket("sample", LONG);
        store.join(&sample, WaitMode::Wait).await.unwrap().unwrap();
        store.leave(&sample, LeaveMode::Now).await.unwrap();
        let fill = "local idle = redis.call('GET', KEYS[1])
            for i = ARGV[1], ARGV[1] + 9999 do
                redis.call('SET', string.gsub(KEYS[1], 'v1.*', 'v1.' .. i .. '}'), idle, 'EX', 3600)
            end";
        for first in (0..IDLE).step_by(10_000) {
            server.command(&["EVAL", fill, "1", &head("sample"), &first.to_string()]).unwrap();
        }
        assert!(ask(&server, "DBSIZE").integer().unwrap() > i64::from(IDLE));
        let held = ticket("held", LONG);
        store.join(&held, WaitMode::Wait).await.unwrap().unwrap();
        assert_eq!(store.keys("").await.unwrap(), std::slice::from_ref(&held.key));

        let busy = || -> f64 {
            let cpu = ask(&server, "INFO cpu");
            let part = |name: &str| cpu.field(name).unwrap().parse::<f64>().unwrap();
            part("used_cpu_user") + part("used_cpu_sys")
        };
        let scope = Scope::Prefix(String::new());
        let cursor = store.events(&scope, None).await.unwrap().cursor;
        let (before, began) = (busy(), Instant::now());
        let saw = tokio::time::timeout(WATCHED, store.events(&scope, Some(cursor))).await;
        assert!(saw.is_err(), "nothing happens");
        let share = (busy() - before) / began.elapsed().as_secs_f64();
        println!("an onlooker over {IDLE} idle keys takes {:.2} % of a core", share * 100.0);
        // A look that had just begun when the time was over is one more.
        assert!(share <= 0.05 + 0.05, "{share}");
    });
}
