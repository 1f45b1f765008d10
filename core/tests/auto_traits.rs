//! What may be sent to another thread, shared between threads and moved after it was polled: everything.

use std::time::Duration;

use tenure_core::bell::{Bell, Bells};
use tenure_core::blocking::{Blocking, block_on};
use tenure_core::event::{Cursor, Event, News, Scope, What};
use tenure_core::wrap::{Answered, AnyEngine, Board, Hosted, Quorum, Retry};
use tenure_core::{
    All, AllGuard, Block, Boxed, Cost, Counter, Election, Error, Fencing, Guard, Held, Key, Kind,
    Leader, Leaders, Leave, Left, Line, Liveness, Lives, Locks, Loss, Memory, Mutex, Need,
    Patience, Place, PrivateThread, Profile, RwLock, Sampler, Seen, Semaphore, Sequence, Share,
    Sight, Standing, Survives, SystemClock, Tally, ThisRuntime, Ticket, TicketId, Time, Wake,
    Warning, Watch, Window, WriteGuard,
};

fn is_send_sync_and_unpin<T: Send + Sync + Unpin>() {}

fn is_send_and_unpin<T: Send + Unpin>() {}

fn is_send_and_static<T: Send + 'static>(_: &T) {}

/// One line for each public type; a type that loses a trait ends the build here.
macro_rules! every_one_is_send_sync_and_unpin {
    ($($type:ty),* $(,)?) => { $(is_send_sync_and_unpin::<$type>();)* };
}

#[test]
fn what_users_hold_is_send_sync_and_unpin() {
    every_one_is_send_sync_and_unpin! {
        Locks, Mutex, RwLock, Semaphore, All, Election, Sequence, Counter,
        Guard, WriteGuard, AllGuard, Held, Warning, Loss, Watch, Seen, Leaders, Leader,
        Block, Tally, Error, Kind, Key, TicketId, Ticket, Share, Place, Standing, Left,
        Event, What, Profile, Survives, Liveness, Fencing, Sight, Need,
    }
}

#[test]
fn what_blocks_is_send_sync_and_unpin() {
    every_one_is_send_sync_and_unpin! {
        Blocking<Locks>, Blocking<Mutex>, Blocking<RwLock>, Blocking<Semaphore>, Blocking<All>,
        Blocking<Election>, Blocking<Sequence>, Blocking<Counter>, Blocking<Guard>,
        Blocking<WriteGuard>, Blocking<AllGuard>, Blocking<Held>, Blocking<Watch>, Blocking<Leaders>,
    }
}

#[test]
fn what_engines_are_made_of_is_send_sync_and_unpin() {
    every_one_is_send_sync_and_unpin! {
        Memory, AnyEngine, Hosted<Memory>, Retry<Memory>, Quorum, Board, Answered,
        PrivateThread, ThisRuntime, SystemClock, Time, Line, Lives, Sampler, Cost, Bells, Bell<'_>,
        Cursor, News, Scope, Leave, Patience, Wake, Window,
    }
    is_send_and_unpin::<Boxed<()>>();
}

/// A future that owns what it needs outlives the primitive it came from.
#[test]
fn the_futures_of_every_primitive_can_be_sent_away() {
    let locks = Locks::new(Memory::new());
    let soon = Duration::from_millis(1);
    let (mutex, rwlock, semaphore) = (locks.mutex("a"), locks.rwlock("b"), locks.semaphore("c", 3));
    is_send_and_static(&(mutex.lock(), mutex.try_lock(), mutex.lock_within(soon)));
    is_send_and_static(&(rwlock.read(), rwlock.try_read(), rwlock.read_within(soon)));
    is_send_and_static(&(rwlock.write(), rwlock.try_write(), rwlock.write_within(soon)));
    is_send_and_static(&(semaphore.acquire(), semaphore.try_acquire()));
    is_send_and_static(&(semaphore.acquire_many(2), semaphore.try_acquire_many(2)));
    is_send_and_static(&(semaphore.acquire_within(soon), semaphore.acquire_many_within(2, soon)));
    let (all, election) = (locks.all(["d", "e"]), locks.election("f"));
    is_send_and_static(&(all.lock(), all.try_lock(), all.lock_within(soon)));
    is_send_and_static(&(election.campaign(), election.try_campaign()));
    is_send_and_static(&(election.campaign_within(soon), election.leader(), election.observe()));
    is_send_and_static(&election.run(|_term| async {}));
    let (sequence, counter) = (locks.sequence("g"), locks.counter("h"));
    is_send_and_static(&(sequence.next(), sequence.next_block(3), sequence.last()));
    is_send_and_static(&(counter.add(1), counter.get()));
}

#[test]
fn the_futures_that_tell_of_an_end_can_be_sent_away() {
    block_on(async {
        let locks = Locks::new(Memory::new());
        let guard = locks.mutex("a").lock().await.unwrap();
        is_send_and_static(&(guard.lost(), guard.ended(), guard.warned()));
        let all = locks.all(["b", "c"]).lock().await.unwrap();
        is_send_and_static(&(all.lost(), all.ended()));
    });
}

#[tokio::test]
async fn every_primitive_can_be_spawned_as_it_is_written() {
    let locks = Locks::new(Memory::new());
    drop(tokio::spawn(locks.mutex("a").lock()).await.unwrap().unwrap());
    drop(tokio::spawn(locks.rwlock("b").read()).await.unwrap().unwrap());
    drop(tokio::spawn(locks.rwlock("b").write()).await.unwrap().unwrap());
    drop(tokio::spawn(locks.semaphore("c", 3).acquire()).await.unwrap().unwrap());
    drop(tokio::spawn(locks.all(["d", "e"]).lock()).await.unwrap().unwrap());
    drop(tokio::spawn(locks.election("f").campaign()).await.unwrap().unwrap());
    let work = locks.election("f").run(|term| async move { term.token() });
    assert!(tokio::spawn(work).await.unwrap().unwrap() > 0);
    assert_eq!(tokio::spawn(locks.election("f").leader()).await.unwrap().unwrap(), None);
    drop(tokio::spawn(locks.election("f").observe()).await.unwrap().unwrap());
    assert_eq!(tokio::spawn(locks.sequence("g").next()).await.unwrap().unwrap(), 1);
    assert_eq!(tokio::spawn(locks.counter("h").add(2)).await.unwrap().unwrap().value, 2);
}

#[test]
fn several_locks_end_as_one() {
    block_on(async {
        let locks = Locks::new(Memory::new());
        let both = locks.all(["a", "b"]).lock().await.unwrap();
        let ended = both.ended();
        both.release().await.unwrap();
        assert_eq!(ended.await, None, "they were released");
        let both = locks.all(["a", "b"]).lock().await.unwrap();
        let ended = both.ended();
        locks.break_ticket("b", both.guards()[1].id()).await.unwrap();
        assert_eq!(ended.await, Some(Loss::Broken));
    });
}
