//! The seventh promise: every name is its own lock, and is returned unchanged.

use tenure_core::{Engine as _, ErrorKind, KEY_BYTES_MAX, LeaveOutcome, Note, Owner};

use super::acts::{Acts as _, MUTEX, key, needs, refused};
use crate::Arena;

/// Names that some software once took for the same, or for something else.
fn names() -> Vec<String> {
    let mut names: Vec<String> = [
        "a",
        "a/",
        "a/b",
        "/a",
        "a//b",
        "A",
        "job",
        "Job",
        "JOB",
        "a ",
        " a",
        " ",
        "\0",
        "a\0",
        "a\0b",
        "a\0c",
        "*",
        "a*",
        "?",
        "[a]",
        "a%",
        "a_",
        "%",
        "_",
        "{}",
        "{a}",
        "{a}b",
        "a:b",
        ".",
        "..",
        "../a",
        "'",
        "\"",
        "'; DROP TABLE locks; --",
        "\\",
        "$1",
        "${a}",
        "^a$",
        ".*",
        "\n",
        "a\nb",
        "\r",
        "\t",
        "\u{7f}",
        "ä",
        "a\u{308}",
        "ß",
        "ss",
        "İ",
        "i",
        "ı",
        "\u{feff}",
        "\u{200b}",
        "🔒",
        "🔓",
        "\u{fff0}",
        "zookeeper",
        "null",
        "0",
        "-0",
        "00",
        "con",
        "v1.a",
        "~",
        "a.lock",
        "#",
        "a=b",
        "a;b",
        "a,b",
        "\u{10ffff}",
    ]
    .map(str::to_owned)
    .into();
    for tail in ["", "x", "y"] {
        for bytes in [63, 191, 254, 1023] {
            names.push("n".repeat(bytes) + tail);
        }
    }
    names.push("é".repeat(KEY_BYTES_MAX / 2));
    names.push("é".repeat(KEY_BYTES_MAX / 2 - 1) + "è");
    names.sort();
    names.dedup();
    names
}

pub(crate) async fn distinct_names_are_distinct_locks(arena: &Arena) {
    let client = arena.client().await;
    let names = names();
    let tickets: Vec<_> = names.iter().map(|name| arena.ticket(name, MUTEX)).collect();
    for ticket in &tickets {
        assert!(client.tries(ticket).await.is_some(), "{:?} is free", ticket.key);
    }
    for ticket in &tickets {
        assert_eq!(client.ids(ticket.key.as_str()).await, [ticket.id], "{:?}", ticket.key);
        assert_eq!(client.leaves(ticket).await, LeaveOutcome::Holding, "{:?}", ticket.key);
    }
}

pub(crate) async fn equal_names_are_the_same_lock(arena: &Arena) {
    let (one, two) = (arena.client().await, arena.client().await);
    for name in names() {
        let ticket = arena.ticket(&name, MUTEX);
        one.holds(&ticket).await;
        assert_eq!(two.tries(&arena.ticket(&name.clone(), MUTEX)).await, None, "{name:?} is taken");
        one.leaves(&ticket).await;
    }
}

pub(crate) async fn names_come_back_as_they_were_given(arena: &Arena) {
    let client = arena.client().await;
    let names = names();
    for name in &names {
        client.holds(&arena.ticket(name, MUTEX)).await;
    }
    assert_eq!(arena.client().await.names("").await, names, "all of them, in order");
    for name in &names {
        let line = client.sees(name).await;
        assert_eq!(line.len(), 1);
        assert_eq!(line[0].0.key.as_str(), name);
    }
}

pub(crate) async fn a_prefix_is_taken_literally(arena: &Arena) {
    let client = arena.client().await;
    let names = names();
    for name in &names {
        client.holds(&arena.ticket(name, MUTEX)).await;
    }
    let prefixes = [
        "a", "a/", "A", "*", "a%", "_", "%", ".", "[", "{", "\0", "a\0", "\\", "^", "é", "nn",
        "none", "'",
    ];
    for prefix in prefixes {
        let expected: Vec<_> = names.iter().filter(|name| name.starts_with(prefix)).collect();
        let found = client.names(prefix).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{prefix:?}");
    }
}

pub(crate) async fn a_name_is_listed_as_long_as_it_has_a_ticket(arena: &Arena) {
    let client = arena.client().await;
    let (holder, waiter) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    assert_eq!(client.names("").await, [""; 0]);
    client.holds(&holder).await;
    client.waits(&waiter).await;
    assert_eq!(client.names("").await, ["k"], "once, with any number of tickets");
    client.leaves(&waiter).await;
    client.leaves(&holder).await;
    assert_eq!(client.names("").await, [""; 0]);
}

pub(crate) async fn a_sequence_of_every_name_is_its_own(arena: &Arena) {
    needs!(arena, arena.counts().await, "it keeps no counters");
    let client = arena.client().await;
    for (by, name) in (1..).zip(names()) {
        let counter = client.add(&key(&name), by, None).await.expect("the counter works");
        assert_eq!(counter.value, by, "{name:?} has its own counter");
    }
    for (by, name) in (1..).zip(names()) {
        let counter = client.add(&key(&name), 0, None).await.expect("the counter works");
        assert_eq!(counter.value, by, "{name:?} kept its count");
    }
}

pub(crate) async fn a_name_that_cannot_be_is_refused(arena: &Arena) {
    let locks = arena.locks().await;
    for name in [String::new(), "x".repeat(KEY_BYTES_MAX + 1), "é".repeat(KEY_BYTES_MAX / 2) + "x"]
    {
        assert_eq!(refused(locks.mutex(&name).try_lock().await), ErrorKind::Invalid);
        assert_eq!(refused(locks.rwlock(&name).read().await), ErrorKind::Invalid);
        assert_eq!(refused(locks.multi_lock(["a", &name]).lock().await), ErrorKind::Invalid);
        assert_eq!(refused(locks.line(&name).await), ErrorKind::Invalid);
        assert_eq!(refused(locks.sequence(&name).next().await), ErrorKind::Invalid);
    }
    assert!(locks.keys("").await.unwrap().is_empty(), "no key was locked meanwhile");
}

pub(crate) async fn owners_and_notes_come_back_as_they_were_given(arena: &Arena) {
    let client = arena.client().await;
    let nasty = "'; {}\0\n\"\\ %s 🔒";
    let long = "x".repeat(tenure_core::NOTE_BYTES_MAX);
    let owner = "o".repeat(tenure_core::OWNER_BYTES_MAX);
    for (owner, note) in [(nasty, ""), ("", nasty), (&owner, &long), ("é", "\u{10ffff}")] {
        let mut ticket = arena.ticket("k", MUTEX);
        (ticket.owner, ticket.note) = (Owner::shortened(owner), Note::shortened(note));
        client.holds(&ticket).await;
        let line = client.sees("k").await;
        assert_eq!((&*line[0].0.owner, &*line[0].0.note), (owner, note));
        client.leaves(&ticket).await;
    }
}
