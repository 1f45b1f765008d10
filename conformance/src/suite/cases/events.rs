//! Events: each change of a line is reported in order, and once.

use std::time::Duration;

use tenure_core::event::{EventKind, Scope};
use tenure_core::{Engine as _, EventDelivery, Note, Ticket};

use super::acts::{Acts as _, MUTEX, events, key, kinds, needs};
use crate::Arena;

const SAMPLED: &str = "observers are shown only what lasts here";

async fn shows_all(arena: &Arena) -> bool {
    arena.profile().await.events == EventDelivery::Every
}

pub(crate) async fn a_line_is_reported_in_order(arena: &Arena) {
    needs!(arena, shows_all(arena).await, SAMPLED);
    let (client, observer) = (arena.client().await, arena.client().await);
    let scope = Scope::Key(key("k"));
    let cursor = observer.looks_on(&scope).await;
    let (a, b) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    let numbers = [client.joins(&a).await.number, client.joins(&b).await.number];
    client.leaves(&a).await;
    client.leaves(&b).await;
    let (seen, _) = events(arena, &observer, &scope, cursor, 6).await;
    let expected = [
        (EventKind::Joined, a.id),
        (EventKind::Served, a.id),
        (EventKind::Joined, b.id),
        (EventKind::Left, a.id),
        (EventKind::Served, b.id),
        (EventKind::Left, b.id),
    ];
    assert_eq!(kinds(&seen), expected);
    for event in &seen {
        assert_eq!(event.number, numbers[usize::from(event.ticket.id == b.id)]);
        assert_eq!(event.ticket.key.as_str(), "k");
        assert_eq!(&*event.ticket.owner, "conformance");
    }
    assert!(seen.is_sorted_by_key(|event| event.at_us), "time does not go back");
}

pub(crate) async fn every_event_is_reported_once(arena: &Arena) {
    needs!(arena, shows_all(arena).await, SAMPLED);
    let (client, observer) = (arena.client().await, arena.client().await);
    let scope = Scope::Prefix(String::new());
    let mut cursor = observer.looks_on(&scope).await;
    let mut expected = Vec::new();
    let mut seen = Vec::new();
    for round in 0..6 {
        let ticket = arena.ticket(&format!("k{round}"), MUTEX);
        client.holds(&ticket).await;
        expected.extend([(EventKind::Joined, ticket.id), (EventKind::Served, ticket.id)]);
        if round % 2 == 0 {
            let (some, next) = events(arena, &observer, &scope, cursor, 1).await;
            cursor = next;
            seen.extend(kinds(&some));
        }
        client.leaves(&ticket).await;
        expected.push((EventKind::Left, ticket.id));
    }
    let missing = expected.len() - seen.len();
    let (rest, _) = events(arena, &observer, &scope, cursor, missing).await;
    seen.extend(kinds(&rest));
    assert_eq!(seen, expected);
}

pub(crate) async fn every_change_is_reported_by_its_kind(arena: &Arena) {
    needs!(arena, shows_all(arena).await, SAMPLED);
    let (client, observer) = (arena.client().await, arena.client().await);
    let scope = Scope::Key(key("k"));
    let cursor = observer.looks_on(&scope).await;
    let (a, b) = (arena.ticket("k", MUTEX), arena.ticket("k", MUTEX));
    client.holds(&a).await;
    client.joins(&b).await;
    client.stands(&a).await;
    client.stands(&Ticket { note: Note::shortened("new"), ..a.clone() }).await;
    client.is_asked_to_leave(&b).await;
    client.is_asked_to_leave(&a).await;
    client.is_asked_to_leave(&a).await;
    client.leaves(&a).await;
    let (seen, _) = events(arena, &observer, &scope, cursor, 7).await;
    let expected = [
        (EventKind::Joined, a.id),
        (EventKind::Served, a.id),
        (EventKind::Joined, b.id),
        (EventKind::Changed, a.id),
        (EventKind::Broken, b.id),
        (EventKind::Broken, a.id),
        (EventKind::Left, a.id),
    ];
    assert_eq!(kinds(&seen), expected);
    assert_eq!(&*seen[3].ticket.note, "new");
}

pub(crate) async fn an_expiry_is_reported(arena: &Arena) {
    needs!(arena, shows_all(arena).await, SAMPLED);
    let (dead, observer) = (arena.client().await, arena.client().await);
    let scope = Scope::Key(key("k"));
    let cursor = observer.looks_on(&scope).await;
    let (gone, next) = (arena.brief("k", MUTEX), arena.ticket("k", MUTEX));
    dead.holds(&gone).await;
    drop(dead);
    observer.joins(&next).await;
    observer.is_served(arena, &next).await;
    let (seen, _) = events(arena, &observer, &scope, cursor, 5).await;
    let first = [(EventKind::Joined, gone.id), (EventKind::Served, gone.id)];
    assert_eq!(kinds(&seen)[..2], first);
    let at = |kind, id| kinds(&seen).iter().position(|seen| *seen == (kind, id));
    let expired = at(EventKind::Expired, gone.id).expect("the expiry is reported");
    let served = at(EventKind::Served, next.id).expect("the next holder is reported");
    assert!(expired < served, "the next is served after the other is out");
}

pub(crate) async fn only_the_scope_is_reported(arena: &Arena) {
    needs!(arena, shows_all(arena).await, SAMPLED);
    let (client, observer) = (arena.client().await, arena.client().await);
    let one = Scope::Key(key("a/b"));
    let some = Scope::Prefix("a/".to_owned());
    let (from_one, from_some) = (observer.looks_on(&one).await, observer.looks_on(&some).await);
    let tickets = ["b", "a", "a/", "a/b", "a/b/c", "A/b"].map(|name| arena.ticket(name, MUTEX));
    for ticket in &tickets {
        client.holds(ticket).await;
        client.leaves(ticket).await;
    }
    let (seen, _) = events(arena, &observer, &one, from_one, 3).await;
    assert!(seen.iter().all(|event| event.ticket.id == tickets[3].id) && seen.len() == 3);
    let (seen, _) = events(arena, &observer, &some, from_some, 9).await;
    let ids: Vec<_> = seen.iter().map(|event| event.ticket.id).collect();
    let expected = [2, 2, 2, 3, 3, 3, 4, 4, 4].map(|at: usize| tickets[at].id);
    assert_eq!(ids, expected);
}

pub(crate) async fn an_observer_waits_until_something_happens(arena: &Arena) {
    needs!(arena, shows_all(arena).await, SAMPLED);
    let (client, observer) = (arena.client().await, arena.client().await);
    let scope = Scope::Key(key("k"));
    let cursor = observer.looks_on(&scope).await;
    let mut looking = Box::pin(events(arena, &observer, &scope, cursor, 1));
    arena.not_now("something happens", &mut looking).await;
    let elsewhere = arena.ticket("elsewhere", MUTEX);
    client.holds(&elsewhere).await;
    arena.not_now("something happens here", &mut looking).await;
    let ticket = arena.ticket("k", MUTEX);
    client.holds(&ticket).await;
    let (seen, _) = looking.await;
    assert_eq!(kinds(&seen)[0], (EventKind::Joined, ticket.id));
}

pub(crate) async fn a_lasting_change_is_seen(arena: &Arena) {
    let (client, observer) = (arena.client().await, arena.client().await);
    let scope = Scope::Prefix(String::new());
    let cursor = observer.looks_on(&scope).await;
    let ticket = arena.ticket("k", MUTEX);
    client.holds(&ticket).await;
    let (mut seen, cursor) = events(arena, &observer, &scope, cursor, 2).await;
    arena.pass(Duration::from_millis(1)).await;
    client.leaves(&ticket).await;
    seen.extend(events(arena, &observer, &scope, cursor, 1).await.0);
    let expected =
        [EventKind::Joined, EventKind::Served, EventKind::Left].map(|what| (what, ticket.id));
    assert_eq!(kinds(&seen), expected);
}

pub(crate) async fn two_observers_see_the_same(arena: &Arena) {
    needs!(arena, shows_all(arena).await, SAMPLED);
    let client = arena.client().await;
    let (one, two) = (arena.client().await, arena.client().await);
    let scope = Scope::Key(key("k"));
    let (first, second) = (one.looks_on(&scope).await, two.looks_on(&scope).await);
    for _ in 0..5 {
        let ticket = arena.ticket("k", MUTEX);
        client.holds(&ticket).await;
        client.leaves(&ticket).await;
    }
    let (seen, _) = events(arena, &one, &scope, first, 15).await;
    let (also, _) = events(arena, &two, &scope, second, 15).await;
    assert_eq!(kinds(&seen), kinds(&also));
}

pub(crate) async fn an_old_cursor_repeats_events(arena: &Arena) {
    needs!(arena, shows_all(arena).await, SAMPLED);
    let client = arena.client().await;
    let scope = Scope::Key(key("k"));
    let cursor = client.looks_on(&scope).await;
    client.holds(&arena.ticket("k", MUTEX)).await;
    let first = events(arena, &client, &scope, cursor, 2).await;
    let again = events(arena, &client, &scope, cursor, 2).await;
    assert_eq!(first, again, "the same cursor returns the same events");
    let news = client.events(&scope, None).await.expect("events can be read");
    assert!(news.cursor >= first.1);
}
