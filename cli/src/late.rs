//! A thread that starts late: most commands are over before it is worth while.
//!
//! A lock of the file store needs no renewals, and its verbs are called in place. Its keeper and its sweeper have nothing to
//! do until a command has run for a while, or somebody waits; and the thread costs 0.3 of the 4 ms that a small
//! command takes, more where cores are busy.

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure::Locks;
use tenure::engine::{BackgroundRuntime, BoxFuture, Clock, SystemClock, Time};
use tenure::{Liveness, Runtime};

/// Where locks are looked after once it has begun. Whoever waits has it begin first.
pub(crate) struct LateThread(Late);

#[derive(Clone)]
struct Late(Arc<Inner>);

struct Inner {
    thread: BackgroundRuntime,
    /// What there is to do then; `None` once it has begun.
    tasks: Mutex<Option<Vec<BoxFuture<()>>>>,
}

impl LateThread {
    /// The same locks, looked after by such a thread; `None` if they cannot be left alone until then.
    pub(crate) fn of(locks: &Locks) -> Option<(Locks, Self)> {
        let profile = locks.guarantees();
        if !profile.quick || profile.liveness != Liveness::Kernel {
            return None;
        }
        let tasks = Mutex::new(Some(Vec::new()));
        let late = Late(Arc::new(Inner { thread: BackgroundRuntime::for_timers(), tasks }));
        Some((locks.kept_on(Arc::new(late.clone())), Self(late)))
    }

    /// It is there from now on, if there is room for it.
    pub(crate) fn begin(&self) -> io::Result<()> {
        self.0.begin().map_err(io::Error::other)
    }
}

impl Drop for LateThread {
    /// What was never begun is dropped, and with it the store: its session ends with that.
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

impl Late {
    fn begin(&self) -> tenure::Result<()> {
        self.0.thread.ready()?;
        for task in self.take().into_iter().flatten() {
            self.0.thread.spawn(task);
        }
        Ok(())
    }

    fn take(&self) -> Option<Vec<BoxFuture<()>>> {
        self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Clock for Late {
    fn now(&self) -> Time {
        SystemClock.now()
    }

    fn wall_us(&self) -> u64 {
        SystemClock.wall_us()
    }
}

impl Runtime for Late {
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        let (late, asked) = (self.clone(), Instant::now());
        // A time limit costs nothing until somebody waits.
        Box::pin(async move {
            match late.begin() {
                Ok(()) => late.0.thread.sleep(duration.saturating_sub(asked.elapsed())).await,
                // Whoever waits for it is told so at once.
                Err(_) => pending().await,
            }
        })
    }

    fn random(&self) -> u64 {
        self.0.thread.random()
    }

    fn spawn(&self, task: BoxFuture<()>) {
        let mut tasks = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        match tasks.as_mut() {
            Some(tasks) => tasks.push(task),
            None => self.0.thread.spawn(task),
        }
    }
}
