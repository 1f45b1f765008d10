//! The most of everything is allowed, and more is refused before the store is asked.

use std::time::Duration;

use tenure_core::blocking::Blocking;
use tenure_core::{ErrorKind, Locks, Memory, NUMBER_MAX, PERMITS_MAX, Result, TTL_MAX};

fn locks() -> Blocking<Locks> {
    Locks::new(Memory::new()).blocking()
}

/// It makes no sense.
fn is_refused<T>(outcome: Result<T>) {
    let error = outcome.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[test]
fn a_semaphore_has_so_many_permits() {
    let locks = locks();
    let all = locks.semaphore("a", PERMITS_MAX).acquire_many(PERMITS_MAX).unwrap();
    assert!(locks.semaphore("a", PERMITS_MAX).try_acquire().unwrap().is_none());
    all.release().unwrap();
    is_refused(locks.semaphore("b", PERMITS_MAX + 1).acquire());
    assert_eq!(locks.line("b").unwrap(), []);
}

#[test]
fn a_count_grows_by_so_much_and_lasts_so_long() {
    let counter = |key: &str, per: Duration| locks().counter(key).window(per);
    let all = counter("a", TTL_MAX);
    assert_eq!(all.add(NUMBER_MAX).unwrap().value, NUMBER_MAX);
    is_refused(all.add(NUMBER_MAX + 1));
    is_refused(counter("b", TTL_MAX + Duration::from_nanos(1)).add(1));
    is_refused(counter("b", Duration::ZERO).add(1));
}

#[test]
fn a_block_has_so_many_numbers() {
    let locks = locks();
    let sequence = locks.sequence("a");
    assert_eq!(sequence.next_block(3).unwrap(), 1..=3);
    assert_eq!(sequence.next_block(2).unwrap(), 4..=5);
    is_refused(sequence.next_block(0));
    is_refused(sequence.next_block(NUMBER_MAX + 1));
    assert_eq!(sequence.last().unwrap(), 5);
    assert_eq!(locks.sequence("b").next_block(NUMBER_MAX).unwrap(), 1..=NUMBER_MAX);
}
