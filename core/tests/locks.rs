//! The public API on the memory engine, on several executors.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tenure_core::blocking::block_on;
use tenure_core::event::{EventKind, Scope};
use tenure_core::layers::OnRuntime;
use tenure_core::{
    BoxFuture, Clock, Error, ErrorKind, Locks, Loss, Memory, Result, Runtime, SystemClock, Time,
    WatchEvent,
};

#[test]
fn a_lock_is_held_until_it_is_released() {
    block_on(async {
        let locks = Locks::new(Memory::new());
        let guard = locks.mutex("invoices/42").lock().await.unwrap();
        assert!(locks.mutex("invoices/42").try_lock().await.unwrap().is_none());
        let token = guard.token();
        guard.release().await.unwrap();
        let next = locks.mutex("invoices/42").try_lock().await.unwrap().unwrap();
        assert!(next.token() > token);
    });
}

#[test]
fn a_dropped_guard_is_given_back_at_once() {
    let locks = Locks::new(Memory::new()).blocking();
    drop(locks.mutex("a").lock().unwrap());
    assert!(locks.line("a").unwrap().is_empty());
    assert!(locks.mutex("a").try_lock().unwrap().is_some());
}

#[test]
fn a_broken_holder_is_told_and_nobody_is_served_before_it_has_left() {
    block_on(async {
        let locks = Locks::new(Memory::new());
        let guard = locks.mutex("a").lock().await.unwrap();
        locks.break_ticket("a", guard.id()).await.unwrap();
        assert_eq!(guard.lost().await, Loss::Broken);
        assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
        assert!(locks.mutex("a").try_lock().await.unwrap().is_none());
        let error = guard.release().await.unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Broken));
        assert!(locks.mutex("a").try_lock().await.unwrap().is_some());
    });
}

#[test]
fn whoever_still_listens_for_the_loss_of_a_released_lock_asks_nobody_and_waits() {
    block_on(async {
        let locks = Locks::new(Memory::new());
        let guard = locks.mutex("a").lock().await.unwrap();
        let held = guard.handle();
        let mut lost = Box::pin(held.lost());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(lost.as_mut().poll(&mut context).is_pending());
        guard.release().await.unwrap();
        assert!(lost.as_mut().poll(&mut context).is_pending());
        assert!(Box::pin(held.lost()).as_mut().poll(&mut context).is_pending());
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_contenders_never_hold_together() {
    let locks = Locks::new(Memory::new());
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let mut tasks = Vec::new();
    for _ in 0..100 {
        let (locks, inside) = (locks.clone(), inside.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                let guard = locks.mutex("a").lock().await.unwrap();
                assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[test]
fn a_holder_who_blocks_every_thread_keeps_its_lock() {
    let locks = Locks::new(Memory::new()).blocking();
    let guard = locks.mutex("a").into_inner().ttl(Duration::from_millis(400));
    let guard = block_on(guard.lock()).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    guard.check().unwrap();
    block_on(guard.release()).unwrap();
}

#[test]
fn it_can_be_relied_on_for_the_rest_of_its_life() {
    let locks = Locks::new(Memory::new()).blocking();
    let ttl = Duration::from_secs(60);
    let guard = locks.mutex("a").ttl(ttl).lock().unwrap();
    let remaining = guard.remaining().unwrap();
    assert!(ttl / 2 < remaining && remaining < ttl, "{remaining:?}");
}

#[test]
fn of_several_locks_the_last_is_given_back_first_and_one_that_is_lost_is_told() {
    let locks = Locks::new(Memory::new()).blocking();
    let mut watch = locks.watch(Scope::Prefix(String::new())).unwrap();
    drop(locks.multi_lock(["a", "b"]).lock().unwrap());
    let mut left = Vec::new();
    while left.len() < 2 {
        let WatchEvent::Event(event) = watch.wait().unwrap() else { panic!("nothing was missed") };
        if event.kind == EventKind::Left {
            left.push(event.ticket.key.to_string());
        }
    }
    assert_eq!(left, ["b", "a"]);
    let both = locks.multi_lock(["a", "b"]).lock().unwrap();
    both.extend().unwrap();
    locks.force_unlock("a", both.guards()[0].id()).unwrap();
    assert_eq!(both.extend().unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(both.check().unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(both.release().unwrap_err().kind(), ErrorKind::Lost);
}

#[test]
fn what_an_onlooker_sees_is_a_stream() {
    block_on(async {
        let locks = Locks::new(Memory::new());
        let mut watch = locks.watch_prefix("").await.unwrap();
        let mut leaders = locks.election("a").observe().await.unwrap();
        assert_eq!(StreamExt::next(&mut leaders).await.unwrap().unwrap(), None);
        let seat = locks.election("a").campaign().await.unwrap();
        let WatchEvent::Event(event) = StreamExt::next(&mut watch).await.unwrap().unwrap() else {
            panic!("nothing was missed")
        };
        assert_eq!((event.kind, event.number), (EventKind::Joined, seat.token().get()));
        let leader = StreamExt::next(&mut leaders).await.unwrap().unwrap();
        assert_eq!(leader.map(|leader| leader.term), Some(seat.token().get()));
    });
}

/// A host on a machine that has no thread to spare.
struct Full;

impl Clock for Full {
    fn now(&self) -> Time {
        SystemClock.now()
    }

    fn wall_us(&self) -> u64 {
        SystemClock.wall_us()
    }
}

impl Runtime for Full {
    fn ready(&self) -> Result<()> {
        Err(Error::rejected("no thread"))
    }

    fn sleep(&self, _duration: Duration) -> BoxFuture<()> {
        unreachable!("it was asked whether it is ready")
    }

    fn random(&self) -> u64 {
        0
    }

    fn spawn(&self, _task: BoxFuture<()>) {
        unreachable!("it was asked whether it is ready")
    }
}

#[test]
fn nothing_is_taken_where_nothing_could_renew_it() {
    block_on(async {
        let locks = Locks::on(Memory::new(), Arc::new(Full));
        let errors = [
            locks.mutex("a").lock().await.unwrap_err(),
            locks.mutex("a").try_lock().await.unwrap_err(),
            locks.mutex("a").try_lock_for(Duration::from_secs(1)).await.unwrap_err(),
            locks.watch_prefix("a").await.unwrap_err(),
            locks.election("a").observe().await.err().unwrap(),
            OnRuntime::make(Arc::new(Full), async { Ok(Memory::new()) }).await.err().unwrap(),
        ];
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::Rejected), "{errors:?}");
        assert_eq!(locks.line("a").await.unwrap(), []);
    });
}
