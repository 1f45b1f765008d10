//! The blocking API has what the async one has.

use std::time::Duration;

use tenure_core::blocking::Blocking;
use tenure_core::event::{EventKind, Scope};
use tenure_core::{Locks, Loss, Memory, WatchEvent};

fn locks() -> Blocking<Locks> {
    Locks::new(Memory::new()).blocking()
}

#[test]
fn a_primitive_keeps_its_builder() {
    let locks = locks();
    let ttl = Duration::from_secs(7);
    let guard = locks.mutex("a").ttl(ttl).note("mine").lock().unwrap();
    let ticket = locks.line("a").unwrap().remove(0);
    assert_eq!((ticket.ttl, &*ticket.note), (ttl, "mine"));
    guard.release().unwrap();
    let counter = locks.counter("b").window(Duration::from_secs(60)).limit(1);
    assert!(counter.add(1).unwrap().allowed);
    assert!(!counter.add(1).unwrap().allowed);
}

#[test]
fn every_primitive_has_its_blocking_twin() {
    let locks = Locks::new(Memory::new());
    locks.mutex("a").blocking().lock().unwrap().release().unwrap();
    locks.rwlock("b").blocking().write().unwrap().release().unwrap();
    locks.semaphore("c", 3).blocking().acquire().unwrap().release().unwrap();
    locks.multi_lock(["d", "e"]).blocking().lock().unwrap().release().unwrap();
    locks.election("f").blocking().campaign().unwrap().release().unwrap();
    assert_eq!(locks.sequence("g").blocking().next().unwrap(), 1);
    assert_eq!(locks.counter("h").blocking().add(2).unwrap().value, 2);
}

#[test]
fn what_is_held_is_renewed_noted_and_told_of_its_loss() {
    let locks = locks();
    let guard = locks.mutex("a").manual_renewal().lock().unwrap();
    guard.extend().unwrap();
    guard.set_note("nearly done").unwrap();
    let ticket = locks.line("a").unwrap().remove(0);
    assert_eq!(&*ticket.note, "nearly done");
    locks.break_ticket("a", guard.id()).unwrap();
    assert_eq!(guard.lost(), Loss::Broken);
    assert_eq!(guard.ended(), Some(Loss::Broken));
    let held = locks.mutex("b").lock().unwrap().handle().blocking();
    assert_eq!(held.ended(), None, "its guard was dropped");
}

#[test]
fn several_locks_are_renewed_and_told_of_their_loss() {
    let locks = locks();
    let both = locks.multi_lock(["a", "b"]).lock().unwrap();
    both.extend().unwrap();
    locks.break_ticket("b", both.guards()[1].id()).unwrap();
    assert_eq!(both.lost(), Loss::Broken);
    assert_eq!(both.ended(), Some(Loss::Broken));
}

#[test]
fn a_writer_is_downgraded() {
    let locks = locks();
    let writer = locks.rwlock("a").write().unwrap();
    writer.extend().unwrap();
    assert!(locks.mutex("a").try_lock().unwrap().is_none(), "a mutex is the writer of its key");
    let reader = writer.downgrade().unwrap();
    assert!(locks.rwlock("a").try_read().unwrap().is_some());
    reader.release().unwrap();
}

#[test]
fn onlookers_wait_on_their_thread() {
    let locks = locks();
    let mut watch = locks.watch(Scope::Prefix(String::new())).unwrap();
    let mut leaders = locks.election("a").observe().unwrap();
    assert_eq!(leaders.wait().unwrap(), None);
    let seat = locks.election("a").campaign().unwrap();
    assert_eq!(leaders.wait().unwrap().map(|leader| leader.term), Some(seat.token().get()));
    let WatchEvent::Event(event) = watch.wait().unwrap() else { panic!("nothing was missed") };
    assert_eq!(event.kind, EventKind::Joined);
}

#[test]
fn what_lists_keys_feeds_what_asks_for_one() {
    let locks = Locks::new(Memory::new());
    let guard = locks.mutex("a").blocking().lock().unwrap();
    for key in locks.blocking().keys("").unwrap() {
        let line = tenure_core::blocking::block_on(locks.line(&key)).unwrap();
        assert_eq!(line[0].id, guard.id());
        assert_eq!(locks.blocking().line(key).unwrap().len(), 1);
    }
}
