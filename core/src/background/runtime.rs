//! The runtime of background tasks, which outlives its callers' tasks.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use tokio::runtime::{self, Builder, Handle};
use tokio::sync::Notify;

use crate::lease::clock::{Clock, SystemClock, Time};
use crate::{Error, Result};

/// A boxed future.
///
/// ```
/// use std::time::Duration;
///
/// use tenure::engine::{BackgroundRuntime, BoxFuture, Runtime};
///
/// # tenure::blocking::block_on(async {
/// let runtime = BackgroundRuntime::for_timers();
/// let sleep: BoxFuture<()> = runtime.sleep(Duration::from_millis(1));
/// sleep.await;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs background tasks and timers, independent of the caller's threads.
///
/// ```
/// use std::sync::{Arc, mpsc};
///
/// use tenure::engine::{BackgroundRuntime, Memory, Runtime};
/// use tenure::Locks;
///
/// let runtime = Arc::new(BackgroundRuntime::for_timers());
/// let (sender, receiver) = mpsc::channel();
/// runtime.spawn(Box::pin(async move { sender.send("done").unwrap() }));
/// assert_eq!(receiver.recv().unwrap(), "done");
/// let locks = Locks::on(Memory::new(), runtime);
/// # drop(locks);
/// ```
pub trait Runtime: Clock {
    /// Starts the runtime if needed. It is called before a connection, a lock and a watch, so that
    /// every held lock can be renewed. The other methods may panic if this fails.
    ///
    /// # Errors
    ///
    /// Tasks or timers cannot run here.
    fn ready(&self) -> Result<()> {
        Ok(())
    }

    /// A future that is ready after `duration`. It may be awaited on any runtime.
    fn sleep(&self, duration: Duration) -> BoxFuture<()>;

    /// A random number, for jitter.
    fn random(&self) -> u64;

    /// Runs a task to its end, even when all else of Tenure has been dropped.
    fn spawn(&self, task: BoxFuture<()>);
}

/// A thread with a tokio runtime. It starts at its first use, and ends when this is dropped and its
/// last task is done.
///
/// ```
/// use std::sync::Arc;
///
/// use tenure::engine::{Memory, BackgroundRuntime};
/// use tenure::Locks;
///
/// # tenure::blocking::block_on(async {
/// let locks = Locks::on(Memory::new(), Arc::new(BackgroundRuntime::for_timers()));
/// let guard = locks.mutex("invoices/42").lock().await?;
/// // Its renewals go on while this thread is busy.
/// guard.release().await?;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub struct BackgroundRuntime {
    drivers: bool,
    running: OnceLock<Running>,
}

struct Running {
    handle: Handle,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Number of tasks, plus one for the runtime itself. At zero the thread ends.
    users: AtomicUsize,
    last_left: Notify,
}

impl BackgroundRuntime {
    /// A runtime with timers, for engines that use no sockets.
    pub fn for_timers() -> Self {
        Self { drivers: false, running: OnceLock::new() }
    }

    /// A runtime with timers and sockets.
    pub fn for_drivers() -> Self {
        Self { drivers: true, running: OnceLock::new() }
    }

    fn start(&self) -> Result<&Running> {
        if let Some(running) = self.running.get() {
            return Ok(running);
        }
        // If two callers start it at the same time, one of the two threads ends again.
        match Running::start(self.drivers) {
            Ok(started) => Ok(self.running.get_or_init(|| started)),
            Err(error) => self.running.get().ok_or(error),
        }
    }

    fn running(&self) -> &Running {
        self.start().expect("`ready` is called before the runtime is used")
    }
}

impl Running {
    fn start(drivers: bool) -> Result<Self> {
        let mut builder = Builder::new_current_thread();
        if drivers {
            builder.enable_all()
        } else {
            builder.enable_time()
        };
        let no_room = |of: &str, more: &str, error: io::Error| {
            Error::rejected(format!(
                "this process cannot start {of}, which renewals need: allow it more {more} ({error})"
            ))
        };
        let runtime = builder.build().map_err(|error| no_room("a runtime", "open files", error))?;
        let runtime = Droppable(Some(runtime));
        let state = Arc::new(State::default());
        let running = Self { handle: runtime.get().handle().clone(), state: state.clone() };
        state.users.fetch_add(1, Ordering::Relaxed);
        thread::Builder::new()
            .name("tenure".to_owned())
            .spawn(move || runtime.get().block_on(state.last_left.notified()))
            .map_err(|error| no_room("a thread", "threads", error))?;
        Ok(running)
    }
}

/// A runtime that may be dropped inside another one, as when its thread cannot be started.
struct Droppable(Option<runtime::Runtime>);

impl Droppable {
    fn get(&self) -> &runtime::Runtime {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Droppable {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.state.leave();
    }
}

impl State {
    fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.last_left.notify_one();
        }
    }
}

impl Clock for BackgroundRuntime {
    fn now(&self) -> Time {
        SystemClock.now()
    }

    fn wall_us(&self) -> u64 {
        SystemClock.wall_us()
    }
}

impl Runtime for BackgroundRuntime {
    fn ready(&self) -> Result<()> {
        self.start().map(drop)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        let _context = self.running().handle.enter();
        Box::pin(tokio::time::sleep(duration))
    }

    fn random(&self) -> u64 {
        random(self)
    }

    fn spawn(&self, task: BoxFuture<()>) {
        let Running { handle, state } = self.running();
        let user = User::new(state.clone());
        handle.spawn(async move {
            let _user = user;
            task.await;
        });
    }
}

/// The present tokio runtime, for engines and tests that have one already.
///
/// ```
/// use std::sync::Arc;
///
/// use tenure::engine::{Memory, ThisRuntime};
/// use tenure::Locks;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tenure::Result<()> {
/// let locks = Locks::on(Memory::new(), Arc::new(ThisRuntime::new()));
/// let guard = locks.mutex("invoices/42").lock().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ThisRuntime(Handle);

impl ThisRuntime {
    /// The caller's tokio runtime.
    pub fn new() -> Self {
        Self(Handle::current())
    }
}

impl Default for ThisRuntime {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ThisRuntime {
    fn now(&self) -> Time {
        SystemClock.now()
    }

    fn wall_us(&self) -> u64 {
        SystemClock.wall_us()
    }
}

impl Runtime for ThisRuntime {
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        let _context = self.0.enter();
        Box::pin(tokio::time::sleep(duration))
    }

    fn random(&self) -> u64 {
        random(self)
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.0.spawn(task);
    }
}

/// A random number for jitter. Without randomness of the system, the clock is random enough.
fn random(clock: &impl Clock) -> u64 {
    getrandom::u64().unwrap_or_else(|_| clock.now().raw_ns)
}

/// Counts one task until it ends, even by a panic.
struct User(Arc<State>);

impl User {
    fn new(state: Arc<State>) -> Self {
        state.users.fetch_add(1, Ordering::Relaxed);
        Self(state)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl fmt::Debug for BackgroundRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundRuntime").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_knows_the_time_and_is_not_foreseen() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let private = BackgroundRuntime::for_timers();
            let hosts: [&dyn Runtime; 2] = [&private, &ThisRuntime::new()];
            for runtime in hosts {
                let (before, wall, after) =
                    (SystemClock.wall_us(), runtime.wall_us(), SystemClock.wall_us());
                assert!((before..=after).contains(&wall));
                assert_ne!(runtime.random(), runtime.random());
                let asked_to_leave = Arc::new(Notify::new());
                let tell = asked_to_leave.clone();
                runtime.spawn(Box::pin(async move { tell.notify_one() }));
                asked_to_leave.notified().await;
            }
        });
    }
}
