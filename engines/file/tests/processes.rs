//! Several processes, some of which die.

#![cfg(unix)]

#[path = "common/support.rs"]
mod support;

use std::process::Command;

use support::{Dir, Other, block_on, join, key, leave, part, serve, ticket, wait};
use tenure_core::event::{EventKind, Scope};
use tenure_core::{Engine as _, LeaveMode, LeaveOutcome, Note, Share, TicketState, WaitMode, Wake};

/// Not a test: the other processes run it.
#[test]
fn helper() {
    serve();
}

#[test]
fn the_next_is_served_when_a_process_leaves() {
    let (dir, mine) = (Dir::new(), ticket("k"));
    let store = dir.open();
    let mut other = Other::start(&dir);
    let held = other.ask("join k");
    assert!(held.starts_with("Holding"), "{held}");
    let place = join(&store, &mine);
    assert_eq!((place.state, place.ahead), (TicketState::Waiting, Share::WHOLE.take().into()));
    other.tell("leave");
    assert_eq!(wait(&store, &mine), place.number);
    assert_eq!(other.answer(), "Holding");
    other.end();
}

#[test]
fn a_process_is_woken_when_another_leaves() {
    let (dir, mine) = (Dir::new(), ticket("k"));
    let store = dir.open();
    join(&store, &mine);
    let mut other = Other::start(&dir);
    let waiting = other.ask("join k");
    other.tell("wait");
    assert_eq!(leave(&store, &mine), LeaveOutcome::Holding);
    assert_eq!(format!("Waiting {}", other.answer()), waiting);
    other.end();
}

#[test]
fn whoever_waits_is_served_at_once_when_the_holder_is_killed() {
    let dir = Dir::new();
    let store = dir.open();
    for _ in 0..10 {
        let mut other = Other::start(&dir);
        let held = other.ask("join k");
        let held: u64 = held.strip_prefix("Holding ").unwrap().parse().unwrap();
        let mine = ticket("k");
        assert_eq!(join(&store, &mine).state, TicketState::Waiting);
        other.kill();
        assert!(wait(&store, &mine) > held);
        leave(&store, &mine);
    }
    drop(store);
    let _store = dir.open();
    let left = std::fs::read_dir(dir.path().join("sessions")).unwrap().count();
    assert_eq!(left, 1, "the dead have left something");
}

#[test]
fn the_lock_of_a_killed_process_is_free_for_those_who_come_later() {
    let dir = Dir::new();
    let store = dir.open();
    let mut other = Other::start(&dir);
    other.ask("join k");
    let mine = ticket("k");
    assert_eq!(block_on(store.join(&mine, WaitMode::NoWait)).unwrap(), None);
    other.kill();
    let place = block_on(store.join(&mine, WaitMode::NoWait)).unwrap().unwrap();
    assert_eq!(place.state, TicketState::Holding);
    assert_eq!(block_on(store.line(&key("k"))).unwrap().len(), 1);
}

#[test]
fn a_line_without_the_living_is_empty() {
    let dir = Dir::new();
    let store = dir.open();
    let mut other = Other::start(&dir);
    other.ask("join k");
    assert_eq!(block_on(store.keys("")).unwrap(), [key("k")]);
    other.kill();
    assert_eq!(block_on(store.keys("")).unwrap(), []);
    assert_eq!(block_on(store.line(&key("k"))).unwrap(), []);
}

#[test]
fn a_child_does_not_keep_the_lock_of_its_parent() {
    let dir = Dir::new();
    let store = dir.open();
    let mut other = Other::start(&dir);
    other.ask("join k");
    let child = other.ask("child");
    let mine = ticket("k");
    join(&store, &mine);
    other.kill();
    wait(&store, &mine);
    let lives = Command::new("kill").args(["-0", &child]).status().unwrap();
    assert!(lives.success(), "the child has ended, and proves nothing");
    Command::new("kill").args(["-9", &child]).status().unwrap();
}

#[test]
fn a_dead_waiter_does_not_hold_up_those_behind_it() {
    let dir = Dir::new();
    let store = dir.open();
    let front = ticket("k");
    join(&store, &front);
    let mut others: Vec<_> = (0..3).map(|_| Other::start(&dir)).collect();
    for other in &mut others {
        assert!(other.ask("join k").starts_with("Waiting"));
    }
    let mut last = others.pop().unwrap();
    last.tell("wait");
    // The one in the middle dies first, so that the last has to watch over the one before it.
    others.remove(1).kill();
    others.remove(0).kill();
    leave(&store, &front);
    last.answer();
    last.end();
}

#[test]
fn the_first_who_waits_sees_every_holder_die() {
    let dir = Dir::new();
    let store = dir.open();
    let mut holders: Vec<_> = (0..3).map(|_| Other::start(&dir)).collect();
    for holder in &mut holders {
        assert!(holder.ask("join k 1 3").starts_with("Holding"));
    }
    let all = part("k", 3, 3);
    assert_eq!(join(&store, &all).ahead, 3);
    holders.remove(1).kill();
    holders.remove(1).kill();
    assert_eq!(holders[0].ask("leave"), "Holding");
    wait(&store, &all);
}

#[test]
fn a_holder_in_another_process_hears_that_it_is_to_leave() {
    let dir = Dir::new();
    let store = dir.open();
    let mut other = Other::start(&dir);
    other.ask("join k");
    other.tell("lost");
    let (held, _) = block_on(store.line(&key("k"))).unwrap().pop().unwrap();
    assert_eq!(block_on(store.leave(&held, LeaveMode::Graceful)).unwrap(), LeaveOutcome::Requested);
    assert_eq!(other.answer(), "Look");
    assert_eq!(other.ask("leave"), "Holding");
    other.end();
}

#[test]
fn onlookers_hear_of_a_death_that_nobody_waited_for() {
    let dir = Dir::new();
    let store = dir.open();
    let scope = Scope::Prefix("k".to_owned());
    let mut cursor = block_on(store.events(&scope, None)).unwrap().cursor;
    let mut other = Other::start(&dir);
    other.ask("join k");
    other.kill();
    let mut heard = Vec::new();
    while !heard.contains(&EventKind::Expired) {
        let news = block_on(store.events(&scope, Some(cursor))).unwrap();
        assert!(!news.missed);
        cursor = news.cursor;
        heard.extend(news.events.iter().map(|event| event.kind));
    }
    assert_eq!(heard, [EventKind::Joined, EventKind::Served, EventKind::Expired]);
}

#[test]
fn a_paused_holder_holds_and_its_break_makes_no_second_one() {
    let dir = Dir::new();
    let store = dir.open();
    let mut other = Other::start(&dir);
    other.ask("join k");
    other.signal("-STOP");
    let mine = ticket("k");
    assert_eq!(block_on(store.join(&mine, WaitMode::NoWait)).unwrap(), None);
    other.signal("-CONT");
    assert_eq!(other.ask("leave"), "Holding");
    assert!(block_on(store.join(&mine, WaitMode::NoWait)).unwrap().is_some());
    other.end();
}

#[test]
fn only_one_of_several_processes_is_in_and_the_log_is_written_anew_meanwhile() {
    const TIMES: u32 = 2000;
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let counter = elsewhere.path().join("counter");
    let mut others: Vec<_> = (0..4).map(|_| Other::start(&dir)).collect();
    std::fs::write(&counter, "0 0").unwrap();
    for other in &mut others {
        other.tell(&format!("count k {} {TIMES}", counter.display()));
    }
    for mut other in others {
        assert_eq!(other.answer(), "counted");
        other.end();
    }
    let count = std::fs::read_to_string(&counter).unwrap();
    assert_eq!(count.split_once(' ').unwrap().0, (4 * TIMES).to_string());
    let length = std::fs::metadata(dir.book("k")).unwrap().len();
    assert!(length < 8000 * 200, "it was never written anew: {length} bytes");
}

#[test]
fn only_one_is_in_while_others_are_killed() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let page = elsewhere.path().join("page").display().to_string();
    let mut survivors: Vec<_> = (0..2).map(|_| Other::start(&dir)).collect();
    for survivor in &mut survivors {
        survivor.tell(&format!("sign k {page} 3000"));
    }
    for _ in 0..10 {
        let mut mortals: Vec<_> = (0..2).map(|_| Other::start(&dir)).collect();
        for mortal in &mut mortals {
            mortal.ask(&format!("sign k {page} 5"));
            mortal.tell(&format!("sign k {page} 1000000"));
        }
        mortals.into_iter().for_each(Other::kill);
    }
    for mut survivor in survivors {
        assert_eq!(survivor.answer(), "signed");
        survivor.end();
    }
}

#[test]
fn a_sequence_gives_every_number_once() {
    let dir = Dir::new();
    let mut others: Vec<_> = (0..3).map(|_| Other::start(&dir)).collect();
    let mut given = Vec::new();
    for _ in 0..20 {
        for other in &mut others {
            other.tell("next invoice");
        }
        given.extend(others.iter_mut().map(|other| other.answer().parse::<u64>().unwrap()));
    }
    given.sort_unstable();
    assert_eq!(given, (1..=60).collect::<Vec<_>>());
}

#[test]
fn a_full_disk_refuses_those_who_join_and_changes_nothing() {
    let dir = Dir::new();
    let Some(mut other) = Other::start_on_a_small_disk(&dir, 200) else {
        eprintln!("SKIPPED: this user cannot mount a small disk");
        return;
    };
    let answer = other.ask("fill");
    assert!(answer.starts_with("true true Rejected cannot write to "), "{answer}");
    assert!(answer.ends_with("there is no room left: free some, nothing was changed"), "{answer}");
    other.end();
}

#[test]
fn a_release_that_a_full_disk_refuses_serves_nobody() {
    let dir = Dir::new();
    let Some(mut other) = Other::start_on_a_small_disk(&dir, 300) else {
        eprintln!("SKIPPED: this user cannot mount a small disk");
        return;
    };
    assert_eq!(other.ask("torn"), "it waits");
    other.end();
}

#[test]
fn a_waiter_behind_a_hundred_dead_sessions_is_served() {
    let dir = Dir::new();
    let dead: Vec<_> = (0..100).map(|_| dir.open()).collect();
    for store in &dead {
        join(store, &ticket("k"));
    }
    let sessions = std::fs::read_dir(dir.path().join("sessions")).unwrap();
    let files: Vec<_> = sessions.map(|file| file.unwrap().path()).collect();
    let mut last = Other::start(&dir);
    last.ask("join k");
    let (store, mine) = (dir.open(), ticket("k"));
    join(&store, &mine);
    // As a program does that opens the store after they were killed.
    for file in files {
        std::fs::remove_file(file).unwrap();
    }
    last.kill();
    wait(&store, &mine);
}

#[test]
fn whoever_is_stopped_inside_a_book_holds_up_no_executor() {
    let dir = Dir::new();
    let store = dir.open();
    let book = std::fs::File::options().read(true).write(true).open(dir.book("k")).unwrap();
    book.lock().unwrap();
    let mine = ticket("k");
    let mut joining = Box::pin(store.join(&mine, WaitMode::Wait));
    assert!(support::is_ready(&mut joining).is_none());
    let mut given_up = ticket("k");
    given_up.note = Note::shortened("given up");
    assert!(support::is_ready(&mut Box::pin(store.join(&given_up, WaitMode::Wait))).is_none());
    book.unlock().unwrap();
    assert_eq!(block_on(joining).unwrap().unwrap().state, TicketState::Holding);
    assert_eq!(leave(&store, &given_up), LeaveOutcome::Absent, "nobody waited for it any more");
    assert_eq!(block_on(store.line(&key("k"))).unwrap().len(), 1);
    assert_eq!(
        block_on(store.watch(&mine, TicketState::Waiting)).unwrap(),
        Wake::Served(block_on(store.renew(&mine)).unwrap().unwrap().number)
    );
}

#[test]
fn containers_of_one_machine_do_not_write_each_others_books_anew() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let id = elsewhere.path().join("id");
    std::fs::write(&id, "00000000-0000-4000-8000-000000000000\n").unwrap();
    let Some(mut there) = Other::start_in_another_boot(&dir, &id) else {
        eprintln!("SKIPPED: this user cannot mount another id");
        return;
    };
    there.ask("join k");
    there.ask("leave");
    let generation = || std::fs::read(dir.book("k")).unwrap()[16..24].to_vec();
    let before = generation();
    let mine = ticket("k");
    let number = join(&dir.open(), &mine).number;
    assert_eq!(generation(), before);
    let held = there.ask("join k");
    let later: u64 = held.split(' ').next_back().unwrap().parse().unwrap();
    assert!(later - number < 1_000_000_000, "{number} and {later} are an hour apart");
    assert_eq!(generation(), before);
    there.end();
}
