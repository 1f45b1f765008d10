//! A helper waits in the place of an executor, when whoever is in a book does not come out: it was
//! stopped, or sits in a debugger.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use tenure_core::{Error, Result};

use crate::store::Store;
use crate::visit::Visit;
use crate::watchers::lock;

/// What is left to do in one book, one after another, by one thread.
#[derive(Default)]
pub(crate) struct Helper(Mutex<Work>);

type Job = Box<dyn FnOnce(&Store) + Send>;

#[derive(Default)]
struct Work {
    jobs: VecDeque<Job>,
    running: bool,
}

/// What comes of it. If nobody waits any more when its turn comes, it is not done at all.
pub(crate) struct Answer<T>(Arc<Shared<T>>);

struct Shared<T> {
    unwanted: AtomicBool,
    state: Mutex<(Option<Result<T>>, Option<Waker>)>,
}

impl Store {
    /// Does something in a book as soon as it can be entered, and nobody is held up meanwhile.
    pub(crate) fn later<T: Send + 'static>(
        self: &Arc<Self>,
        index: usize,
        act: impl FnOnce(&mut Visit<'_>) -> Result<T> + Send + 'static,
    ) -> Answer<T> {
        let shared = Arc::new(Shared { unwanted: AtomicBool::new(false), state: Mutex::default() });
        let theirs = shared.clone();
        let job = move |store: &Store| {
            let answer = store.visit_patiently(index, |visit| {
                if theirs.unwanted.load(Ordering::SeqCst) {
                    return Err(Error::unavailable("nobody waits for this any more"));
                }
                act(visit)
            });
            theirs.give(answer);
        };
        let mut work = lock(&self.helpers[index].0);
        work.jobs.push_back(Box::new(job));
        if !std::mem::replace(&mut work.running, true) {
            let store = self.clone();
            let started = thread::Builder::new()
                .name("tenure-file-stuck".to_owned())
                .spawn(move || store.help(index));
            if let Err(error) = started {
                work.running = false;
                work.jobs.pop_back();
                let sentence = "the system has no room for a thread that waits for a file lock";
                shared.give(Err(Error::unavailable(sentence).caused_by(error)));
            }
        }
        drop(work);
        Answer(shared)
    }

    fn help(&self, index: usize) {
        loop {
            let mut work = lock(&self.helpers[index].0);
            let Some(job) = work.jobs.pop_front() else {
                work.running = false;
                return;
            };
            drop(work);
            job(self);
        }
    }
}

impl<T> Shared<T> {
    fn give(&self, answer: Result<T>) {
        let mut state = lock(&self.state);
        state.0 = Some(answer);
        if let Some(waker) = state.1.take() {
            drop(state);
            waker.wake();
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let mut state = lock(&self.0.state);
        if let Some(answer) = state.0.take() {
            return Poll::Ready(answer);
        }
        state.1 = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.0.unwanted.store(true, Ordering::SeqCst);
    }
}
