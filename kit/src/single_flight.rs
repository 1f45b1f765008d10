//! One request that many callers want: it runs once at a time, and callers that come meanwhile
//! share the next run. So a slow store gets no more requests for being slow.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// The runs of one request, whose answer is a `T`. An error is shared as any other answer.
#[derive(Debug)]
pub struct SingleFlight<T> {
    /// The number of runs that have begun.
    begun: AtomicU64,
    last: Mutex<Option<Run<T>>>,
}

/// A run that was answered.
#[derive(Debug)]
struct Run<T> {
    number: u64,
    answer: T,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self { begun: AtomicU64::default(), last: Mutex::default() }
    }
}

impl<T: Clone> SingleFlight<T> {
    /// Returns the answer of a run that begins after this call: of `request`, or of another
    /// caller's.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped during its run, the next caller runs its own request.
    pub async fn run(&self, request: impl Future<Output = T>) -> T {
        let begun = self.begun.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.number > begun) {
            return last.answer.clone();
        }
        let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let answer = request.await;
        *last = Some(Run { number, answer: answer.clone() });
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt as _;
    use futures_util::future::{join, join_all};
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn callers_that_come_during_a_run_share_the_next_one() {
        let (flight, begun, gate) = (SingleFlight::default(), AtomicU64::new(0), Semaphore::new(0));
        let request = async || {
            let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
            gate.acquire().await.unwrap().forget();
            number
        };
        let all = join_all((0..10).map(|_| flight.run(request())));
        let (answers, ()) = join(all, async { gate.add_permits(10) }).await;
        assert_eq!(answers, [1, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!(flight.run(request()).await, 3, "a later caller has a run of its own");
    }

    #[tokio::test]
    async fn a_run_that_is_dropped_leaves_the_request_to_the_next_caller() {
        let flight = SingleFlight::default();
        let mut first = Box::pin(flight.run(pending()));
        assert!((&mut first).now_or_never().is_none());
        let mut second = Box::pin(flight.run(async { 2 }));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        assert_eq!(second.now_or_never(), Some(2));
    }
}
