//! A simulated world: its time, random numbers and the order of its tasks come from a seed.
//!
//! One thread polls every task. When none can run, time jumps to the next timer: an hour of leases
//! takes a millisecond, and the same seed repeats the same hour.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tenure_core::BoxFuture;
use tenure_core::sync::Mutex;

use super::chance::Chance;
use super::process::Process;

/// The process of the store, the first of every world.
pub const STORE: usize = 0;

/// Maximum steps at one moment; more are an endless loop.
const STEPS_PER_MOMENT_MAX: u32 = 1_000_000;

/// A simulated world. Clones are the same world.
#[derive(Clone)]
pub struct World(Arc<Mutex<State>>);

pub(super) struct State {
    seed: u64,
    pub(super) chance: Chance,
    /// Nanoseconds since the start, whether machines are awake or asleep.
    pub(super) passed_ns: u64,
    pub(super) tasks: BTreeMap<u64, Task>,
    pub(super) tasks_made: u64,
    /// Steps since time last advanced.
    steps: u32,
    pub(super) ready: BTreeSet<u64>,
    /// The wakers and processes, by time.
    pub(super) timers: BTreeMap<(u64, u64), (usize, Waker)>,
    pub(super) timers_made: u64,
    pub(super) processes: Vec<Process>,
}

pub(super) struct Task {
    pub(super) process: usize,
    /// `None` while it is being polled.
    pub(super) future: Option<BoxFuture<()>>,
}

impl World {
    /// Runs `story` in a world of this seed. Panics, with the seed, if no task can run before the
    /// story has ended.
    pub fn run<F, T>(seed: u64, story: impl FnOnce(Self) -> F) -> T
    where
        F: Future<Output = T>,
    {
        let world = Self(Arc::new(Mutex::new(State {
            seed,
            chance: Chance::new(seed),
            passed_ns: 0,
            tasks: BTreeMap::new(),
            tasks_made: 0,
            steps: 0,
            ready: BTreeSet::new(),
            timers: BTreeMap::new(),
            timers_made: 0,
            processes: vec![Process::default()],
        })));
        let ended = world.drive(story(world.clone()));
        world.end();
        ended
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.state().seed
    }

    /// A random number.
    pub fn random(&self) -> u64 {
        self.state().chance.next()
    }

    /// True with this probability per thousand.
    pub fn chance(&self, per_mille: u64) -> bool {
        self.random() % 1000 < per_mille
    }

    /// Time since the start.
    pub fn passed(&self) -> Duration {
        Duration::from_nanos(self.state().passed_ns)
    }

    fn drive<F: Future>(&self, story: F) -> F::Output {
        let woken = Arc::new(StoryWaker::default());
        let waker = Waker::from(woken.clone());
        let mut story = std::pin::pin!(story);
        let mut context = Context::from_waker(&waker);
        woken.0.store(true, Ordering::Relaxed);
        loop {
            if woken.0.swap(false, Ordering::Relaxed)
                && let Poll::Ready(output) = story.as_mut().poll(&mut context)
            {
                return output;
            }
            let moved = woken.0.load(Ordering::Relaxed) || self.step() || self.jump();
            assert!(moved, "no task can run any more (seed {})", self.seed());
        }
    }

    /// Polls one random task that can run.
    fn step(&self) -> bool {
        let Some((id, mut future)) = self.take_ready() else { return false };
        let waker = Waker::from(Arc::new(TaskWaker { world: self.clone(), id }));
        let ended = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut state = self.state();
        if ended {
            state.tasks.remove(&id);
        } else if let Some(task) = state.tasks.get_mut(&id) {
            task.future = Some(future);
            return true;
        }
        drop(state);
        true
    }

    fn take_ready(&self) -> Option<(u64, BoxFuture<()>)> {
        let mut state = self.state();
        let free: Vec<u64> = state.ready.iter().copied().filter(|id| state.can_run(*id)).collect();
        state.steps += u32::from(!free.is_empty());
        assert!(
            state.steps < STEPS_PER_MOMENT_MAX,
            "time stands still: a task runs without end (seed {})",
            state.seed
        );
        let pick = usize::try_from(state.chance.next()).unwrap_or(0).checked_rem(free.len())?;
        let id = free[pick];
        state.ready.remove(&id);
        let future = state.tasks.get_mut(&id)?.future.take()?;
        Some((id, future))
    }

    /// Jumps to the next timer, because no task can run.
    fn jump(&self) -> bool {
        let mut state = self.state();
        let due = state.timers.iter().find(|(_, (process, _))| !state.processes[*process].paused);
        let Some((&(at, id), _)) = due else { return false };
        state.passed_ns = state.passed_ns.max(at);
        state.steps = 0;
        let timer = state.timers.remove(&(at, id));
        drop(state);
        if let Some((_, waker)) = timer {
            waker.wake();
        }
        true
    }

    /// Drops the remaining tasks, outside of the lock, because a drop may wake and spawn.
    fn end(&self) {
        let tasks = std::mem::take(&mut self.state().tasks);
        drop(tasks);
        let timers = std::mem::take(&mut self.state().timers);
        drop(timers);
        let tasks = std::mem::take(&mut self.state().tasks);
        drop(tasks);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    fn can_run(&self, id: u64) -> bool {
        self.tasks.get(&id).is_some_and(|task| !self.processes[task.process].paused)
    }
}

struct TaskWaker {
    world: World,
    id: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut state = self.world.state();
        if state.tasks.contains_key(&self.id) {
            state.ready.insert(self.id);
        }
    }
}

/// A waker that notes whether the story itself can run.
#[derive(Default)]
struct StoryWaker(AtomicBool);

impl Wake for StoryWaker {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{Clock as _, Runtime as _};

    use super::*;

    #[test]
    fn an_hour_passes_at_once() {
        let hour = Duration::from_secs(3600);
        let passed = World::run(1, |world| async move {
            world.store().sleep(hour).await;
            world.passed()
        });
        assert_eq!(passed, hour);
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let order = |seed| {
            World::run(seed, |world| async move {
                let order = Arc::new(Mutex::new(Vec::new()));
                for name in 0..20 {
                    let (host, order) = (world.process(), order.clone());
                    let clock = host.clone();
                    host.spawn(Box::pin(async move {
                        let pause = clock.random() % 100;
                        clock.sleep(Duration::from_millis(pause)).await;
                        order.lock().push(name);
                    }));
                }
                world.store().sleep(Duration::from_secs(1)).await;
                order.lock().clone()
            })
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
    }

    #[test]
    fn a_paused_process_stands_still_and_a_sleeping_machine_hides_it_from_one_clock() {
        World::run(3, |world| async move {
            let host = world.process();
            let ran = Arc::new(Mutex::new(false));
            let (clock, flag) = (host.clone(), ran.clone());
            host.spawn(Box::pin(async move {
                clock.sleep(Duration::from_secs(1)).await;
                *flag.lock() = true;
            }));
            world.store().sleep(Duration::from_millis(1)).await;
            host.pause();
            world.store().sleep(Duration::from_secs(5)).await;
            assert!(!*ran.lock());
            host.resume();
            world.store().sleep(Duration::from_millis(1)).await;
            assert!(*ran.lock());
            let before = host.now();
            host.wake_from_sleep(Duration::from_secs(60));
            assert_eq!(host.now().boot_ns - before.boot_ns, 60_000_000_000);
            assert_eq!(host.now().raw_ns, before.raw_ns);
        });
    }
}
