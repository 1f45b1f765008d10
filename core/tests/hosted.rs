//! A hosted engine: what of its verbs is done on its host, and what becomes of those whose callers
//! have gone.

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_core::blocking::block_on;
use tenure_core::layers::{Layer, OnRuntime, Retries};
use tenure_core::{
    BackgroundRuntime, BoxFuture, Clock, CounterValue, Engine, Error, ErrorKind, Key, LeaveMode,
    LeaveOutcome, Locks, Memory, Result, Runtime, Share, Ticket, TicketState, Time, WaitMode, Wake,
    Window,
};

/// A host that does nothing, as one that has no time: it counts what it is to do.
struct Idle(BackgroundRuntime, Mutex<Vec<BoxFuture<()>>>);

impl Idle {
    /// Does what it was given, once; the verb is answered then.
    fn carry_out<T>(&self, verb: impl Future<Output = T>) -> T {
        let mut verb = pin!(verb);
        assert!(verb.as_mut().now_or_never().is_none(), "nobody answers yet");
        for task in std::mem::take(&mut *self.1.lock().unwrap()) {
            block_on(task);
        }
        verb.now_or_never().expect("it is answered")
    }
}

impl Clock for Idle {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn wall_us(&self) -> u64 {
        self.0.wall_us()
    }
}

impl Runtime for Idle {
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        self.0.sleep(duration)
    }

    fn random(&self) -> u64 {
        self.0.random()
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.1.lock().unwrap().push(task);
    }
}

#[test]
fn a_host_that_has_no_time_is_not_given_ever_more_to_do() {
    let idle = Arc::new(Idle(BackgroundRuntime::for_timers(), Mutex::default()));
    let hosted = OnRuntime::of(idle.clone(), Memory::new());
    let key = Key::new("a").unwrap();
    for _ in 0..10_000 {
        assert!(hosted.line(&key).now_or_never().is_none(), "nobody answers, and the caller goes");
    }
    let given = idle.1.lock().unwrap().len();
    assert!(given <= 512, "{given} verbs wait for a host that does nothing");
}

/// A store that counts who leaves.
struct Counted {
    leaves: AtomicU32,
    memory: Memory,
}

impl Layer for Counted {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        self.leaves.fetch_add(1, Ordering::Relaxed);
        self.memory.leave(ticket, how).await
    }
}

/// A counter that never answers.
struct StuckCounter(Memory);

impl Layer for StuckCounter {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    async fn add(&self, _: &Key, _: u64, _: Option<Window>) -> Result<CounterValue> {
        pending().await
    }
}

#[test]
fn renewals_and_leaves_do_not_wait_behind_a_thousand_operations_that_hang() {
    let hosted = OnRuntime::of(host(), StuckCounter(Memory::new()));
    let ticket = Ticket::new(Key::new("a").unwrap(), Share::WHOLE);
    block_on(async {
        hosted.join(&ticket, WaitMode::Wait).await.unwrap().unwrap();
        let mut adds: Vec<_> =
            (0..1_000).map(|_| Box::pin(hosted.add(&ticket.key, 1, None))).collect();
        for add in &mut adds {
            assert!(add.now_or_never().is_none());
        }
        hosted.renew(&ticket).await.unwrap().expect("it holds");
        assert_eq!(hosted.leave(&ticket, LeaveMode::Now).await.unwrap(), LeaveOutcome::Holding);
        drop(adds);
    });
}

#[test]
fn a_verb_goes_no_further_when_its_caller_has_gone() {
    let idle = Arc::new(Idle(BackgroundRuntime::for_timers(), Mutex::default()));
    let hosted = OnRuntime::of(idle.clone(), Memory::new());
    let key = Key::new("a").unwrap();
    let ticket = Ticket::new(key.clone(), Share::WHOLE);
    assert!(hosted.join(&ticket, WaitMode::Wait).now_or_never().is_none(), "nobody answers yet");
    for task in std::mem::take(&mut *idle.1.lock().unwrap()) {
        block_on(task);
    }
    assert_eq!(block_on(hosted.inner().line(&key)).unwrap(), [], "nobody waits for it any more");
}

/// Such a ticket never enters the line, so it need not be removed until its ttl is over.
#[test]
fn a_join_that_never_began_is_settled_by_one_leave() {
    let idle = Arc::new(Idle(BackgroundRuntime::for_timers(), Mutex::default()));
    let counted = Counted { leaves: AtomicU32::new(0), memory: Memory::new() };
    let hosted = OnRuntime::of(idle.clone(), counted);
    let ticket = Ticket::new(Key::new("a").unwrap(), Share::WHOLE);
    let join = || hosted.join(&ticket, WaitMode::Wait);
    let leave = || idle.carry_out(hosted.leave(&ticket, LeaveMode::Now)).unwrap();

    assert!(join().now_or_never().is_none(), "nobody answers yet, and the caller goes");
    assert_eq!(leave(), LeaveOutcome::Waiting);
    assert_eq!(leave(), LeaveOutcome::Absent, "that was said once");
    assert_eq!(hosted.inner().leaves.load(Ordering::Relaxed), 2);

    idle.carry_out(join()).unwrap().expect("it waits");
    assert!(join().now_or_never().is_none());
    assert_eq!(leave(), LeaveOutcome::Holding, "it came in with the join before");
}

#[test]
fn a_verb_that_waits_may_go_to_the_host_where_the_others_do_not() {
    let idle = Arc::new(Idle(BackgroundRuntime::for_timers(), Mutex::default()));
    let hosted =
        OnRuntime::of(idle.clone(), Memory::new()).in_place_where(|_| true, 1).waits_on_host();
    let ticket = Ticket::new(Key::new("a").unwrap(), Share::WHOLE);
    let place = hosted.join(&ticket, WaitMode::Wait).now_or_never().unwrap().unwrap().unwrap();
    assert_eq!(place.state, TicketState::Holding, "in place");
    let wake = idle.carry_out(hosted.watch(&ticket, TicketState::Waiting)).unwrap();
    assert_eq!(wake, Wake::Served(place.number), "on the host");
}

#[test]
fn a_hosted_engine_answers_on_any_executor_and_outlives_a_dropped_question() {
    let locks = block_on(Locks::hosted(async { Ok(Memory::new()) })).unwrap().blocking();
    assert!(!locks.guarantees().quick);
    let guard = locks.mutex("a").lock().unwrap();
    assert!(locks.mutex("a").try_lock_for(Duration::from_millis(500)).unwrap().is_none());
    locks.flush();
    assert_eq!(locks.line("a").unwrap().len(), 1, "who gave up has left");
    drop(guard);
    locks.flush();
    assert!(locks.line("a").unwrap().is_empty());
}

#[test]
fn a_guard_outlives_the_runtime_it_was_made_on() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let locks = runtime.block_on(Locks::hosted(async { Ok(Memory::new()) })).unwrap();
    let guard = runtime.block_on(locks.mutex("a").lock()).unwrap();
    drop(runtime);
    guard.check().unwrap();
    drop(guard);
    let locks = locks.blocking();
    locks.flush();
    assert!(locks.line("a").unwrap().is_empty());
}

#[test]
fn making_and_hosting_an_engine_passes_its_error_on() {
    let failed = block_on(OnRuntime::<Memory>::make(host(), async { Err(Error::rejected("no")) }));
    assert_eq!(failed.err().unwrap().kind(), ErrorKind::Rejected);
}

fn host() -> Arc<dyn Runtime> {
    Arc::new(BackgroundRuntime::for_timers())
}

/// A store that counts how often it is let go of.
struct Closed(Memory, Arc<AtomicU32>);

impl Layer for Closed {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    async fn close(&self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_store_is_let_go_of_through_all_that_is_around_it() {
    let (host, closed) = (host(), Arc::new(AtomicU32::new(0)));
    let store = OnRuntime::of(host.clone(), Closed(Memory::new(), closed.clone()));
    let locks = Locks::with_retries(store, host, Retries::times(1));
    let guard = block_on(locks.mutex("a").lock()).unwrap();
    assert_eq!(block_on(locks.keys("")).unwrap(), [Key::new("a").unwrap()]);
    block_on(guard.release()).unwrap();
    block_on(locks.close());
    assert_eq!(closed.load(Ordering::SeqCst), 1);
}
