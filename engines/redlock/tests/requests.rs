//! A quorum of stores, verb by verb: what each of them is asked, and how many answers are waited
//! for.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_core::blocking::block_on;
use tenure_core::layers::{AnyEngine, Layer, Operation};
use tenure_core::{
    BackgroundRuntime, BoxFuture, Clock, Engine as _, Error, Key, LeaveMode, LeaveOutcome, Memory,
    Note, Result, Runtime, Share, SystemClock, Ticket, TicketId, TicketState, Time, WaitMode, Wake,
};
use tenure_redlock::Quorum;

const STORES: usize = 3;

/// A clock that stands still: a store whose numbers come from it gives the same on a busy machine.
struct Stopped(Time);

impl Clock for Stopped {
    fn now(&self) -> Time {
        self.0
    }

    fn wall_us(&self) -> u64 {
        self.0.boot_ns / 1000
    }
}

/// A store that records requests. It can answer late or not at all.
struct Spied {
    memory: Memory,
    /// The ids and floors of the tickets that joined.
    joins: Mutex<Vec<(TicketId, u64)>>,
    renewals: AtomicUsize,
    leaves: AtomicUsize,
    is_late: AtomicBool,
    is_away: AtomicBool,
}

impl Spied {
    /// A store with a clock that is `hours` ahead.
    fn ahead(hours: u64) -> Arc<Self> {
        let now = SystemClock.now().plus(Duration::from_secs(3600 * hours));
        let (joins, renewals, leaves, is_late, is_away) = Default::default();
        let memory = Memory::with_clock(Stopped(now));
        Arc::new(Self { memory, joins, renewals, leaves, is_late, is_away })
    }

    fn joined(&self) -> Vec<(TicketId, u64)> {
        self.joins.lock().unwrap().clone()
    }
}

/// The delay of late answers.
const LATE: Duration = Duration::from_millis(20);

struct Spy(Arc<Spied>, Arc<dyn Runtime>);

impl Layer for Spy {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0.memory
    }

    async fn intercept<T: Send>(
        &self,
        question: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if self.0.is_away.load(Ordering::SeqCst) {
            return Err(Error::unavailable("no answer"));
        }
        if self.0.is_late.load(Ordering::SeqCst) {
            self.1.sleep(LATE).await;
        }
        let answer = ask.await;
        match question {
            Operation::Join(ticket) => {
                self.0.joins.lock().unwrap().push((ticket.id, ticket.floor));
            }
            Operation::Renew(_) => drop(self.0.renewals.fetch_add(1, Ordering::SeqCst)),
            Operation::Leave(..) => drop(self.0.leaves.fetch_add(1, Ordering::SeqCst)),
            _ => {}
        }
        answer
    }
}

/// A quorum of such stores, with a wait queue in each.
struct Stage {
    quorum: Quorum,
    stores: Vec<Arc<Spied>>,
    lines: Vec<Arc<Spied>>,
}

impl Stage {
    fn new() -> Self {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_timers());
        let spied = || (0..STORES as u64).map(Spied::ahead).collect::<Vec<_>>();
        let engines = |spied: &[Arc<Spied>]| {
            let all = spied.iter().map(|store| Spy(store.clone(), host.clone()));
            all.map(AnyEngine::new).collect::<Vec<_>>()
        };
        let (stores, lines) = (spied(), spied());
        let quorum = Quorum::new(engines(&stores), host.clone(), Duration::from_secs(60)).unwrap();
        let quorum = quorum.with_wait_queues(engines(&lines));
        Self { quorum, stores, lines }
    }

    fn hold(&self) -> Ticket {
        let ticket = ticket();
        let place = block_on(self.quorum.join(&ticket, WaitMode::NoWait)).unwrap().unwrap();
        assert_eq!(place.state, TicketState::Holding);
        ticket
    }

    fn leave(&self, ticket: &Ticket) {
        assert_eq!(
            block_on(self.quorum.leave(ticket, LeaveMode::Now)).unwrap(),
            LeaveOutcome::Holding
        );
    }

    /// Nothing is under way any more.
    fn settle(&self) {
        block_on(self.quorum.close());
    }

    /// The seats that the holder has in the first of the stores.
    fn seats(&self, count: usize) -> Vec<(&Memory, Ticket)> {
        let stores = self.stores.iter().take(count).map(|store| &store.memory);
        stores.map(|store| (store, block_on(store.line(&key())).unwrap().remove(0).0)).collect()
    }
}

fn sum(spied: &[Arc<Spied>], of: fn(&Spied) -> &AtomicUsize) -> usize {
    spied.iter().map(|store| of(store).load(Ordering::SeqCst)).sum()
}

fn renewals(spied: &[Arc<Spied>]) -> usize {
    sum(spied, |store| &store.renewals)
}

fn key() -> Key {
    Key::new("k").unwrap()
}

fn ticket() -> Ticket {
    Ticket::new(key(), Share::WHOLE)
}

#[test]
fn a_lock_that_is_free_and_a_release_ask_every_store_once() {
    let stage = Stage::new();
    // The first one learns how far the stores' numbers are ahead.
    let first = stage.hold();
    stage.leave(&first);
    let renewed = renewals(&stage.stores);
    let (second, third) = (stage.hold(), ticket());
    assert!(block_on(stage.quorum.join(&third, WaitMode::NoWait)).unwrap().is_none());
    stage.leave(&second);
    stage.settle();
    assert_eq!(renewals(&stage.stores), renewed, "no number was written back");
    let places: Vec<_> = stage.lines.iter().flat_map(|line| line.joined()).collect();
    let whole: Vec<_> = places.iter().map(|(id, _)| id.whole()).collect();
    assert_eq!(whole, [first.id, second.id, third.id], "one request to one queue for each");
    assert_eq!(sum(&stage.lines, |line| &line.leaves), 2);
    for store in &stage.stores {
        let joined = store.joined();
        let [(one, low), (two, high), (busy, _)] = joined[..] else { panic!("{joined:?}") };
        assert!(low < high, "the second number was proposed");
        assert_eq!([one, two, busy].map(TicketId::whole), [first.id, second.id, third.id]);
        assert_eq!(store.leaves.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn every_try_has_an_id_of_its_own() {
    let stage = Stage::new();
    stage.lines.iter().for_each(|line| line.is_away.store(true, Ordering::SeqCst));
    let (_holder, waiter) = (stage.hold(), ticket());
    for _ in 0..2 {
        assert!(block_on(stage.quorum.join(&waiter, WaitMode::NoWait)).unwrap().is_none());
    }
    let tries: Vec<_> = stage.stores[0].joined().into_iter().skip(1).map(|(id, _)| id).collect();
    assert_eq!(tries.len(), 2);
    assert_ne!(tries[0], tries[1], "the end of one must not be taken for the other's");
    assert!(tries.iter().all(|id| id.whole() == waiter.id));
}

#[test]
fn a_client_that_saw_waiters_asks_their_queue_before_it_tries() {
    let stage = Stage::new();
    let (holder, waiter) = (stage.hold(), ticket());
    for _ in 0..3 {
        assert!(block_on(stage.quorum.join(&waiter, WaitMode::NoWait)).unwrap().is_none());
    }
    let tries = |stage: &Stage| stage.stores[0].joined().len();
    assert_eq!(tries(&stage), 2, "the holder's, and one");
    stage.leave(&holder);
    assert!(block_on(stage.quorum.join(&waiter, WaitMode::NoWait)).unwrap().is_some());
    assert_eq!(tries(&stage), 3);
}

#[test]
fn a_ticket_that_may_not_wait_does_not_wait_when_its_join_is_sent_again() {
    for is_free in [true, false] {
        let (stage, asked) = (Stage::new(), ticket());
        let are_away = |away| {
            stage.stores[..2].iter().for_each(|store| store.is_away.store(away, Ordering::SeqCst));
        };
        let join = || block_on(stage.quorum.join(&asked, WaitMode::NoWait));
        are_away(true);
        assert!(join().unwrap_err().is_retryable());
        are_away(false);
        if !is_free {
            for store in &stage.stores {
                block_on(store.memory.join(&ticket(), WaitMode::NoWait)).unwrap().unwrap();
            }
        }
        let answer = join().unwrap().map(|place| place.state);
        assert_eq!(answer, is_free.then_some(TicketState::Holding));
        let places: usize =
            stage.lines.iter().map(|line| block_on(line.memory.line(&key())).unwrap().len()).sum();
        assert_eq!(places, usize::from(is_free), "it stands in the queue only if it holds");
    }
}

#[test]
fn nobody_waits_for_more_answers_than_decide() {
    let stage = Stage::new();
    stage.stores[2].is_late.store(true, Ordering::SeqCst);
    let (holder, other) = (ticket(), ticket());
    let join = |ticket: &Ticket| stage.quorum.join(ticket, WaitMode::NoWait).now_or_never();
    assert!(join(&holder).expect("two are in").unwrap().is_some());
    assert!(join(&other).expect("two are busy").unwrap().is_none());
    let renewed = stage.quorum.renew(&holder).now_or_never().expect("two keep it");
    assert!(renewed.unwrap().is_some());
    let left = stage.quorum.leave(&holder, LeaveMode::Now).now_or_never().expect("two let it go");
    assert_eq!(left.unwrap(), LeaveOutcome::Holding);
}

#[test]
fn what_a_slow_store_is_asked_is_carried_on_when_the_others_have_decided() {
    let stage = Stage::new();
    let holder = stage.hold();
    stage.stores[2].is_late.store(true, Ordering::SeqCst);
    let before = stage.stores[2].renewals.load(Ordering::SeqCst);
    for _ in 0..3 {
        assert!(block_on(stage.quorum.renew(&holder)).unwrap().is_some());
    }
    stage.settle();
    assert_eq!(stage.stores[2].renewals.load(Ordering::SeqCst), before + 3);
}

#[test]
fn a_waiter_that_a_push_has_woken_tries_without_asking_its_queue() {
    let stage = Stage::new();
    let (holder, [first, second]) = (stage.hold(), [ticket(), ticket()]);
    for waiter in [&first, &second] {
        let place = block_on(stage.quorum.join(waiter, WaitMode::Wait)).unwrap().unwrap();
        assert_eq!(place.state, TicketState::Waiting);
    }
    let lines = stage.lines.iter().flat_map(|line| line.joined()).collect::<Vec<_>>();
    let whole: Vec<_> = lines.iter().map(|(id, _)| id.whole()).collect();
    assert_eq!(whole, [holder.id, first.id, second.id]);
    assert!(lines[1..].iter().all(|(id, floor)| *id != id.whole() && *floor > 0), "{lines:?}");

    let (tries, asked) = (stage.stores[0].joined().len(), renewals(&stage.lines));
    let renew = |ticket: &Ticket| block_on(stage.quorum.renew(ticket)).unwrap().unwrap().state;
    for (ahead, waiter) in [(&holder, &first), (&first, &second)] {
        let mut told = pin!(stage.quorum.watch(waiter, TicketState::Waiting));
        assert!(told.as_mut().now_or_never().is_none());
        stage.leave(ahead);
        assert_eq!(block_on(told).unwrap(), Wake::Look);
        assert_eq!(renew(waiter), TicketState::Holding);
    }
    assert_eq!(renewals(&stage.lines), asked);
    assert_eq!(stage.stores[0].joined().len(), tries + 2, "each tried once");
}

#[test]
fn a_holder_that_some_stores_were_told_to_let_go_is_shown_as_leaving() {
    let stage = Stage::new();
    let _holder = stage.hold();
    for (store, seat) in stage.seats(1) {
        assert_eq!(
            block_on(store.leave(&seat, LeaveMode::Graceful)).unwrap(),
            LeaveOutcome::Requested
        );
    }
    assert!(block_on(stage.quorum.line(&key())).unwrap()[0].1.leaving);
}

#[test]
fn whether_a_holder_was_told_is_unknown_where_a_store_that_counts_is_silent() {
    let stage = Stage::new();
    let holder = stage.hold();
    let (first, seat) = stage.seats(1).remove(0);
    block_on(first.leave(&seat, LeaveMode::Now)).unwrap();
    stage.stores[1].is_away.store(true, Ordering::SeqCst);
    let error = block_on(stage.quorum.leave(&holder, LeaveMode::Graceful)).unwrap_err();
    assert!(error.is_retryable(), "one of three was asked: {error}");
}

#[test]
fn the_newest_note_is_shown() {
    let stage = Stage::new();
    let _holder = stage.hold();
    for (store, seat) in stage.seats(2).into_iter().skip(1) {
        let ttl = seat.ttl * 2;
        block_on(store.renew(&Ticket { note: Note::shortened("new"), ttl, ..seat }))
            .unwrap()
            .unwrap();
    }
    assert_eq!(&*block_on(stage.quorum.line(&key())).unwrap()[0].0.note, "new");
}

#[test]
fn a_holder_hears_nothing_until_a_majority_has_something_to_tell() {
    let stage = Stage::new();
    // A second try has another id than its ticket.
    stage.leave(&stage.hold());
    let holder = stage.hold();
    let mut told = pin!(stage.quorum.watch(&holder, TicketState::Holding));
    let mut context = Context::from_waker(Waker::noop());
    assert!(told.as_mut().poll(&mut context).is_pending(), "nothing has happened");
    for (count, (store, seat)) in (1..).zip(stage.seats(2)) {
        assert_eq!(
            block_on(store.leave(&seat, LeaveMode::Graceful)).unwrap(),
            LeaveOutcome::Requested
        );
        let told = told.as_mut().poll(&mut context);
        assert_eq!(told.is_ready(), count == 2, "{count} of {STORES} report something");
        assert!(matches!(told, Poll::Pending | Poll::Ready(Ok(Wake::Look))));
    }
}

/// A host that remembers how long each sleep was to be, and does not sleep. Chance gives the
/// longest.
#[derive(Default)]
struct Awake(Mutex<Vec<Duration>>);

impl Clock for Awake {
    fn now(&self) -> Time {
        SystemClock.now()
    }

    fn wall_us(&self) -> u64 {
        SystemClock.wall_us()
    }
}

impl Runtime for Awake {
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        self.0.lock().unwrap().push(duration);
        Box::pin(async {})
    }

    fn random(&self) -> u64 {
        u64::MAX
    }

    fn spawn(&self, _task: BoxFuture<()>) {}
}

#[test]
fn the_pauses_between_tries_grow_by_half_up_to_the_stores_time() {
    let (host, patience) = (Arc::new(Awake::default()), Duration::from_millis(250));
    let stores = (0..STORES).map(|_| AnyEngine::new(Memory::new()));
    let quorum = Quorum::new(stores, host.clone(), patience).unwrap();
    let waiter = ticket();
    block_on(async {
        quorum.join(&ticket(), WaitMode::NoWait).await.unwrap().unwrap();
        let place = quorum.join(&waiter, WaitMode::Wait).await.unwrap().unwrap();
        assert_eq!(place.state, TicketState::Waiting);
        let mut planned = Duration::from_millis(5);
        for _ in 0..20 {
            host.0.lock().unwrap().clear();
            assert_eq!(quorum.watch(&waiter, TicketState::Waiting).await.unwrap(), Wake::Look);
            let paused = host.0.lock().unwrap().pop().expect("it sleeps");
            // From three quarters of it to one and a half, and chance gives the longest.
            let longest = planned.min(patience) * 3 / 2;
            assert!(longest * 9 / 10 <= paused && paused <= longest, "{paused:?} for {longest:?}");
            planned = planned * 3 / 2;
            quorum.renew(&waiter).await.unwrap().unwrap();
        }
    });
}

#[test]
fn a_quorum_has_the_name_of_its_kind() {
    let named = Stage::new().quorum.named("redlock", ["a", "b", "c"].map(String::from));
    assert_eq!(named.guarantees().name, "redlock");
}
