//! Counters: a sequence returns every number once, and a windowed counter restarts with its window.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::layers::AnyEngine;
use tenure_core::{BoxFuture, CounterValue, Engine as _, ErrorKind, NUMBER_MAX, Window};

use super::acts::{Acts as _, MUTEX, key, needs, refused};
use crate::Arena;

const NO_COUNTS: &str = "it keeps no counters";
const NO_WINDOWS: &str = "it keeps no counters with a window";

async fn count(client: &AnyEngine, name: &str, by: u64, window: Option<Window>) -> CounterValue {
    client.add(&key(name), by, window).await.expect("the counter works")
}

fn hour(limit: Option<u64>) -> Window {
    Window { per: Duration::from_secs(3600), limit }
}

pub(crate) async fn a_sequence_begins_at_one_and_grows(arena: &Arena) {
    needs!(arena, arena.counts().await, NO_COUNTS);
    let client = arena.client().await;
    for expected in 1..=5 {
        let counter = count(&client, "k", 1, None).await;
        assert_eq!(counter, CounterValue::of_sequence(expected));
    }
    assert_eq!(count(&client, "k", 10, None).await.value, 15);
    assert_eq!(count(&client, "k", 0, None).await.value, 15, "reading adds nothing");
    assert_eq!(count(&arena.client().await, "k", 1, None).await.value, 16);
}

pub(crate) async fn no_number_of_a_sequence_is_given_twice(arena: &Arena) {
    needs!(arena, arena.counts().await, NO_COUNTS);
    let given = Arc::new(Mutex::new(Vec::new()));
    let mut tasks: Vec<BoxFuture<()>> = Vec::new();
    for _ in 0..6 {
        let (locks, given) = (arena.locks().await, given.clone());
        tasks.push(Box::pin(async move {
            let sequence = locks.sequence("k");
            let mut last = 0;
            for count in [1, 3, 1, 7, 2, 1, 1, 5] {
                let block = sequence.next_block(count).await.expect("the sequence has numbers");
                assert_eq!(block.clone().count() as u64, count);
                assert!(*block.start() > last, "each is above the last");
                last = *block.end();
                given.lock().unwrap().extend(block);
            }
        }));
    }
    arena.together(tasks).await;
    let mut given = given.lock().unwrap().clone();
    given.sort_unstable();
    assert_eq!(given, (1..=126).collect::<Vec<u64>>(), "every number once");
}

pub(crate) async fn a_sequence_does_not_end(arena: &Arena) {
    needs!(arena, arena.counts().await, NO_COUNTS);
    let locks = arena.locks().await;
    assert_eq!(locks.sequence("k").last().await.unwrap(), 0);
    assert_eq!(locks.sequence("k").next().await.unwrap(), 1);
    arena.pass(arena.ttl() * 2).await;
    assert_eq!(arena.locks().await.sequence("k").next().await.unwrap(), 2);
    assert_eq!(locks.sequence("k").last().await.unwrap(), 2);
}

pub(crate) async fn a_sequence_refuses_more_numbers_than_it_has(arena: &Arena) {
    needs!(arena, arena.counts().await, NO_COUNTS);
    let sequence = arena.locks().await.sequence("k");
    assert_eq!(refused(sequence.next_block(0).await), ErrorKind::Invalid);
    assert_eq!(refused(sequence.next_block(NUMBER_MAX + 1).await), ErrorKind::Invalid);
    assert_eq!(sequence.next_block(NUMBER_MAX - 1).await.unwrap(), 1..=NUMBER_MAX - 1);
    assert_eq!(sequence.next().await.unwrap(), NUMBER_MAX);
    assert_eq!(refused(sequence.next().await), ErrorKind::Rejected);
    assert_eq!(sequence.last().await.unwrap(), NUMBER_MAX, "a refusal changes nothing");
}

pub(crate) async fn a_count_stops_at_its_limit(arena: &Arena) {
    needs!(arena, arena.counts_by_window().await, NO_WINDOWS);
    let client = arena.client().await;
    let window = Some(hour(Some(5)));
    for (by, value, allowed) in
        [(3, 3, true), (3, 3, false), (2, 5, true), (1, 5, false), (0, 5, true)]
    {
        let counter = count(&client, "k", by, window).await;
        assert_eq!((counter.value, counter.allowed), (value, allowed), "adding {by}");
        let left = counter.resets_in.expect("a window ends");
        assert!(left <= Duration::from_secs(3600) && left > Duration::from_secs(1800));
    }
    let other = count(&client, "other", 5, window).await;
    assert!(other.allowed, "every name has its own count");
}

pub(crate) async fn a_limit_holds_for_parallel_callers(arena: &Arena) {
    needs!(arena, arena.counts_by_window().await, NO_WINDOWS);
    let allowed = Arc::new(Mutex::new(0));
    let mut tasks: Vec<BoxFuture<()>> = Vec::new();
    for _ in 0..6 {
        let (client, allowed) = (arena.client().await, allowed.clone());
        tasks.push(Box::pin(async move {
            for _ in 0..10 {
                let counter = count(&client, "k", 1, Some(hour(Some(25)))).await;
                *allowed.lock().unwrap() += u32::from(counter.allowed);
            }
        }));
    }
    arena.together(tasks).await;
    assert_eq!(*allowed.lock().unwrap(), 25);
    let counter = arena.locks().await.counter("k").window(Duration::from_secs(3600)).limit(25);
    let now = counter.get().await.unwrap();
    assert_eq!((now.value, counter.add(1).await.unwrap().allowed), (25, false));
}

pub(crate) async fn a_count_starts_anew_after_its_window(arena: &Arena) {
    needs!(arena, arena.counts_by_window().await, NO_WINDOWS);
    let counter = arena.locks().await.counter("k").window(arena.ttl()).limit(3);
    assert_eq!(counter.add(3).await.unwrap().value, 3);
    arena.pass(arena.ttl() * 2).await;
    assert_eq!(counter.get().await.unwrap().value, 0);
    let anew = counter.add(2).await.unwrap();
    assert_eq!((anew.value, anew.allowed), (2, true));
}

pub(crate) async fn counting_does_not_prolong_a_window(arena: &Arena) {
    needs!(arena, arena.counts_by_window().await, NO_WINDOWS);
    let counter = arena.locks().await.counter("k").window(arena.ttl());
    let mut last = 0;
    for _ in 0..8 {
        last = counter.add(1).await.unwrap().value;
        arena.pass(arena.ttl() / 4).await;
    }
    assert!(last < 8, "the window of the first count is over");
}

pub(crate) async fn another_window_counts_in_the_running_one(arena: &Arena) {
    needs!(arena, arena.counts_by_window().await, NO_WINDOWS);
    let (client, brief) = (arena.client().await, Duration::from_millis(1));
    let long = Duration::from_secs(7200);
    assert_eq!(count(&client, "k", 1, Some(hour(None))).await.value, 1);
    for (per, by, limit, value) in [
        (brief, 0, None, 1),
        (brief, 1, Some(1), 1),
        (long, 1, Some(1), 1),
        (brief, 1, None, 2),
        (long, 1, None, 3),
    ] {
        let counter = count(&client, "k", by, Some(Window { per, limit })).await;
        let left = counter.resets_in.expect("a window ends");
        assert_eq!(counter.value, value, "{by} in {per:?}");
        assert!(left <= Duration::from_secs(3600) && left > Duration::from_secs(1800), "{left:?}");
    }
}

pub(crate) async fn a_refused_count_opens_no_window(arena: &Arena) {
    needs!(arena, arena.counts_by_window().await, NO_WINDOWS);
    let (client, per) = (arena.client().await, arena.ttl() * 4);
    let limited = Some(Window { per, limit: Some(1) });
    for _ in 0..2 {
        assert!(!count(&client, "k", 2, limited).await.allowed);
        arena.pass(arena.ttl()).await;
    }
    let left = count(&client, "k", 1, limited).await.resets_in.expect("a window ends");
    assert!(left > arena.ttl() * 3, "the window begins with the first count");
}

pub(crate) async fn looking_at_a_count_opens_no_window(arena: &Arena) {
    needs!(arena, arena.counts_by_window().await, NO_WINDOWS);
    let counter = arena.locks().await.counter("k").window(arena.ttl() * 4).limit(1);
    for _ in 0..2 {
        let counter = counter.get().await.unwrap();
        assert_eq!((counter.value, counter.allowed), (0, true));
        arena.pass(arena.ttl()).await;
    }
    let first = counter.add(1).await.unwrap();
    let left = first.resets_in.expect("a window ends");
    assert!(first.allowed && left > arena.ttl() * 3, "the window begins with the first count");
    assert_eq!(refused(counter.clone().window(Duration::ZERO).add(1).await), ErrorKind::Invalid);
    assert_eq!(refused(counter.add(NUMBER_MAX + 1).await), ErrorKind::Invalid);
}

pub(crate) async fn locks_sequences_and_counts_of_one_name_are_strangers(arena: &Arena) {
    needs!(arena, arena.counts_by_window().await, NO_WINDOWS);
    let client = arena.client().await;
    let ticket = arena.ticket("k", MUTEX);
    client.holds(&ticket).await;
    assert_eq!(count(&client, "k", 7, None).await.value, 7);
    assert_eq!(count(&client, "k", 2, Some(hour(None))).await.value, 2);
    assert_eq!(count(&client, "k", 1, None).await.value, 8);
    assert_eq!(count(&client, "k", 1, Some(hour(None))).await.value, 3);
    assert_eq!(client.ids("k").await, [ticket.id]);
    client.leaves(&ticket).await;
    assert_eq!(client.names("").await, [""; 0], "a count is no ticket");
    assert_eq!(count(&client, "k", 1, None).await.value, 9);
}
