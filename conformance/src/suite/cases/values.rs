//! Values: a text beside the line, which only a caller that has seen it replaces.

use tenure_core::layers::AnyEngine;
use tenure_core::{BoxFuture, Engine as _, VALUE_BYTES_MAX};

use super::acts::{Acts as _, MUTEX, key, needs};
use crate::Arena;

const NO_VALUES: &str = "it keeps no values";

async fn swap(client: &AnyEngine, name: &str, seen: &str, value: &str) -> String {
    client.swap(&key(name), seen, value).await.expect("the swap works")
}

async fn read(client: &AnyEngine, name: &str) -> String {
    swap(client, name, "", "").await
}

pub(crate) async fn a_value_is_replaced_by_a_caller_that_has_seen_it(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_VALUES);
    let (client, other) = (arena.client().await, arena.client().await);
    assert_eq!(read(&client, "k").await, "");
    assert_eq!(swap(&client, "k", "never", "one").await, "", "no value is not `never`");
    assert_eq!(swap(&client, "k", "", "one").await, "one");
    assert_eq!(read(&other, "k").await, "one");
    assert_eq!(swap(&other, "k", "", "two").await, "one", "it did not see the first");
    assert_eq!(swap(&other, "k", "one", "two").await, "two");
    assert_eq!(swap(&client, "k", "one", "three").await, "two");
    assert_eq!(read(&client, "k").await, "two");
}

pub(crate) async fn a_swap_that_is_sent_twice_is_one_swap(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_VALUES);
    let client = arena.client().await;
    for _ in 0..3 {
        assert_eq!(swap(&client, "k", "", "one").await, "one");
    }
    assert_eq!(swap(&client, "k", "one", "two").await, "two");
    assert_eq!(swap(&client, "k", "", "one").await, "two", "a late request changes nothing");
    assert_eq!(swap(&client, "k", "one", "two").await, "two");
}

pub(crate) async fn of_parallel_swaps_one_is_done(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_VALUES);
    let mut tasks: Vec<BoxFuture<()>> = Vec::new();
    for task in 0..6 {
        let client = arena.client().await;
        tasks.push(Box::pin(async move {
            let mut seen = read(&client, "k").await;
            for _ in 0..8 {
                loop {
                    let count = seen.split(' ').next().and_then(|word| word.parse::<u32>().ok());
                    let value = format!("{} {task}", count.unwrap_or(0) + 1);
                    let stored = swap(&client, "k", &seen, &value).await;
                    let is_done = stored == value;
                    seen = stored;
                    if is_done {
                        break;
                    }
                }
            }
        }));
    }
    arena.together(tasks).await;
    let last = read(&arena.client().await, "k").await;
    assert!(last.starts_with("48 "), "{last} is not the 48th value");
}

pub(crate) async fn an_empty_value_is_none(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_VALUES);
    let client = arena.client().await;
    assert_eq!(swap(&client, "k", "", "one").await, "one");
    assert_eq!(swap(&client, "k", "one", "").await, "");
    assert_eq!(read(&client, "k").await, "");
    assert_eq!(swap(&client, "k", "one", "two").await, "", "the value was removed");
    assert_eq!(swap(&client, "k", "", "two").await, "two");
    assert_eq!(read(&arena.client().await, "k").await, "two");
}

pub(crate) async fn a_value_does_not_end(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_VALUES);
    let client = arena.client().await;
    assert_eq!(swap(&client, "k", "", "one").await, "one");
    client.close().await;
    arena.pass(arena.ttl() * 2).await;
    assert_eq!(read(&arena.client().await, "k").await, "one");
}

pub(crate) async fn a_value_comes_back_as_it_was_given(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_VALUES);
    let client = arena.client().await;
    let mut seen = String::new();
    for value in ["$value", "a\nb\t\u{0}\u{1}\"'\\", "zażółć 日本 🔒", " ", "{\"$set\": 1}", "0"]
    {
        assert_eq!(swap(&client, "k", &seen, value).await, value);
        assert_eq!(read(&client, "k").await, value);
        value.clone_into(&mut seen);
    }
    let (longest, other) = ("é".repeat(VALUE_BYTES_MAX / 2), "x".repeat(VALUE_BYTES_MAX));
    assert_eq!(swap(&client, "k", &seen, &longest).await, longest);
    assert_eq!(swap(&client, "k", &longest, &other).await, other);
    assert_eq!(read(&arena.client().await, "k").await, other, "another client reads it");
}

pub(crate) async fn locks_sequences_and_values_of_one_name_are_strangers(arena: &Arena) {
    needs!(arena, arena.keeps_values().await, NO_VALUES);
    let client = arena.client().await;
    assert_eq!(swap(&client, "k", "", "one").await, "one");
    assert_eq!(client.names("").await, [""; 0], "a value is no ticket");
    let ticket = arena.ticket("k", MUTEX);
    client.holds(&ticket).await;
    assert_eq!(client.add(&key("k"), 7, None).await.expect("it counts").value, 7);
    assert_eq!(swap(&client, "k", "one", "two").await, "two");
    assert_eq!(client.ids("k").await, [ticket.id]);
    client.leaves(&ticket).await;
    assert_eq!(client.add(&key("k"), 1, None).await.expect("it counts").value, 8);
    assert_eq!(read(&client, "k").await, "two");
    assert_eq!(read(&client, "K").await, "", "each name has its own value");
}
