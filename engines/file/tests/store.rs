//! Stores that several engines of one process use.

#![cfg(unix)]

#[path = "common/support.rs"]
mod support;

use std::fs;
use std::thread;
use std::time::Duration;

use support::{Dir, block_on, is_ready, join, key, leave, part, ticket, wait};
use tenure_core::event::{EventKind, Scope};
use tenure_core::{
    CounterValue, Engine as _, ErrorKind, LeaveMode, LeaveOutcome, NUMBER_MAX, Note, Ticket,
    TicketState, WaitMode, Wake, Window,
};
use tenure_file::{FileStore, Settings};

#[test]
fn a_store_may_be_shared_and_sent() {
    fn check<T: Send + Sync + Unpin>() {}
    check::<FileStore>();
}

#[test]
fn a_look_makes_no_store() {
    let dir = Dir::new();
    let path = dir.path().join("store");
    let look = || FileStore::open_existing(&path, Settings::default()).unwrap();
    assert!(look().is_none() && !path.exists());
    drop(FileStore::open(&path).unwrap());
    assert!(look().is_some());
}

#[test]
fn a_lifeline_keeps_no_session_that_ends_by_itself() {
    let dir = Dir::new();
    let (a, b) = (dir.open(), dir.open());
    join(&a, &ticket("k"));
    let lifeline = a.lifeline().unwrap();
    drop(a);
    assert_eq!(join(&b, &ticket("k")).state, TicketState::Holding);
    drop(lifeline);
}

#[test]
fn two_engines_of_one_process_exclude_one_another() {
    let dir = Dir::new();
    let (a, b) = (dir.open(), dir.open());
    let (held, waiting) = (ticket("k"), ticket("k"));
    assert_eq!(join(&a, &held).state, TicketState::Holding);
    assert_eq!(block_on(b.join(&waiting, WaitMode::NoWait)).unwrap(), None);
    let place = join(&b, &waiting);
    assert_eq!(place.state, TicketState::Waiting);
    thread::scope(|scope| {
        let served = scope.spawn(|| wait(&b, &waiting));
        leave(&a, &held);
        assert_eq!(served.join().unwrap(), place.number);
    });
}

#[test]
fn an_engine_that_is_dropped_leaves_its_lines() {
    let dir = Dir::new();
    let (a, b) = (dir.open(), dir.open());
    let (held, waiting) = (ticket("k"), ticket("k"));
    join(&a, &held);
    join(&b, &waiting);
    drop(a);
    wait(&b, &waiting);
    drop(b);
    assert_eq!(fs::read_dir(dir.path().join("sessions")).unwrap().count(), 0);
}

#[test]
fn twice_is_once() {
    let dir = Dir::new();
    let store = dir.open();
    let mine = ticket("k");
    let place = join(&store, &mine);
    assert_eq!(join(&store, &mine), place);
    assert_eq!(leave(&store, &mine), LeaveOutcome::Holding);
    assert_eq!(leave(&store, &mine), LeaveOutcome::Absent);
    assert_eq!(block_on(store.renew(&mine)).unwrap(), None);
}

#[test]
fn a_renewal_changes_note_share_and_floor() {
    let dir = Dir::new();
    let (store, onlooker) = (dir.open(), dir.open());
    let mine = part("k", 2, 3);
    let number = join(&store, &mine).number;
    let smaller =
        Ticket { note: Note::shortened("smaller"), floor: number + 5_000_000, ..part("k", 1, 3) };
    let smaller = Ticket { id: mine.id, ..smaller };
    block_on(store.renew(&smaller)).unwrap().unwrap();
    let (seen, _) = block_on(onlooker.line(&key("k"))).unwrap().pop().unwrap();
    assert_eq!((&*seen.note, seen.share), ("smaller", smaller.share));
    let next = part("k", 2, 3);
    let place = join(&onlooker, &next);
    assert_eq!(place.state, TicketState::Holding);
    assert!(place.number > smaller.floor, "{} is not above {}", place.number, smaller.floor);
}

#[test]
fn numbers_run_out_for_one_key_only() {
    let dir = Dir::new();
    let store = dir.open();
    let last = Ticket { floor: NUMBER_MAX, ..ticket("k") };
    assert_eq!(join(&store, &last).number, NUMBER_MAX);
    leave(&store, &last);
    let refused = block_on(store.join(&ticket("k"), WaitMode::Wait)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected);
    for n in 0..200 {
        join(&store, &ticket(&format!("other {n}")));
    }
}

#[test]
fn another_capacity_is_refused_and_harms_nobody() {
    let dir = Dir::new();
    let store = dir.open();
    let mine = ticket("k");
    join(&store, &mine);
    let error = block_on(store.join(&part("k", 1, 2), WaitMode::Wait)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(leave(&store, &mine), LeaveOutcome::Holding);
}

#[test]
fn a_holder_hears_that_it_is_to_leave() {
    let dir = Dir::new();
    let (store, operator) = (dir.open(), dir.open());
    let mine = ticket("k");
    join(&store, &mine);
    let mut lost = Box::pin(store.watch(&mine, TicketState::Holding));
    assert!(is_ready(&mut lost).is_none());
    assert_eq!(
        block_on(operator.leave(&mine, LeaveMode::Graceful)).unwrap(),
        LeaveOutcome::Requested
    );
    assert_eq!(block_on(lost).unwrap(), Wake::Look);
    assert!(block_on(store.renew(&mine)).unwrap().unwrap().leaving);
    assert!(block_on(store.line(&key("k"))).unwrap()[0].1.leaving);
    let late = block_on(store.watch(&mine, TicketState::Holding)).unwrap();
    assert_eq!(late, Wake::Look, "what happened before counts");
    assert_eq!(leave(&store, &mine), LeaveOutcome::Holding);
}

#[test]
fn a_waiter_that_is_taken_out_is_woken() {
    let dir = Dir::new();
    let (store, operator) = (dir.open(), dir.open());
    let (held, mine) = (ticket("k"), ticket("k"));
    join(&operator, &held);
    join(&store, &mine);
    let mut taken_out = Box::pin(store.watch(&mine, TicketState::Waiting));
    assert!(is_ready(&mut taken_out).is_none());
    assert_eq!(
        block_on(operator.leave(&mine, LeaveMode::Graceful)).unwrap(),
        LeaveOutcome::Waiting
    );
    assert_eq!(block_on(taken_out).unwrap(), Wake::Look);
    assert_eq!(block_on(store.renew(&mine)).unwrap(), None);
}

#[test]
fn the_ticket_of_another_session_can_be_watched_too() {
    let dir = Dir::new();
    let (store, other) = (dir.open(), dir.open());
    let theirs = ticket("k");
    join(&other, &theirs);
    let mut gone = Box::pin(store.watch(&theirs, TicketState::Holding));
    assert!(is_ready(&mut gone).is_none());
    leave(&other, &theirs);
    assert_eq!(block_on(gone).unwrap(), Wake::Look);
}

#[test]
fn ten_thousand_keys_share_few_files() {
    let dir = Dir::new();
    let store = dir.open();
    let held: Vec<_> = (0..10_000).map(|n| ticket(&format!("key {n}"))).collect();
    for ticket in &held {
        join(&store, ticket);
    }
    assert_eq!(fs::read_dir(dir.path().join("books")).unwrap().count(), 64);
    assert_eq!(block_on(dir.open().keys("key 99")).unwrap().len(), 111);
    assert!(held.iter().all(|ticket| leave(&store, ticket) == LeaveOutcome::Holding));
    assert_eq!(block_on(store.keys("")).unwrap(), []);
}

#[test]
fn every_name_is_its_own_lock() {
    let dir = Dir::new();
    let store = dir.open();
    let long = "x".repeat(1024);
    let names = ["a", "a/b", "A", "a\0b", "../a", "*", "{}", "'; DROP", "ü", "😀", ".", &long];
    for name in names {
        assert_eq!(join(&store, &ticket(name)).state, TicketState::Holding, "{name}");
    }
    assert_eq!(block_on(store.keys("")).unwrap().len(), names.len());
    assert_eq!(block_on(store.keys("a")).unwrap(), [key("a"), key("a\0b"), key("a/b")]);
}

#[test]
fn numbers_grow_across_an_empty_line_and_a_new_log() {
    let dir = Dir::new();
    let (store, other) = (dir.open(), dir.open());
    let mut last = 0;
    for turn in 0..10_000 {
        let (store, mine) = (if turn % 7 == 0 { &other } else { &store }, ticket("k"));
        let number = join(store, &mine).number;
        assert!(number > last);
        last = number;
        leave(store, &mine);
    }
    assert!(fs::metadata(dir.book("k")).unwrap().len() < 1025 * 1024);
}

#[test]
fn a_long_line_is_served_in_order_across_new_logs() {
    let dir = Dir::new();
    let stores = [dir.open(), dir.open(), dir.open()];
    let tickets: Vec<_> = (0..3000).map(|_| ticket("k")).collect();
    let turns = || tickets.iter().zip(stores.iter().cycle());
    let numbers: Vec<_> = turns().map(|(ticket, store)| join(store, ticket).number).collect();
    assert!(numbers.is_sorted());
    for ((ticket, store), number) in turns().zip(numbers) {
        assert_eq!(wait(store, ticket), number);
        assert_eq!(leave(store, ticket), LeaveOutcome::Holding);
    }
}

#[test]
fn events_come_in_order_and_none_is_missed() {
    let dir = Dir::new();
    let (store, onlooker) = (dir.open(), dir.open());
    let scope = Scope::Key(key("k"));
    let start = block_on(onlooker.events(&scope, None)).unwrap();
    assert!(start.events.is_empty());
    let mut nothing = Box::pin(onlooker.events(&scope, Some(start.cursor)));
    assert!(is_ready(&mut nothing).is_none());
    join(&store, &ticket("not k"));
    let (a, b) = (ticket("k"), ticket("k"));
    join(&store, &a);
    join(&store, &b);
    leave(&store, &a);
    block_on(store.leave(&b, LeaveMode::Graceful)).unwrap();
    leave(&store, &b);
    let wanted = [
        (EventKind::Joined, a.id),
        (EventKind::Served, a.id),
        (EventKind::Joined, b.id),
        (EventKind::Left, a.id),
        (EventKind::Served, b.id),
        (EventKind::Broken, b.id),
        (EventKind::Left, b.id),
    ];
    let mut news = block_on(nothing).unwrap();
    let mut heard = news.events.clone();
    while heard.len() < wanted.len() {
        news = block_on(onlooker.events(&scope, Some(news.cursor))).unwrap();
        assert!(!news.missed);
        heard.extend(news.events);
    }
    assert_eq!(heard.iter().map(|event| (event.kind, event.ticket.id)).collect::<Vec<_>>(), wanted);
    let again = block_on(onlooker.events(&scope, Some(start.cursor))).unwrap();
    assert_eq!(again.events, heard, "a cursor can be used again");
}

#[test]
fn an_onlooker_follows_across_new_logs() {
    const ROUNDS: usize = 20_000;
    let dir = Dir::new();
    let (store, onlooker) = (dir.open(), dir.open());
    let scope = Scope::Prefix(String::new());
    let mut cursor = block_on(onlooker.events(&scope, None)).unwrap().cursor;
    let generation = fs::read(dir.book("k")).unwrap()[16];
    thread::scope(|threads| {
        let busy = threads.spawn(|| {
            for _ in 0..ROUNDS {
                let mine = ticket("k");
                join(&store, &mine);
                leave(&store, &mine);
            }
        });
        let (mut heard, mut missed) = (0, false);
        while heard < 3 * ROUNDS && !missed {
            let news = block_on(onlooker.events(&scope, Some(cursor))).unwrap();
            let kinds = [EventKind::Joined, EventKind::Served, EventKind::Left];
            let expected = kinds.iter().cycle().skip(heard % 3);
            assert!(
                missed
                    || news
                        .events
                        .iter()
                        .map(|event| &event.kind)
                        .zip(expected)
                        .all(|(a, b)| a == b)
            );
            heard += news.events.len();
            missed |= news.missed;
            cursor = news.cursor;
        }
        busy.join().unwrap();
    });
    assert_ne!(fs::read(dir.book("k")).unwrap()[16], generation, "no new log was written");
}

#[test]
fn a_process_that_had_to_read_a_long_log_writes_it_anew() {
    let dir = Dir::new();
    let store = dir.open();
    for _ in 0..500 {
        let mine = ticket("k");
        join(&store, &mine);
        leave(&store, &mine);
    }
    let length = || fs::metadata(dir.book("k")).unwrap().len();
    let before = length();
    assert!((32 * 1024..1 << 20).contains(&before), "{before}");
    join(&dir.open(), &ticket("k"));
    assert!(length() < before / 10, "{}", length());
}

#[test]
fn sequences_have_no_gaps_and_outlive_new_logs() {
    let dir = Dir::new();
    let (store, other) = (dir.open(), dir.open());
    let next = |store: &FileStore, by| block_on(store.add(&key("k"), by, None)).unwrap();
    let sequence = CounterValue::of_sequence;
    assert_eq!(next(&store, 0), sequence(0));
    assert_eq!(next(&store, 1), sequence(1));
    assert_eq!(next(&other, 10), sequence(11));
    for _ in 0..3000 {
        let mine = ticket("k");
        join(&store, &mine);
        leave(&store, &mine);
    }
    drop((store, other));
    assert_eq!(next(&dir.open(), 0), sequence(11));
    assert_eq!(next(&dir.open(), 1), sequence(12));
    let error = block_on(dir.open().add(&key("k"), u64::MAX, None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
}

#[test]
fn a_count_stops_at_its_limit_and_starts_anew() {
    let dir = Dir::new();
    let (store, other) = (dir.open(), dir.open());
    let window = |ms| Window { per: Duration::from_millis(ms), limit: Some(3) };
    let add =
        |store: &FileStore, by, ms| block_on(store.add(&key("k"), by, Some(window(ms)))).unwrap();
    let first = add(&store, 2, 3_600_000);
    assert_eq!((first.value, first.allowed), (2, true));
    assert!(first.resets_in.unwrap() <= Duration::from_hours(1));
    let refused = add(&other, 2, 3_600_000);
    assert_eq!((refused.value, refused.allowed), (2, false));
    assert_eq!(add(&other, 1, 3_600_000).value, 3);
    assert_eq!(add(&store, 0, 3_600_000).value, 3);
    let short = |by| block_on(store.add(&key("s"), by, Some(window(1)))).unwrap();
    assert!(short(1).allowed);
    while short(0).value > 0 {
        thread::yield_now();
    }
    assert_eq!(short(1).value, 1);
}

#[test]
fn a_dropped_future_leaves_nothing_behind() {
    let dir = Dir::new();
    let store = dir.open();
    let (held, mine) = (ticket("k"), ticket("k"));
    join(&store, &held);
    join(&store, &mine);
    for _ in 0..1000 {
        let mut watch = Box::pin(store.watch(&mine, TicketState::Waiting));
        assert!(is_ready(&mut watch).is_none());
    }
    leave(&store, &held);
    wait(&store, &mine);
}

#[test]
fn a_full_fifo_wakes_everyone_all_the_same() {
    let dir = Dir::new();
    let (store, other) = (dir.open(), dir.open());
    let front: Vec<_> = (0..3000).map(|n| ticket(&format!("{n}"))).collect();
    let waiting: Vec<_> = (0..3000).map(|n| ticket(&format!("{n}"))).collect();
    for (front, waiting) in front.iter().zip(&waiting) {
        join(&other, front);
        join(&store, waiting);
    }
    let mut watches: Vec<_> =
        waiting.iter().map(|ticket| Box::pin(store.watch(ticket, TicketState::Waiting))).collect();
    for watch in &mut watches {
        assert!(is_ready(watch).is_none());
    }
    for ticket in &front {
        leave(&other, ticket);
    }
    for watch in watches {
        block_on(watch).unwrap();
    }
}
