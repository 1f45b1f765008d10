//! Inspection: a line shows the holders and the waiters, and a view gives no rights.

use tenure_core::event::EventKind;
use tenure_core::{ErrorKind, LineEntry, Locks, OWNER_BYTES_MAX, Share, TicketState, WatchEvent};

use super::acts::{is_token_of, needs, refused};
use crate::Arena;

async fn line(locks: &Locks, length: usize, arena: &Arena) -> Vec<LineEntry> {
    let grown = async {
        loop {
            let line = locks.line("k").await.expect("the line can be seen");
            if line.len() == length {
                return line;
            }
            arena.pass(arena.beat() / 4).await;
        }
    };
    arena.soon("the line is so long", grown).await
}

pub(crate) async fn a_line_shows_the_holder(arena: &Arena) {
    let (locks, observer) = (arena.locks().await, arena.locks().await);
    let mine = locks.with_owner("an owner").unwrap();
    let guard = mine.mutex("k").note("a note").lock().await.unwrap();
    let line = line(&observer, 1, arena).await;
    let holder = &line[0];
    assert_eq!((&*holder.owner, &*holder.note), ("an owner", "a note"));
    assert_eq!((holder.id, holder.key.as_str()), (guard.id(), "k"));
    assert_eq!(holder.state, TicketState::Holding);
    assert!(is_token_of(arena, holder.number, guard.token()).await);
    assert_eq!((holder.ahead, holder.leaving), (0, false));
    assert_eq!(holder.share, Share::WHOLE);
    let named = observer.mutex("k").holder().await.unwrap().expect("it is locked");
    assert_eq!(named.id, guard.id());
    guard.release().await.unwrap();
    assert!(observer.line("k").await.unwrap().is_empty());
}

pub(crate) async fn a_line_shows_the_waiters_and_their_shares(arena: &Arena) {
    needs!(arena, arena.profile().await.fair, "waiters stand in no line here");
    needs!(arena, arena.keeps_permits().await, "it keeps no permits");
    let (locks, observer) = (arena.locks().await, arena.locks().await);
    let semaphore = |owner: &str| locks.with_owner(owner).unwrap().semaphore("k", 5).note(owner);
    let guard = semaphore("one").acquire_many(4).await.unwrap();
    let (two, three) = (semaphore("two"), semaphore("three"));
    let mut second = Box::pin(two.acquire_many(3));
    arena.stands_in_line("k", 2, &mut second).await;
    let mut third = Box::pin(three.acquire_many(1));
    arena.stands_in_line("k", 3, &mut third).await;
    let line = line(&observer, 3, arena).await;
    let seen: Vec<_> = line
        .iter()
        .map(|entry| (&*entry.owner, entry.share.take(), entry.ahead, entry.state))
        .collect();
    let (holding, waiting) = (TicketState::Holding, TicketState::Waiting);
    assert_eq!(seen, [("one", 4, 0, holding), ("two", 3, 4, waiting), ("three", 1, 7, waiting)]);
    assert!(line.iter().all(|entry| *entry.note == *entry.owner && entry.share.of() == 5));
    guard.release().await.unwrap();
}

pub(crate) async fn a_view_gives_no_right_to_release(arena: &Arena) {
    let locks = arena.locks().await;
    let guard = locks.mutex("k").renew_every(arena.beat()).lock().await.unwrap();
    let (view, other) = (guard.handle(), guard.handle());
    drop(view);
    arena.soon("nothing is given back", locks.flush()).await;
    guard.check().unwrap();
    other.extend().await.expect("a view may renew what is held");
    assert_eq!(locks.line("k").await.unwrap().len(), 1);
    guard.release().await.unwrap();
    assert_eq!(refused(other.check()), ErrorKind::Invalid);
    assert_eq!(refused(other.extend().await), ErrorKind::Invalid);
    assert!(locks.line("k").await.unwrap().is_empty(), "a view keeps nothing locked");
}

pub(crate) async fn keys_are_listed_by_prefix_and_in_order(arena: &Arena) {
    let locks = arena.locks().await;
    let mut guards = Vec::new();
    for name in ["jobs/b", "jobs/a", "job", "other", "jobs/ä"] {
        guards.push(locks.mutex(name).lock().await.unwrap());
    }
    let listed = async |prefix| {
        let keys = arena.locks().await.keys(prefix).await.unwrap();
        keys.iter().map(|key| key.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed("jobs/").await, ["jobs/a", "jobs/b", "jobs/ä"]);
    assert_eq!(listed("").await, ["job", "jobs/a", "jobs/b", "jobs/ä", "other"]);
    assert_eq!(listed("none").await, [""; 0]);
    guards.clear();
    arena.soon("they are given back", locks.flush()).await;
    assert_eq!(listed("").await, [""; 0]);
}

pub(crate) async fn an_observer_sees_lasting_changes(arena: &Arena) {
    let (locks, observer) = (arena.locks().await, arena.locks().await);
    let mut of_key = observer.watch("jobs/a").await.unwrap();
    let mut of_all = observer.watch_prefix("jobs/").await.unwrap();
    let _guard = locks.mutex("elsewhere").lock().await.unwrap();
    let guard = locks.mutex("jobs/a").lock().await.unwrap();
    for watch in [&mut of_key, &mut of_all] {
        for what in [EventKind::Joined, EventKind::Served] {
            let seen = arena.soon("it is seen", watch.next()).await.unwrap();
            let WatchEvent::Event(event) = seen else { panic!("nothing is missed") };
            assert_eq!((event.kind, event.ticket.id), (what, guard.id()));
            assert!(is_token_of(arena, event.number, guard.token()).await);
        }
    }
    guard.release().await.unwrap();
    let seen = arena.soon("it is seen", of_key.next()).await.unwrap();
    assert!(matches!(seen, WatchEvent::Event(event) if event.kind == EventKind::Left));
}

pub(crate) async fn an_owner_has_a_name(arena: &Arena) {
    let locks = arena.locks().await;
    let guard = locks.mutex("k").lock().await.unwrap();
    let line = locks.line("k").await.unwrap();
    assert!(line[0].owner.contains(&format!("[{}]", std::process::id())), "this process");
    guard.release().await.unwrap();
    assert_eq!(
        refused(locks.with_owner(&"x".repeat(OWNER_BYTES_MAX + 1)).map(|_| ())),
        ErrorKind::Invalid
    );
}
