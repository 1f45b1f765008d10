//! One process of a simulated world: its clocks, its timers, and its faults.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tenure_core::{BoxFuture, Clock, Runtime, Time};

use super::process::Process;
use super::world::{STORE, Task, World};

/// The start of every simulated wall clock: a day in 2023, in microseconds since 1970.
const WALL_BEGIN_US: u64 = 1_700_000_000_000_000;

/// Maximum distance of the clocks of two processes at their start.
const OFFSET_NS_MAX: u64 = 10_000_000_000_000;

/// One process of a world, with its own clocks. Clones are the same process.
#[derive(Clone)]
pub struct SimHost {
    pub(super) world: World,
    pub(super) process: usize,
}

impl World {
    /// Another process, with its own clocks and tasks.
    pub fn process(&self) -> Arc<SimHost> {
        let mut state = self.state();
        let chance = state.chance.next();
        state.processes.push(Process::ahead_by(chance % OFFSET_NS_MAX));
        let process = state.processes.len() - 1;
        drop(state);
        Arc::new(SimHost { world: self.clone(), process })
    }

    /// The process of the store.
    pub fn store(&self) -> Arc<SimHost> {
        Arc::new(SimHost { world: self.clone(), process: STORE })
    }
}

impl SimHost {
    /// Its world.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Stops it, as `SIGSTOP` does: none of its tasks runs.
    pub fn pause(&self) {
        self.world.state().processes[self.process].paused = true;
    }

    /// Continues it, as `SIGCONT` does.
    pub fn resume(&self) {
        let mut state = self.world.state();
        let process = &mut state.processes[self.process];
        process.paused = process.dead;
    }

    /// Kills it, as `SIGKILL` does: none of its tasks ever runs again.
    pub fn kill(&self) {
        let mut state = self.world.state();
        let process = &mut state.processes[self.process];
        (process.dead, process.paused) = (true, true);
    }

    /// Its machine slept for this time: its boot clock includes it, its raw clock and its timers do
    /// not.
    pub fn wake_from_sleep(&self, slept: Duration) {
        let mut state = self.world.state();
        let slept = nanos(slept);
        let process = &mut state.processes[self.process];
        process.slept_ns += slept;
        process.offset_ns += slept;
    }

    /// Its machine sleeps for this time: none of its tasks runs, its raw clock and its timers stand
    /// still, and its boot clock and the rest of the world continue.
    pub async fn sleep_machine(&self, time: Duration) {
        self.pause();
        let before = self.now();
        self.world.store().sleep(time).await;
        let slept = self.now().boot_ns - before.boot_ns;
        self.world.state().processes[self.process].slept_ns += slept;
        self.resume();
    }

    /// Sets the drift of its clocks against the world, from the start of the world.
    pub fn set_drift_ppm(&self, drift_ppm: i64) {
        self.world.state().processes[self.process].drift_ppm = drift_ppm;
    }

    /// Sets the drift of its raw clock against its boot clock from now on, as when the boot clock
    /// is slewed back.
    pub fn set_slew_ppm(&self, slew_ppm: u64) {
        let boot_ns = self.now().boot_ns;
        let process = &mut self.world.state().processes[self.process];
        (process.slew_ppm, process.slewed_from_ns) = (slew_ppm, boot_ns);
    }

    /// Steps its wall clock, forward or back.
    pub fn step_wall_clock(&self, by_us: i64) {
        self.world.state().processes[self.process].wall_us += by_us;
    }
}

impl Clock for SimHost {
    fn now(&self) -> Time {
        let state = self.world.state();
        state.processes[self.process].now(state.passed_ns)
    }

    fn wall_us(&self) -> u64 {
        let state = self.world.state();
        let wall_us = WALL_BEGIN_US + state.passed_ns / 1000;
        wall_us.saturating_add_signed(state.processes[self.process].wall_us)
    }
}

impl Runtime for SimHost {
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        let due = self.now().raw_ns.saturating_add(nanos(duration));
        Box::pin(Sleep { world: self.world.clone(), process: self.process, due, timer: None })
    }

    fn random(&self) -> u64 {
        self.world.random()
    }

    fn spawn(&self, future: BoxFuture<()>) {
        let mut state = self.world.state();
        state.tasks_made += 1;
        let id = state.tasks_made;
        state.tasks.insert(id, Task { process: self.process, future: Some(future) });
        state.ready.insert(id);
    }
}

/// A timer by the raw clock of its process, which stands still while the machine sleeps.
struct Sleep {
    world: World,
    process: usize,
    due: u64,
    timer: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let world = self.world.clone();
        let mut state = world.state();
        if let Some(timer) = self.timer.take() {
            state.timers.remove(&timer);
        }
        let process = state.processes[self.process];
        let remaining = self.due.saturating_sub(process.now(state.passed_ns).raw_ns);
        if remaining == 0 {
            return Poll::Ready(());
        }
        state.timers_made += 1;
        let at = state.passed_ns.saturating_add(process.world_ns(remaining));
        let timer = (at, state.timers_made);
        state.timers.insert(timer, (self.process, context.waker().clone()));
        drop(state);
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            let removed = self.world.state().timers.remove(&timer);
            drop(removed);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
