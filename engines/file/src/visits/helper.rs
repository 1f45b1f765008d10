//! A helper waits in the place of an executor when a process does not leave a book: it was stopped,
//! or is in a debugger.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::sync::Mutex;
use tenure_core::{Error, Result};

use crate::os::flock::{Haste, Patience};
use crate::waking::wake;

/// Maximum jobs that wait for one book: a longer queue helps no caller.
const JOBS_MAX: usize = 4096;

/// Time limit of an attempt shortly after another one failed.
const TRIES_AGAIN_FOR: Duration = Duration::from_millis(100);
/// Time after a failed attempt that counts as shortly.
const IN_VAIN_LASTS: Duration = Duration::from_secs(1);

/// The jobs of one book, one after another, in one thread.
#[derive(Clone, Default)]
pub(crate) struct Helper(Arc<Mutex<Work>>);

type HelperJob = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Work {
    jobs: VecDeque<HelperJob>,
    running: bool,
    /// When the last attempt to get in failed, unless one succeeded since.
    kept_out: Option<Instant>,
}

/// The result of a job. If no caller waits any more when its turn comes, the job is skipped.
pub(crate) struct HelperAnswer<T>(Arc<AnswerState<T>>);

struct AnswerState<T> {
    unwanted: AtomicBool,
    state: Mutex<(Option<Result<T>>, Option<Waker>)>,
}

impl Helper {
    /// Runs a job as soon as its turn comes, without blocking the caller. The argument of the job
    /// returns whether a caller still waits for it.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&dyn Fn() -> bool) -> Result<T> + Send + 'static,
    ) -> HelperAnswer<T> {
        let shared =
            Arc::new(AnswerState { unwanted: AtomicBool::new(false), state: Mutex::default() });
        let theirs = shared.clone();
        let asked = self.tell(move || {
            let wanted = || !theirs.unwanted.load(Ordering::SeqCst);
            if wanted() {
                let outcome = catch_unwind(AssertUnwindSafe(|| job(&wanted)));
                let panicked = |_| Err(Error::unavailable("the engine panicked over this"));
                theirs.give(outcome.unwrap_or_else(panicked));
            }
        });
        if let Err(error) = asked {
            shared.give(Err(error));
        }
        HelperAnswer(shared)
    }

    /// The same for a job without a caller.
    pub(crate) fn tell(&self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut work = self.0.lock();
        if work.jobs.len() >= JOBS_MAX {
            return Err(Error::unavailable(format!(
                "{JOBS_MAX} others wait already for a file of the store that somebody keeps locked"
            )));
        }
        work.jobs.push_back(Box::new(job));
        if !std::mem::replace(&mut work.running, true) {
            let helper = self.clone();
            let thread = thread::Builder::new().name("tenure-file-help".to_owned());
            if let Err(error) = thread.spawn(move || helper.work()) {
                work.running = false;
                work.jobs.pop_back();
                let sentence = "the system has no room for a thread that waits for a file lock";
                return Err(Error::unavailable(sentence).caused_by(error));
            }
        }
        Ok(())
    }

    /// Tries to get in, for this long at most. The time is shorter if others have just failed.
    pub(crate) fn get_in<T>(
        &self,
        patience: Patience,
        visit: impl FnOnce(Haste) -> Option<T>,
    ) -> Option<T> {
        let now = Instant::now();
        let is_kept_out = self.0.lock().kept_out.is_some_and(|at| now < at + IN_VAIN_LASTS);
        let again = now + TRIES_AGAIN_FOR;
        let patience = if is_kept_out { patience.at_most_until(again) } else { patience };
        let visited = visit(Haste::Patient(patience));
        self.0.lock().kept_out = visited.is_none().then(Instant::now);
        visited
    }

    fn work(&self) {
        loop {
            let mut work = self.0.lock();
            let Some(job) = work.jobs.pop_front() else {
                work.running = false;
                return;
            };
            drop(work);
            // A callback may panic, and the later jobs still have to run.
            let _ = catch_unwind(AssertUnwindSafe(job)); // the panic hook has reported it
        }
    }
}

impl<T> AnswerState<T> {
    fn give(&self, answer: Result<T>) {
        let mut state = self.state.lock();
        state.0 = Some(answer);
        if let Some(waker) = state.1.take() {
            drop(state);
            wake(waker);
        }
    }
}

impl<T> Future for HelperAnswer<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let mut state = self.0.state.lock();
        if let Some(answer) = state.0.take() {
            return Poll::Ready(answer);
        }
        state.1 = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for HelperAnswer<T> {
    fn drop(&mut self) {
        self.0.unwanted.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tenure_core::blocking::block_on;

    use super::*;

    #[test]
    fn a_panic_ends_one_job_and_the_next_ones_are_done() {
        let helper = Helper::default();
        let panics = helper.ask(|_| -> Result<()> { panic!("something in it may panic") });
        helper.tell(|| panic!("here as well")).unwrap();
        let works = helper.ask(|_| Ok(46));
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            tell.send(block_on(panics).map_err(|error| error.is_retryable())).unwrap();
            tell.send(block_on(works).map(|_| ()).map_err(|error| error.is_retryable())).unwrap();
        });
        let next = || told.recv_timeout(Duration::from_secs(60)).expect("it has an answer");
        assert_eq!([next(), next()], [Err(true), Ok(())]);
    }

    #[test]
    fn who_comes_after_somebody_who_tried_in_vain_tries_for_less_time() {
        let helper = Helper::default();
        let far = Patience::until(Instant::now() + Duration::from_secs(60));
        let asked = |visited: Option<()>| {
            let mut given = None;
            helper.get_in(far, |haste| {
                given = Some(haste);
                visited
            });
            given.expect("it is tried")
        };
        let less = |haste| haste != Haste::Patient(far);
        assert_eq!([asked(Some(())), asked(None)], [Haste::Patient(far); 2]);
        assert!(less(asked(None)) && less(asked(Some(()))), "somebody tried in vain before");
        assert_eq!(asked(Some(())), Haste::Patient(far), "it can be entered again");
        let soon = Patience::until(Instant::now());
        helper.get_in(soon, |_| None::<()>);
        assert!(less(asked(None)));
        helper.0.lock().kept_out = Instant::now().checked_sub(IN_VAIN_LASTS);
        assert_eq!(asked(None), Haste::Patient(far), "that was long ago");
        assert_eq!(
            helper.get_in(soon, Some),
            Some(Haste::Patient(soon)),
            "never longer than asked"
        );
    }
}
