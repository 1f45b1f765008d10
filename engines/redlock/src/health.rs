//! The health of a quorum: the last answer of each store.

use std::fmt;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tenure_core::sync::Mutex;
use tenure_core::{Error, Result};

/// Maximum lead of a store's clock without a warning.
const SKEW_MAX: Duration = Duration::from_secs(1);

/// The last answer of each store of a [`Quorum`](crate::Quorum). Clones share the state.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use tenure_core::layers::AnyEngine;
/// use tenure_core::{BackgroundRuntime, Locks, Memory};
/// use tenure_redlock::Quorum;
///
/// # tenure_core::blocking::block_on(async {
/// let host = Arc::new(BackgroundRuntime::for_timers());
/// let stores = (0..3).map(|_| AnyEngine::new(Memory::new()));
/// let quorum = Quorum::new(stores, host.clone(), Duration::from_millis(250))?;
/// let health = quorum.health();
/// let guard = Locks::on(quorum, host).mutex("invoices/42").lock().await?;
/// println!("{health}");
/// assert_eq!(health.answers().len(), 3);
/// # drop(guard);
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct QuorumHealth(Arc<[Mutex<NodeHealth>]>);

/// The last answer of one store.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use tenure_core::layers::AnyEngine;
/// use tenure_core::{BackgroundRuntime, Memory};
/// use tenure_redlock::Quorum;
///
/// let host = Arc::new(BackgroundRuntime::for_timers());
/// let stores = (0..3).map(|_| AnyEngine::new(Memory::new()));
/// let quorum = Quorum::new(stores, host, Duration::from_millis(250))?;
/// let first = &quorum.health().answers()[0];
/// assert_eq!(first.name, "store 1");
/// assert!(first.last.is_none(), "it was not asked yet");
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The name of the store.
    pub name: String,
    /// The last answer or error. `None`: it was not asked yet.
    pub last: Option<Result<()>>,
    /// The lead of its clock over the other stores, if more than one second. Its numbers are the
    /// quorum's tokens. If it is lost, tokens may go back.
    pub ahead: Option<Duration>,
}

impl QuorumHealth {
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        let unknown = |name| Mutex::new(NodeHealth { name, last: None, ahead: None });
        Self(names.into_iter().map(unknown).collect())
    }

    /// The last answer of each store, in order.
    pub fn answers(&self) -> Vec<NodeHealth> {
        (0..self.0.len()).map(|store| self.of(store).clone()).collect()
    }

    /// All stores, for messages.
    pub(crate) fn names(&self) -> String {
        let names: Vec<String> = self.answers().into_iter().map(|store| store.name).collect();
        format!("the quorum of {}", names.join(", "))
    }

    pub(crate) fn of(&self, store: usize) -> MutexGuard<'_, NodeHealth> {
        self.0[store].lock()
    }

    /// A warning for each store whose clock is ahead.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let ahead = self.answers().into_iter().filter_map(|store| Some((store.name, store.ahead?)));
        ahead.map(|(name, ahead)| format!("{name}: {}; set it", clock_is_ahead(ahead))).collect()
    }

    /// Whether the store answered the last request, or was not asked yet.
    pub(crate) fn is_well(&self, store: usize) -> bool {
        self.of(store).last.as_ref().is_none_or(Result::is_ok)
    }

    pub(crate) fn write(&self, store: usize, error: Option<&Error>) {
        self.of(store).last = Some(error.map_or(Ok(()), |error| Err(error.clone())));
    }

    /// Records the numbers that the stores gave at one time. Each is its clock in microseconds, or
    /// larger.
    pub(crate) fn compare(&self, numbers: &[(usize, u64)]) {
        let mut sorted: Vec<u64> = numbers.iter().map(|(_, number)| *number).collect();
        sorted.sort_unstable();
        let Some(middle) = sorted.get(sorted.len().saturating_sub(1) / 2) else { return };
        for (store, number) in numbers {
            let ahead = Duration::from_micros(number.saturating_sub(*middle));
            if ahead > SKEW_MAX {
                self.of(*store).ahead = Some(ahead);
            }
        }
    }
}

fn clock_is_ahead(ahead: Duration) -> String {
    format!("its clock is, or was, {} s ahead of the other stores'", ahead.as_secs())
}

/// One line for each store.
impl fmt::Display for QuorumHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, store) in self.answers().into_iter().enumerate() {
            let end = if count == 0 { "" } else { "\n" };
            match store.last {
                None => write!(f, "{end}{}: not asked yet", store.name)?,
                Some(Ok(())) => write!(f, "{end}{}: answers", store.name)?,
                Some(Err(error)) => write!(f, "{end}{}: {error}", store.name)?,
            }
            if let Some(ahead) = store.ahead {
                write!(f, "; {}", clock_is_ahead(ahead))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_store_is_shown_with_its_error() {
        let health = QuorumHealth::new(["a:1".to_owned(), "b:2".to_owned()]);
        health.write(0, Some(&Error::unavailable("it cannot be reached")));
        health.write(1, Some(&Error::unavailable("no answer within 250ms")));
        assert_eq!(health.to_string(), "a:1: it cannot be reached\nb:2: no answer within 250ms");
    }

    #[test]
    fn a_clock_is_compared_with_the_one_in_the_middle() {
        let seconds = |seconds: u64| seconds * 1_000_000;
        let skew = u64::try_from(SKEW_MAX.as_micros()).unwrap();
        let ahead = |numbers: [u64; 5]| {
            let health = QuorumHealth::new(["a", "b", "c", "d", "e"].map(String::from));
            let numbers: Vec<_> = numbers.into_iter().enumerate().collect();
            health.compare(&numbers);
            health.answers().iter().map(|store| store.ahead.is_some()).collect::<Vec<_>>()
        };
        let (early, late) = (seconds(100), seconds(200));
        assert_eq!(ahead([early, late, late, late, late]), [false; 5], "one is behind");
        let one = [false, true, false, false, false];
        assert_eq!(ahead([early, late, early, early, early]), one);
        assert_eq!(ahead([early, early + skew, early, early, early]), [false; 5]);
        assert_eq!(ahead([early, early + skew + 1, early, early, early]), one);
    }
}
