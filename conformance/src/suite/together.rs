//! Several parallel tasks: on threads in real time, otherwise in the order of the runtime.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tenure_core::blocking::block_on;
use tenure_core::sync::Mutex;
use tenure_core::{BoxFuture, Runtime};

/// Runs each on a thread of its own. Panics if a task panics.
pub(crate) fn on_threads(tasks: Vec<BoxFuture<()>>) {
    let threads: Vec<_> =
        tasks.into_iter().map(|task| std::thread::spawn(move || block_on(task))).collect();
    let ends: Vec<_> = threads.into_iter().map(std::thread::JoinHandle::join).collect();
    for end in ends {
        if let Err(panic) = end {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Runs each as a task of the runtime.
pub(crate) async fn on_host(host: &dyn Runtime, tasks: Vec<BoxFuture<()>>) {
    let left = Arc::new(Left::new(tasks.len()));
    for task in tasks {
        let one = One { left: left.clone(), done: false };
        host.spawn(Box::pin(async move {
            let mut one = one;
            task.await;
            one.done = true;
        }));
    }
    poll_fn(|context| left.poll(context.waker())).await;
    assert!(!left.state().failed, "a task panicked");
}

/// The number of unfinished tasks.
struct Left(Mutex<State>);

struct State {
    tasks: usize,
    failed: bool,
    waker: Option<Waker>,
}

impl Left {
    fn new(tasks: usize) -> Self {
        Self(Mutex::new(State { tasks, failed: false, waker: None }))
    }

    fn poll(&self, waker: &Waker) -> Poll<()> {
        let mut state = self.state();
        if state.tasks == 0 {
            return Poll::Ready(());
        }
        state.waker = Some(waker.clone());
        Poll::Pending
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock()
    }
}

/// One task, which counts as finished also after a panic.
struct One {
    left: Arc<Left>,
    done: bool,
}

impl Drop for One {
    fn drop(&mut self) {
        let mut state = self.left.state();
        state.tasks -= 1;
        state.failed |= !self.done;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
