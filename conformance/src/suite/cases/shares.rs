//! Sharing: readers together or one writer, and never more permits than there are.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::{BoxFuture, ErrorKind, PERMITS_MAX, ReadGuard, RwLock, Semaphore};

use super::acts::{needs, refused};
use super::crowd::Crowd;
use super::kind::Lock;
use crate::Arena;

const NO_PERMITS: &str = "it keeps no permits";

async fn rwlock(arena: &Arena) -> RwLock {
    arena.locks().await.rwlock("k").renew_every(arena.beat())
}

async fn semaphore(arena: &Arena, permits: u32) -> Semaphore {
    arena.locks().await.semaphore("k", permits).renew_every(arena.beat())
}

pub(crate) async fn readers_read_together_and_keep_writers_out(arena: &Arena) {
    let (one, two) = (rwlock(arena).await, rwlock(arena).await);
    let readers: Vec<ReadGuard> = [
        one.read().await.unwrap(),
        two.read().await.unwrap(),
        one.try_read().await.unwrap().expect("readers are together"),
        two.try_read_for(Duration::MAX).await.unwrap().expect("readers are together"),
    ]
    .into();
    for reader in readers {
        assert!(two.try_write().await.unwrap().is_none(), "there is a reader");
        reader.release().await.unwrap();
    }
    assert!(two.try_write().await.unwrap().is_some(), "there is no reader");
}

pub(crate) async fn a_writer_excludes_all_others(arena: &Arena) {
    let (one, two) = (rwlock(arena).await, rwlock(arena).await);
    let writer = one.write().await.unwrap();
    assert!(two.try_read().await.unwrap().is_none());
    assert!(one.try_read().await.unwrap().is_none(), "a writer admits no reader");
    assert!(two.try_write().await.unwrap().is_none());
    arena.is_busy(two.try_write_for(arena.beat()).await);
    let mut reading = Box::pin(two.read());
    arena.not_now("a reader holds beside a writer", &mut reading).await;
    writer.release().await.unwrap();
    drop(arena.soon("the reader reads", reading).await.unwrap());
}

pub(crate) async fn a_writer_is_not_starved_by_readers(arena: &Arena) {
    needs!(arena, arena.profile().await.fair, "waiters stand in no order here");
    let (one, two) = (rwlock(arena).await, rwlock(arena).await);
    let first = one.read().await.unwrap();
    let mut writing = Box::pin(two.write());
    arena.stands_in_line("k", 2, &mut writing).await;
    assert!(one.try_read().await.unwrap().is_none(), "a writer waits");
    let mut reading = Box::pin(one.read());
    arena.stands_in_line("k", 3, &mut reading).await;
    first.release().await.unwrap();
    let writer = arena.soon("the writer writes", writing).await.unwrap();
    arena.not_now("a reader holds beside a writer", &mut reading).await;
    writer.release().await.unwrap();
    drop(arena.soon("the reader reads", reading).await.unwrap());
}

pub(crate) async fn a_writer_that_gives_up_admits_the_readers_behind_it(arena: &Arena) {
    let (one, two) = (rwlock(arena).await, rwlock(arena).await);
    let first = one.read().await.unwrap();
    let mut writing = Box::pin(two.write());
    let mut reading = Box::pin(one.read());
    if arena.profile().await.fair {
        arena.stands_in_line("k", 2, &mut writing).await;
        arena.stands_in_line("k", 3, &mut reading).await;
    } else {
        arena.not_now("a writer holds beside a reader", &mut writing).await;
    }
    drop(writing);
    let second = arena.soon("the reader reads", reading).await.unwrap();
    first.check().unwrap();
    second.check().unwrap();
}

pub(crate) async fn a_downgrade_keeps_writers_out_and_lets_readers_in(arena: &Arena) {
    let (one, two) = (rwlock(arena).await, rwlock(arena).await);
    let writer = one.write().await.unwrap();
    let token = writer.token();
    let mut reading = Box::pin(two.read());
    arena.not_now("a reader holds beside a writer", &mut reading).await;
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.handle().number(), token.get(), "the lock was held all the time");
    let other = arena.soon("readers come in", reading).await.unwrap();
    assert!(two.try_write().await.unwrap().is_none(), "two are reading");
    other.release().await.unwrap();
    arena.pass(arena.beat() * 3).await;
    assert!(two.try_write().await.unwrap().is_none(), "one is reading");
    reader.release().await.unwrap();
    assert!(two.try_write().await.unwrap().is_some());
}

pub(crate) async fn readers_and_writers_never_meet(arena: &Arena) {
    const WRITER: u32 = 1000;
    let crowd = Crowd::of(arena, WRITER, None).await;
    let mut tasks: Vec<BoxFuture<()>> = Vec::new();
    for at in 0..24_u32 {
        let (lock, crowd) = (crowd.terms(Lock::Writer(rwlock(arena).await)), crowd.clone());
        tasks.push(Box::pin(async move {
            for round in 0..4 {
                if (at + round) % 4 == 0 {
                    crowd.comes_and_goes(WRITER, || lock.lock()).await;
                } else {
                    crowd.comes_and_goes(1, || lock.read()).await;
                }
            }
        }));
    }
    arena.together(tasks).await;
}

pub(crate) async fn a_mutex_is_the_writer_of_its_key(arena: &Arena) {
    let locks = arena.locks().await;
    let (mutex, rwlock) = (locks.mutex("k"), locks.rwlock("k"));
    let reader = rwlock.read().await.unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none(), "there is a reader");
    let mut waiting = Box::pin(mutex.lock());
    arena.not_now("a reader keeps a mutex out", &mut waiting).await;
    reader.release().await.unwrap();
    let guard = arena.soon("the last reader releases", waiting).await.unwrap();
    assert!(rwlock.try_read().await.unwrap().is_none(), "a mutex keeps readers out");
    assert!(rwlock.try_write().await.unwrap().is_none(), "and writers");
    guard.release().await.unwrap();
    let writer = rwlock.write().await.unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none(), "a writer keeps mutexes out");
    writer.release().await.unwrap();
}

pub(crate) async fn a_mutex_and_a_semaphore_of_one_name_are_refused(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, NO_PERMITS);
    let locks = arena.locks().await;
    let (mutex, semaphore) = (locks.mutex("k"), locks.semaphore("k", 1));
    let permit = semaphore.acquire().await.unwrap();
    assert_eq!(refused(mutex.lock().await), ErrorKind::Invalid);
    assert_eq!(refused(mutex.try_lock().await), ErrorKind::Invalid);
    permit.check().unwrap();
    permit.release().await.unwrap();
    let guard = mutex.try_lock().await.unwrap().expect("the line is empty");
    assert_eq!(refused(semaphore.acquire().await), ErrorKind::Invalid);
    guard.release().await.unwrap();
    arena.soon("nothing is left behind", locks.flush()).await;
    assert!(locks.line("k").await.unwrap().is_empty());
}

pub(crate) async fn another_number_of_permits_is_refused(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, NO_PERMITS);
    let guard = semaphore(arena, 5).await.acquire().await.unwrap();
    for permits in [1, 4, 6, PERMITS_MAX] {
        let other = semaphore(arena, permits).await;
        assert_eq!(refused(other.acquire().await), ErrorKind::Invalid);
        assert_eq!(refused(other.try_acquire().await), ErrorKind::Invalid);
        assert_eq!(refused(other.try_acquire_for(arena.ttl()).await), ErrorKind::Invalid);
    }
    guard.release().await.unwrap();
    drop(semaphore(arena, 4).await.try_acquire().await.unwrap().expect("the line is empty"));
}

pub(crate) async fn never_more_permits_are_out_than_there_are(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, NO_PERMITS);
    let crowd = Crowd::of(arena, 7, None).await;
    let mut tasks: Vec<BoxFuture<()>> = Vec::new();
    for at in 0..24 {
        let (lock, crowd) = (crowd.terms(Lock::Permit(semaphore(arena, 7).await)), crowd.clone());
        let count = at % 5 + 1;
        tasks.push(Box::pin(async move {
            for _ in 0..3 {
                crowd.comes_and_goes(count, || lock.acquire_many(count)).await;
            }
        }));
    }
    arena.together(tasks).await;
}

pub(crate) async fn permits_are_taken_all_or_none(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, NO_PERMITS);
    let (one, two) = (semaphore(arena, 5).await, semaphore(arena, 5).await);
    let three = one.acquire_many(3).await.unwrap();
    assert!(two.try_acquire_many(3).await.unwrap().is_none());
    let more = two.try_acquire_many(2).await.unwrap().expect("two are left");
    assert!(one.try_acquire().await.unwrap().is_none(), "none is left");
    let mut all = Box::pin(two.acquire_many(5));
    arena.not_now("too many are out", &mut all).await;
    three.release().await.unwrap();
    arena.not_now("too many are out", &mut all).await;
    more.release().await.unwrap();
    let all = arena.soon("all permits are free", all).await.unwrap();
    assert!(one.try_acquire().await.unwrap().is_none(), "none is left");
    all.release().await.unwrap();
}

pub(crate) async fn a_request_for_many_permits_is_not_overtaken(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, NO_PERMITS);
    needs!(arena, arena.profile().await.fair, "waiters stand in no order here");
    let (one, two) = (semaphore(arena, 3).await, semaphore(arena, 3).await);
    let first = one.acquire_many(2).await.unwrap();
    let mut many = Box::pin(two.acquire_many(3));
    arena.stands_in_line("k", 2, &mut many).await;
    assert!(one.try_acquire().await.unwrap().is_none(), "another caller waits for it");
    let mut few = Box::pin(one.acquire());
    arena.stands_in_line("k", 3, &mut few).await;
    first.release().await.unwrap();
    let many = arena.soon("the permits come together", many).await.unwrap();
    arena.not_now("too many are out", &mut few).await;
    many.release().await.unwrap();
    drop(arena.soon("then it is the turn of the others", few).await.unwrap());
}

pub(crate) async fn the_permits_of_the_dead_come_back(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, NO_PERMITS);
    let dead = arena.client().await;
    let ticket = arena.brief("k", tenure_core::Share::new(4, 5).expect("4 of 5 is a share"));
    let joined = tenure_core::Engine::join(&dead, &ticket, tenure_core::WaitMode::NoWait).await;
    assert!(joined.unwrap().is_some());
    drop(dead);
    let semaphore = semaphore(arena, 5).await;
    let all = arena.soon("their permits come back", semaphore.acquire_many(5)).await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "and no more than there were");
    all.release().await.unwrap();
}

pub(crate) async fn the_release_of_a_lost_permit_adds_none(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, NO_PERMITS);
    let (locks, operator) = (arena.locks().await, arena.locks().await);
    let guard = locks.semaphore("k", 2).acquire().await.unwrap();
    operator.force_unlock("k", guard.id()).await.unwrap();
    assert_eq!(refused(guard.release().await), ErrorKind::Lost);
    let semaphore = operator.semaphore("k", 2);
    let both = [semaphore.try_acquire().await.unwrap(), semaphore.try_acquire().await.unwrap()];
    assert!(both.iter().all(Option::is_some));
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "there are two, not three");
}

pub(crate) async fn permits_that_cannot_be_are_refused(arena: &Arena) {
    let locks = arena.locks().await;
    for (permits, count) in [(0, 0), (0, 1), (5, 0), (5, 6), (PERMITS_MAX + 1, 1)] {
        let semaphore = locks.semaphore("k", permits);
        assert_eq!(refused(semaphore.acquire_many(count).await), ErrorKind::Invalid);
        assert_eq!(refused(semaphore.try_acquire_many(count).await), ErrorKind::Invalid);
    }
    assert!(locks.line("k").await.unwrap().is_empty());
}

pub(crate) async fn no_two_holders_have_a_permit_of_the_same_number(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, NO_PERMITS);
    needs!(arena, arena.keeps_values().await, "it keeps no values");
    let held = Arc::new(Mutex::new(std::collections::HashSet::new()));
    let mut tasks: Vec<BoxFuture<()>> = Vec::new();
    for task in 0..12_u32 {
        let (locks, held) = (arena.locks().await, held.clone());
        tasks.push(Box::pin(async move {
            let semaphore = locks.semaphore("k", 9);
            for round in 0..5 {
                let permit = semaphore.acquire_many(1 + (task + round) % 2).await.unwrap();
                let numbers = permit.numbers().await.unwrap();
                assert_eq!(numbers.len() as u64, u64::from(permit.share().take()));
                assert_eq!(permit.numbers().await.unwrap(), numbers, "they stay the same");
                for number in &numbers {
                    assert!((1..=9).contains(number), "{number}");
                    assert!(held.lock().unwrap().insert(*number), "{number} is given twice");
                }
                for number in &numbers {
                    held.lock().unwrap().remove(number);
                }
                if round % 2 == 0 {
                    permit.return_numbers().await.unwrap();
                }
                permit.release().await.unwrap();
            }
        }));
    }
    arena.together(tasks).await;
}

pub(crate) async fn a_permit_that_is_gone_has_no_number(arena: &Arena) {
    needs!(arena, arena.keeps_permits().await, NO_PERMITS);
    needs!(arena, arena.keeps_values().await, "it keeps no values");
    let (locks, operator) = (arena.locks().await, arena.locks().await);
    let semaphore = locks.semaphore("k", 4);
    let (early, late) = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    assert_eq!(early.numbers().await.unwrap(), [1]);
    for permit in [&early, &late] {
        operator.force_unlock("k", permit.id()).await.unwrap();
        assert_eq!(refused(permit.numbers().await), ErrorKind::Lost);
    }
    assert_eq!(operator.semaphore("k", 4).acquire().await.unwrap().numbers().await.unwrap(), [1]);
}
