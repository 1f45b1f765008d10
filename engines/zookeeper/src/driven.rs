//! The task of a session, driven by the thread that wakes it. A caller writes its request to the
//! socket, and the thread that gets an answer reads it, so that no request waits for another
//! thread. The work is short, and never blocks.
//!
//! A session must not outlive the runtime that it was opened on, which sends its signs of life. If
//! that runtime was not seen for a while, only callers drive the task, and the runtime as soon as
//! it can. Then no ping goes out, and the session ends.
//!
//! The client crate spawns one task for each session through `spawns`, which lets a scope choose
//! where. If a later version of it spawns otherwise, the task runs on the home runtime.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::process;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use spawns_core::{Spawn, Task, enter};
use tenure_core::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::life::{Life, millis};

/// Maximum polls in a row by one thread of a task that is woken meanwhile. Then the home runtime
/// goes on, and the thread returns.
const ROUNDS_MAX: u32 = 8;

/// No thread drives it, and it waits to be woken.
const IDLE: u8 = 0;
/// A thread drives it.
const DRIVEN: u8 = 1;
/// It was woken, and a thread drives it, or is about to.
const WOKEN: u8 = 2;

/// A task.
struct Driven {
    task: Mutex<Option<BoxFuture<()>>>,
    state: AtomicU8,
    home: Handle,
    /// Its process. A copy of the process by `fork` has the same sockets, and must not touch them.
    process: u32,
    life: Arc<Life>,
}

/// The owner's handle of a session's tasks. When it is dropped, they have the life of a session to
/// end: a server that answers with an endless frame would keep them forever.
pub(crate) struct Leash {
    life: Arc<Life>,
    tasks: Vec<Arc<Driven>>,
    within_ms: AtomicU64,
}

/// Count of looks at the home runtime within the time that it may be out of sight.
const LOOKS: u32 = 2;

/// Notes regularly that the current runtime runs, until the session is dropped. The runtime may be
/// out of sight for `out_of_sight`.
pub(crate) async fn be_seen(leash: Weak<Leash>, out_of_sight: Duration) {
    let home = AtHand(leash);
    while let Some(leash) = home.0.upgrade() {
        leash.see(out_of_sight);
        drop(leash);
        sleep(out_of_sight / LOOKS).await;
    }
}

/// The home runtime, until it ends.
struct AtHand(Weak<Leash>);

impl Drop for AtHand {
    fn drop(&mut self) {
        if let Some(leash) = self.0.upgrade() {
            leash.life.end_home();
        }
    }
}

thread_local! {
    /// Tasks that this thread has woken and is to drive later, while it [sends several
    /// requests](together).
    static LATER: RefCell<Option<Vec<Arc<Driven>>>> = const { RefCell::new(None) };
}

/// Runs this. The thread that wakes a task spawned in it drives that task. The tasks end within
/// this time after the leash is dropped.
pub(crate) async fn driven<T>(
    home: &Handle,
    within: Duration,
    spawning: impl Future<Output = T>,
) -> (T, Leash) {
    let life = Arc::new(Life::new());
    let home = Home { runtime: home.clone(), life: life.clone(), tasks: Mutex::default() };
    let mut spawning = pin!(spawning);
    let spawned = poll_fn(|cx| {
        let _scope = enter(&home);
        spawning.as_mut().poll(cx)
    })
    .await;
    let tasks = home.tasks.into_inner().unwrap_or_else(PoisonError::into_inner);
    (spawned, Leash { life, tasks, within_ms: AtomicU64::new(millis(within)) })
}

impl Leash {
    /// Notes that the home runtime runs. It may be out of sight for `patience` from now on.
    fn see(&self, patience: Duration) {
        self.life.see(patience);
    }

    /// Sets the time in which the tasks end after this is dropped.
    pub(crate) fn end_within(&self, within: Duration) {
        self.within_ms.store(millis(within), Ordering::Relaxed);
    }

    /// Returns whether the home runtime was seen lately.
    pub(crate) fn has_home(&self) -> bool {
        self.life.has_home()
    }

    /// Stops the tasks: their connection ends, and their callers get an error.
    pub(crate) fn stop(&self) {
        self.life.stop();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.life.is_stopped()
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let was_stopped = self.life.let_go(*self.within_ms.get_mut());
        for task in &self.tasks {
            if self.life.has_home_ended() {
                // No runtime drives it to its end, and no caller waits for its result.
                task.give_up();
            } else if was_stopped {
                task.wake_by_ref();
            }
        }
    }
}

/// Sends several requests, which go out at once when all of them were made. No task is driven while
/// `send` runs, so it may hold a lock.
pub(crate) fn together<T>(send: impl FnOnce() -> T) -> T {
    let is_outermost = LATER.with_borrow_mut(|later| {
        let is_outermost = later.is_none();
        later.get_or_insert_default();
        is_outermost
    });
    let _then = is_outermost.then_some(Then);
    send()
}

/// The end of [`together`], also by a panic.
struct Then;

impl Drop for Then {
    fn drop(&mut self) {
        let later = LATER.with_borrow_mut(Option::take);
        for task in later.into_iter().flatten() {
            task.drive();
        }
    }
}

/// The runtime of new tasks, and the tasks.
struct Home {
    runtime: Handle,
    life: Arc<Life>,
    tasks: Mutex<Vec<Arc<Driven>>>,
}

impl Spawn for Home {
    fn spawn(&self, task: Task) {
        let task = Mutex::new(Some(Box::into_pin(task.future)));
        let (state, home, life) = (AtomicU8::new(WOKEN), self.runtime.clone(), self.life.clone());
        let task = Arc::new(Driven { task, state, home, process: process::id(), life });
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task.clone());
        task.drive_at_home();
    }
}

impl Wake for Driven {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The driving thread goes on.
        if self.state.swap(WOKEN, Ordering::AcqRel) != IDLE {
            return;
        }
        let is_later = LATER.try_with(|later| {
            let mut later = later.borrow_mut();
            later.as_mut().map(|later| later.push(self.clone())).is_some()
        });
        // A thread that ends sends no requests.
        if is_later.unwrap_or(false) {
            return;
        }
        // A task that is to be dropped needs no home runtime for that.
        if self.life.has_home() || self.life.is_due() { self.drive() } else { self.drive_at_home() }
    }
}

impl Driven {
    /// Drives the task. The caller is the only thread here, because it changed the state from
    /// `IDLE`.
    fn drive(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        for _ in 0..ROUNDS_MAX {
            self.state.swap(DRIVEN, Ordering::AcqRel);
            if self.poll(&waker).is_ready() {
                return;
            }
            let (before, rest) = (Ordering::AcqRel, Ordering::Acquire);
            if self.state.compare_exchange(DRIVEN, IDLE, before, rest).is_ok() {
                return;
            }
        }
        self.drive_at_home();
    }

    fn drive_at_home(self: &Arc<Self>) {
        let at_home = AtHome(Some(self.clone()));
        self.home.spawn(async move { at_home.drive() });
    }

    fn give_up(&self) {
        let ended = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(ended);
    }

    fn poll(&self, waker: &Waker) -> Poll<()> {
        if self.process != process::id() {
            return Poll::Pending;
        }
        if self.life.is_due() {
            self.give_up();
            return Poll::Ready(());
        }
        if self.life.is_stopped() {
            return Poll::Pending;
        }
        let mut slot = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(task) = slot.as_mut() else { return Poll::Ready(()) };
        // A panic ends the task, as on a runtime, and not the driving thread.
        let polled =
            catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(&mut Context::from_waker(waker))));
        if matches!(polled, Ok(Poll::Pending)) {
            return Poll::Pending;
        }
        drop(slot);
        self.give_up();
        Poll::Ready(())
    }
}

/// A task that the home runtime is to drive.
struct AtHome(Option<Arc<Driven>>);

impl AtHome {
    fn drive(mut self) {
        if let Some(task) = self.0.take() {
            task.drive();
        }
    }
}

impl Drop for AtHome {
    fn drop(&mut self) {
        // The home runtime has ended. The next thread that wakes the task drives it, at the latest
        // its own timer. If the session was dropped, the task is dropped now.
        if let Some(task) = self.0.take() {
            if task.life.is_let_go() {
                task.give_up();
            }
            task.state.store(IDLE, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;
    use std::time::Duration;

    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// Time that a task has to end.
    const LIFE: Duration = Duration::from_secs(600);

    /// A task that counts its messages, and the threads that drive it at the same time.
    struct Counter {
        sender: mpsc::UnboundedSender<usize>,
        polls: Arc<AtomicUsize>,
        sum: Arc<AtomicUsize>,
        ended: oneshot::Receiver<()>,
    }

    async fn spawn_counter() -> (Counter, Leash) {
        let (sender, mut receiver) = mpsc::unbounded_channel::<usize>();
        let (polls, sum) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (tell, ended) = oneshot::channel();
        let (polled, added, driving) = (polls.clone(), sum.clone(), AtomicUsize::new(0));
        let ((), leash) = driven(&Handle::current(), LIFE, async {
            let mut task = Box::pin(async move {
                while let Some(number) = receiver.recv().await {
                    added.fetch_add(number, Ordering::SeqCst);
                }
                let _ = tell.send(());
            });
            drop(spawns_core::spawn(poll_fn(move |cx| {
                assert_eq!(driving.fetch_add(1, Ordering::SeqCst), 0, "one drives at a time");
                polled.fetch_add(1, Ordering::SeqCst);
                let polled = task.as_mut().poll(cx);
                driving.fetch_sub(1, Ordering::SeqCst);
                polled
            })));
        })
        .await;
        // It waits for work.
        while polls.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        (Counter { sender, polls, sum, ended }, leash)
    }

    #[tokio::test]
    async fn who_sends_drives() {
        let (counter, _leash) = spawn_counter().await;
        let sender = counter.sender.clone();
        let sum = counter.sum.clone();
        let done = move || {
            sender.send(5).unwrap();
            assert_eq!(sum.load(Ordering::SeqCst), 5, "it is done when this returns");
        };
        // This thread is busy, and another one without a runtime sends.
        thread::spawn(done).join().unwrap();
    }

    #[tokio::test]
    async fn what_is_sent_together_is_driven_once() {
        let (counter, _leash) = spawn_counter().await;
        let before = counter.polls.load(Ordering::SeqCst);
        together(|| {
            for number in 1..=10 {
                counter.sender.send(number).unwrap();
            }
            assert_eq!(counter.sum.load(Ordering::SeqCst), 0);
        });
        assert_eq!(counter.sum.load(Ordering::SeqCst), 55);
        assert_eq!(counter.polls.load(Ordering::SeqCst) - before, 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_is_lost_between_many_threads() {
        let (counter, _leash) = spawn_counter().await;
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let sender = counter.sender.clone();
                thread::spawn(move || {
                    for _ in 0..2_000 {
                        sender.send(1).unwrap();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let Counter { sender, sum, ended, .. } = counter;
        drop(sender);
        tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap().unwrap();
        assert_eq!(sum.load(Ordering::SeqCst), 16_000);
    }

    #[tokio::test]
    async fn without_a_home_only_callers_drive() {
        let (counter, leash) = spawn_counter().await;
        leash.see(Duration::ZERO);
        thread::sleep(Duration::from_millis(5));
        assert!(!leash.has_home());
        let (sender, sum) = (counter.sender.clone(), counter.sum.clone());
        let send = move || {
            together(|| sender.send(5).unwrap());
            assert_eq!(sum.load(Ordering::SeqCst), 5, "a caller drives");
            sender.send(2).unwrap();
            assert_eq!(sum.load(Ordering::SeqCst), 5, "and nobody else");
        };
        thread::spawn(send).join().unwrap();
        while counter.sum.load(Ordering::SeqCst) != 7 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_is_stopped_stands_still_until_its_leash_is_dropped() {
        let (counter, leash) = spawn_counter().await;
        leash.stop();
        together(|| counter.sender.send(5).unwrap());
        tokio::task::yield_now().await;
        assert!(leash.is_stopped() && counter.sum.load(Ordering::SeqCst) == 0);
        let Counter { sender, sum, ended, .. } = counter;
        drop(sender);
        drop(leash);
        ended.await.unwrap();
        assert_eq!(sum.load(Ordering::SeqCst), 5, "it comes to its end");
    }

    #[tokio::test]
    async fn a_task_that_does_not_end_in_time_is_dropped_when_it_is_woken() {
        let (counter, leash) = spawn_counter().await;
        let Counter { sender, sum, ended, .. } = counter;
        leash.end_within(Duration::ZERO);
        drop(leash);
        let _ = sender.send(5);
        assert!(ended.await.is_err(), "it is dropped in the middle");
        assert_eq!(sum.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_task_that_panics_ends_and_nobody_else_does() {
        let (sender, mut receiver) = mpsc::unbounded_channel::<()>();
        let (held, ended) = oneshot::channel::<()>();
        let ((), _leash) = driven(&Handle::current(), LIFE, async {
            drop(spawns_core::spawn(async move {
                let _held = held;
                receiver.recv().await;
                panic!("as a test wants it");
            }));
        })
        .await;
        tokio::task::yield_now().await;
        let _ = sender.send(());
        assert!(ended.await.is_err(), "what it had is dropped");
    }
}
