//! A stream that never ends, and its backoff after errors.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream::{StreamExt as _, unfold};

use crate::background::backoff::Backoff;
use crate::sync::Mutex;
use crate::{Result, Runtime, Time};

const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

type Items<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send>>;

/// A stream of items. The mutex is never locked: it makes the stream `Sync`.
pub(crate) struct EventStream<T>(Mutex<Items<T>>);

/// A source that always has a next item.
pub(crate) trait Source: Send + 'static {
    type Item;

    fn next(&mut self) -> impl Future<Output = Result<Self::Item>> + Send;
}

impl<T> EventStream<T> {
    pub(crate) fn new(source: impl Source<Item = T>) -> Self {
        Self(Mutex::new(Box::pin(unfold(source, |mut source| async move {
            let item = source.next().await;
            Some((item, source))
        }))))
    }

    pub(crate) async fn next(&mut self) -> Result<T> {
        self.items().next().await.expect("it never ends")
    }

    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        self.items().as_mut().poll_next(context)
    }

    fn items(&mut self) -> &mut Items<T> {
        self.0.get_mut()
    }
}

/// A pause after a failure, which the next call waits for.
#[derive(Debug)]
pub(crate) struct Cooldown {
    backoff: Backoff,
    until: Option<Time>,
}

impl Default for Cooldown {
    fn default() -> Self {
        Self { backoff: Backoff::new(PAUSE_FIRST, PAUSE_MAX), until: None }
    }
}

impl Cooldown {
    /// Waits until the pause is over.
    pub(crate) async fn over(&self, runtime: &dyn Runtime) {
        let now = runtime.now();
        if let Some(until) = self.until.filter(|until| !now.has_reached(*until)) {
            runtime.sleep(now.until(until)).await;
        }
    }

    /// Passes the outcome on. A failure begins a pause, and a success resets the backoff.
    pub(crate) fn after<T>(&mut self, outcome: Result<T>, runtime: &dyn Runtime) -> Result<T> {
        if outcome.is_ok() {
            *self = Self::default();
        } else {
            self.until = Some(runtime.now().plus(self.backoff.next(runtime.random())));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::fake_runtime::FakeRuntime;
    use crate::{Clock as _, Error};

    #[test]
    fn a_rest_grows_with_each_failure_up_to_a_bound_and_is_over_after_a_success() {
        let (runtime, mut rest, mut slept) =
            (FakeRuntime::default(), Cooldown::default(), Vec::new());
        crate::blocking::block_on(async {
            for _ in 0..40 {
                let failed = rest.after(Err::<(), _>(Error::unavailable("silence")), &runtime);
                assert!(failed.is_err(), "it is passed on");
                let began = runtime.now();
                rest.over(&runtime).await;
                slept.push(began.until(runtime.now()));
            }
            rest.after(Ok(()), &runtime).unwrap();
            let began = runtime.now();
            rest.over(&runtime).await;
            assert_eq!(runtime.now(), began, "there is none after a success");
        });
        let planned = (0..40).map(|n| (PAUSE_FIRST * (1 << n.min(10))).min(PAUSE_MAX));
        for (slept, planned) in slept.into_iter().zip(planned) {
            assert!((planned * 9 / 10..=planned).contains(&slept), "{slept:?} for {planned:?}");
        }
    }
}
