//! All public types are `Send`, `Sync` and `Unpin`.

use std::time::Duration;

use tenure_core::blocking::{Blocking, block_on};
use tenure_core::event::{Cursor, Event, EventBatch, EventKind, Scope};
use tenure_core::layers::{AnyEngine, OnRuntime, Retry};
use tenure_core::toolbox::Releaser;
use tenure_core::wake::{Subscription, WakeRegistry};
use tenure_core::{
    BackgroundRuntime, Block, BoxFuture, Counter, CounterValue, Election, Error, ErrorKind,
    EventDelivery, Expiry, FaultTolerance, Guarantee, Guarantees, Key, Leader, Leaders,
    LeaseHandle, LeaveMode, LeaveOutcome, Line, Liveness, Locks, Loss, Memory, MultiGuard,
    MultiLock, Mutex, MutexGuard, Place, RwLock, Sampler, Semaphore, Sequence, Share, SystemClock,
    ThisRuntime, Ticket, TicketId, TicketState, Time, TokenDurability, WaitMode, Wake, Warning,
    Watch, WatchEvent, Window, WriteGuard,
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
        Locks, Mutex, RwLock, Semaphore, MultiLock, Election, Sequence, Counter,
        MutexGuard, WriteGuard, MultiGuard, LeaseHandle, Warning, Loss, Watch, WatchEvent, Leaders, Leader,
        Block, CounterValue, Error, ErrorKind, Key, TicketId, Ticket, Share, Place, TicketState, LeaveOutcome,
        Event, EventKind, Guarantees, FaultTolerance, Liveness, TokenDurability, EventDelivery, Guarantee,
    }
}

#[test]
fn what_blocks_is_send_sync_and_unpin() {
    every_one_is_send_sync_and_unpin! {
        Blocking<Locks>, Blocking<Mutex>, Blocking<RwLock>, Blocking<Semaphore>, Blocking<MultiLock>,
        Blocking<Election>, Blocking<Sequence>, Blocking<Counter>, Blocking<MutexGuard>,
        Blocking<WriteGuard>, Blocking<MultiGuard>, Blocking<LeaseHandle>, Blocking<Watch>, Blocking<Leaders>,
    }
}

#[test]
fn what_engines_are_made_of_is_send_sync_and_unpin() {
    every_one_is_send_sync_and_unpin! {
        Memory, AnyEngine, OnRuntime<Memory>, Retry<Memory>, Releaser,
        BackgroundRuntime, ThisRuntime, SystemClock, Time, Line, Expiry, Sampler, WakeRegistry, Subscription<'_>,
        Cursor, EventBatch, Scope, LeaveMode, WaitMode, Wake, Window,
    }
    is_send_and_unpin::<BoxFuture<()>>();
}

/// A future that owns what it needs outlives the primitive it came from.
#[test]
fn the_futures_of_every_primitive_can_be_sent_away() {
    let locks = Locks::new(Memory::new());
    let soon = Duration::from_millis(1);
    let (mutex, rwlock, semaphore) = (locks.mutex("a"), locks.rwlock("b"), locks.semaphore("c", 3));
    is_send_and_static(&(mutex.lock(), mutex.try_lock(), mutex.try_lock_for(soon)));
    is_send_and_static(&(rwlock.read(), rwlock.try_read(), rwlock.try_read_for(soon)));
    is_send_and_static(&(rwlock.write(), rwlock.try_write(), rwlock.try_write_for(soon)));
    is_send_and_static(&(semaphore.acquire(), semaphore.try_acquire()));
    is_send_and_static(&(semaphore.acquire_many(2), semaphore.try_acquire_many(2)));
    is_send_and_static(&(semaphore.try_acquire_for(soon), semaphore.try_acquire_many_for(2, soon)));
    let (all, election) = (locks.multi_lock(["d", "e"]), locks.election("f"));
    is_send_and_static(&(all.lock(), all.try_lock(), all.try_lock_for(soon)));
    is_send_and_static(&(election.campaign(), election.try_campaign()));
    is_send_and_static(&(election.try_campaign_for(soon), election.leader(), election.observe()));
    is_send_and_static(&election.run(|_, _| async {}));
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
        let all = locks.multi_lock(["b", "c"]).lock().await.unwrap();
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
    drop(tokio::spawn(locks.multi_lock(["d", "e"]).lock()).await.unwrap().unwrap());
    drop(tokio::spawn(locks.election("f").campaign()).await.unwrap().unwrap());
    let work = locks.election("f").run(|token, _| async move { token });
    assert!(tokio::spawn(work).await.unwrap().unwrap().get() > 0);
    assert_eq!(tokio::spawn(locks.election("f").leader()).await.unwrap().unwrap(), None);
    drop(tokio::spawn(locks.election("f").observe()).await.unwrap().unwrap());
    assert_eq!(tokio::spawn(locks.sequence("g").next()).await.unwrap().unwrap(), 1);
    assert_eq!(tokio::spawn(locks.counter("h").add(2)).await.unwrap().unwrap().value, 2);
}

#[test]
fn several_locks_end_as_one() {
    block_on(async {
        let locks = Locks::new(Memory::new());
        let both = locks.multi_lock(["a", "b"]).lock().await.unwrap();
        let ended = both.ended();
        both.release().await.unwrap();
        assert_eq!(ended.await, None, "they were released");
        let both = locks.multi_lock(["a", "b"]).lock().await.unwrap();
        let ended = both.ended();
        locks.break_ticket("b", both.guards()[1].id()).await.unwrap();
        assert_eq!(ended.await, Some(Loss::Broken));
    });
}
