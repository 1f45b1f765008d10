//! The cancel sweep: every public future is dropped after zero, one, two, … polls, and leaves
//! nothing behind.
//!
//! The engine is slow: each method waits before it runs and again before it returns, so that the
//! future can be dropped at every await of the holder.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use futures_util::future::maybe_done;
use tenure_core::{
    Engine as _, LeaveMode, Liveness, Locks, MultiGuard, MutexGuard, Result, WaitMode, WriteGuard,
};

use super::acts::{Acts as _, MUTEX};
use crate::Arena;
use crate::fault::{Paced, pause};

/// Maximum polls. A future that needs more waits for an event that does not come, or for a store on
/// a busy machine: in real time a poll is a millisecond.
const POLLS_MAX: u32 = 60;
/// Polls of a future that waits for another holder.
const POLLS_OF_A_WAITER: u32 = 12;
/// Tickets that leave while they join.
const LEAVERS: u32 = 40;

/// The locks of a slow client, and those of an observer.
struct Sweep<'a> {
    arena: &'a Arena,
    locks: Locks,
    observer: Locks,
    /// Its methods run while they are polled, and take no time.
    at_once: bool,
}

impl<'a> Sweep<'a> {
    async fn new(arena: &'a Arena) -> Self {
        let locks =
            Locks::on(Paced::around(arena.client().await, || Box::pin(pause())), arena.host());
        let at_once = locks.guarantees().quick && !arena.is_simulated();
        Self { arena, locks, observer: arena.locks().await, at_once }
    }

    /// Polls it `polls` times and drops it. `Some`: it ended before.
    async fn poll<T>(&self, future: impl Future<Output = T>, polls: u32) -> Option<T> {
        let mut future = Box::pin(future);
        for _ in 0..polls {
            let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
            if let Poll::Ready(output) = polled {
                return Some(output);
            }
            if self.at_once {
                pause().await;
            } else {
                self.arena.pass(std::time::Duration::from_millis(1)).await;
            }
        }
        None
    }

    /// Drops a future at each of its awaits, and checks each time that `left` tickets are left.
    async fn over<T, F: Future<Output = Result<T>>>(&self, left: usize, future: impl Fn() -> F) {
        self.over_each(left, async || (), |()| future()).await;
    }

    /// The same, with a preparation before each.
    async fn over_each<S, T, F: Future<Output = Result<T>>>(
        &self,
        left: usize,
        before: impl AsyncFn() -> S,
        future: impl Fn(S) -> F,
    ) {
        for polls in 0..POLLS_MAX {
            let ended = self.poll(future(before().await), polls).await.map(Self::is_free);
            self.is_left(left).await;
            if ended.is_some() {
                return;
            }
        }
        assert!(!self.arena.is_simulated(), "the future exceeded POLLS_MAX polls");
        Self::is_free(self.arena.soon("it ends", future(before().await)).await);
        self.is_left(left).await;
    }

    fn is_free<T>(outcome: Result<T>) {
        drop(outcome.expect("the lock is free"));
    }

    /// In simulated time the removal of tickets may take its whole time; in real time it is enough
    /// that the lines become as they must be.
    async fn is_left(&self, left: usize) {
        if self.arena.is_simulated() {
            self.arena.soon("what was dropped is given back", self.locks.flush()).await;
            assert_eq!(self.tickets().await, left, "tickets are left behind");
            return;
        }
        let given_back = async {
            while self.tickets().await != left {
                self.arena.pass(std::time::Duration::from_millis(1)).await;
            }
        };
        self.arena.soon("what was dropped is given back", given_back).await;
    }

    /// A join in flight, whose future was dropped, may come in after the others have left.
    async fn all_are_free(&self, keys: [&str; 2]) {
        self.arena.soon("what was dropped is given back", self.locks.flush()).await;
        let held = self.observer.multi_lock(keys).try_lock().await.unwrap();
        drop(held.expect("all locks are free"));
    }

    async fn tickets(&self) -> usize {
        let mut tickets = 0;
        for key in self.observer.keys("").await.expect("the keys can be listed") {
            tickets += self.observer.line(key.as_str()).await.expect("the line can be seen").len();
        }
        tickets
    }

    /// Drops a future that waits for a holder.
    async fn while_held<F: Future>(&self, future: impl Fn() -> F) {
        for polls in 0..POLLS_OF_A_WAITER {
            assert!(self.poll(future(), polls).await.is_none(), "another holder keeps the lock");
            self.is_left(1).await;
        }
    }
}

pub(crate) async fn a_future_that_takes_a_free_lock_may_be_dropped(arena: &Arena) {
    let sweep = Sweep::new(arena).await;
    let locks = &sweep.locks;
    let (mutex, rwlock) = (&locks.mutex("k"), &locks.rwlock("k"));
    let (all, election) = (&locks.multi_lock(["k", "l"]), &locks.election("k"));
    let time = arena.ttl() * 1000;
    sweep.over(0, || mutex.lock()).await;
    sweep.over(0, || mutex.try_lock()).await;
    sweep.over(0, || mutex.try_lock_for(time)).await;
    sweep.over(0, || rwlock.read()).await;
    sweep.over(0, || rwlock.write()).await;
    sweep.over(0, || all.lock()).await;
    sweep.over(0, || all.try_lock()).await;
    sweep.over(0, || election.campaign()).await;
    sweep.over(0, || election.run(|_, _| pause())).await;
    if arena.keeps_permits().await {
        let semaphore = &locks.semaphore("k", 5);
        sweep.over(0, || semaphore.acquire_many(3)).await;
    }
    sweep.all_are_free(["k", "l"]).await;
}

pub(crate) async fn a_future_that_waits_may_be_dropped(arena: &Arena) {
    let sweep = Sweep::new(arena).await;
    let holder = arena.locks().await;
    let guard = holder.mutex("k").lock().await.unwrap();
    let locks = &sweep.locks;
    let (mutex, all, election) =
        (&locks.mutex("k"), &locks.multi_lock(["a", "k"]), &locks.election("k"));
    let time = arena.ttl() * 1000;
    sweep.while_held(|| mutex.lock()).await;
    sweep.while_held(|| mutex.try_lock_for(time)).await;
    sweep.while_held(|| all.lock()).await;
    sweep.while_held(|| election.campaign()).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
    sweep.all_are_free(["a", "k"]).await;
}

/// A dropped join may continue for a while after its ticket has left.
pub(crate) async fn a_join_that_goes_on_while_its_ticket_leaves_does_not_come_in(arena: &Arena) {
    // A client with retries would join again, because it does not know of the leave.
    let client = arena.client_that_asks_once().await;
    if client.guarantees().liveness != Liveness::Session {
        return arena.skip("a ticket that comes in late leaves when its life is over");
    }
    for at in 0..LEAVERS {
        let key = format!("k/{at}");
        let ticket = arena.ticket(&key, MUTEX);
        let mut joining = pin!(maybe_done(client.join(&ticket, WaitMode::Wait)));
        let _ = poll_fn(|context| Poll::Ready(joining.as_mut().poll(context))).await; // One poll.
        client.leave(&ticket, LeaveMode::Now).await.expect("the leave succeeds");
        // The ticket is out, with any answer of the join.
        arena.soon("the join ends", joining).await;
        assert_eq!(client.ids(&key).await, [], "round {at}: the ticket joined after its own leave");
    }
}

pub(crate) async fn a_waiter_that_is_served_while_it_is_dropped_releases_the_lock(arena: &Arena) {
    let sweep = Sweep::new(arena).await;
    let mutex = &sweep.locks.mutex("k");
    for polls in 0..POLLS_OF_A_WAITER {
        let guard = sweep.observer.mutex("k").lock().await.unwrap();
        let mut waiting = Box::pin(mutex.lock());
        sweep.poll(&mut waiting, polls).await;
        guard.release().await.unwrap();
        sweep.poll(&mut waiting, polls / 3).await;
        drop(waiting);
        sweep.is_left(0).await;
    }
}

pub(crate) async fn a_release_may_be_dropped(arena: &Arena) {
    let sweep = Sweep::new(arena).await;
    let locks = &sweep.locks;
    sweep.over_each(0, async || locks.mutex("k").lock().await.unwrap(), MutexGuard::release).await;
    sweep
        .over_each(
            0,
            async || locks.multi_lock(["k", "l"]).lock().await.unwrap(),
            MultiGuard::release,
        )
        .await;
    sweep
        .over_each(0, async || locks.rwlock("k").write().await.unwrap(), WriteGuard::downgrade)
        .await;
}

pub(crate) async fn a_manual_renewal_may_be_dropped(arena: &Arena) {
    let sweep = Sweep::new(arena).await;
    let guard = sweep.locks.mutex("k").lock().await.unwrap();
    let (held, token) = (&guard.handle(), guard.token());
    sweep.over(1, || held.extend()).await;
    sweep.over(1, || held.set_note("new")).await;
    sweep.over(1, || held.run(pause())).await;
    sweep.while_held(|| held.lost()).await;
    sweep.while_held(|| held.warned()).await;
    guard.check().expect("the lock is still held");
    let line = sweep.observer.line("k").await.unwrap();
    assert_eq!((&*line[0].note, line[0].id), ("new", guard.id()));
    assert_eq!(guard.token(), token, "the token is unchanged");
    guard.release().await.expect("the lock was held");
    sweep.is_left(0).await;
}

pub(crate) async fn an_inspection_may_be_dropped(arena: &Arena) {
    let sweep = Sweep::new(arena).await;
    let locks = &sweep.locks;
    let guard = sweep.observer.election("k").note("here").campaign().await.unwrap();
    let election = &locks.election("k");
    sweep.over(1, || locks.line("k")).await;
    sweep.over(1, || locks.keys("k")).await;
    sweep.over(1, || election.leader()).await;
    sweep.over(1, || election.observe()).await;
    sweep.over(1, || locks.watch("k")).await;
    sweep.over(1, || locks.break_ticket("k", tenure_core::TicketId::fresh())).await;
    guard.check().unwrap();
}

pub(crate) async fn an_observer_that_is_dropped_and_continues_misses_nothing(arena: &Arena) {
    let sweep = Sweep::new(arena).await;
    let election = sweep.locks.election("k");
    let mut leaders = election.observe().await.unwrap();
    let seat = sweep.observer.election("k").campaign().await.unwrap();
    let mut seen = None;
    for polls in (0..POLLS_MAX).cycle().take(5000) {
        if let Some(leader) = sweep.poll(leaders.next(), polls).await {
            seen = leader.unwrap();
        }
        if seen.is_some() {
            break;
        }
        arena.pass(std::time::Duration::from_millis(1)).await;
    }
    assert_eq!(seen.map(|leader| leader.id), Some(seat.id()));
}

pub(crate) async fn a_count_may_be_dropped(arena: &Arena) {
    if !arena.counts().await {
        return arena.skip("it keeps no counters");
    }
    let sweep = Sweep::new(arena).await;
    let sequence = sweep.locks.sequence("k");
    let counter = sweep.locks.counter("k").window(std::time::Duration::from_secs(3600));
    let (mut last, windows) = (0, arena.counts_by_window().await);
    for polls in 0..POLLS_MAX {
        sweep.poll(sequence.next(), polls).await;
        if windows {
            sweep.poll(counter.add(1), polls).await;
        }
        let next = sequence.next().await.unwrap();
        assert!(next > last, "{next} is given twice");
        last = next;
    }
    if !windows {
        return;
    }
    let sum = counter.get().await.unwrap().value;
    assert!(sum <= u64::from(POLLS_MAX), "{sum} is more than all requests together");
}
