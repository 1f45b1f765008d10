//! Checks that use private keys: round trips, the hand-over to a waiter, the store's clock.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tenure::blocking::block_on;
use tenure::guarantees::Liveness;
use tenure::inspect::TicketId;
use tenure::{ErrorKind, Locks, MutexGuard, registry};

use super::finding::{Finding, Verdict};
use crate::failure::{Failure, REFUSED, UNREACHABLE};

/// Number of reads that are measured.
const READS: usize = 20;
/// Number of hand-overs that are measured.
const ROUNDS: usize = 3;
/// Pause before the first release. Polls of a waiter are a second apart by then, so that a push is
/// distinguishable from them.
const SETTLES: Duration = Duration::from_millis(1_500);
/// Pause between two looks at a line.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Maximum wait for a free lock, in which the library retries: a store that takes no locks is
/// reported by then.
const LOCK_MAX: Duration = Duration::from_secs(5);
/// Maximum wait for a lock of a private key. It exceeds the interval between two renewals, which
/// find a release without a push.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// A median wait up to this, and a few round trips, comes from a push.
const PUSHED: Duration = Duration::from_millis(100);
/// A median wait from this on does not come from a push.
const POLLED: Duration = Duration::from_millis(500);
/// Clocks that differ by more are a warning.
const SKEW_MAX: Duration = Duration::from_secs(1);

/// The keys that only this run uses.
pub(super) struct PrivateKey {
    name: String,
    locks: Locks,
}

/// A wait that has ended: when, and with what.
type Served = (Instant, tenure::Result<Option<MutexGuard>>);

/// Measures a few reads of an empty line. The store may refuse to read this line, for example in a
/// damaged file.
pub(super) async fn round_trips(
    locks: &Locks,
    private: &PrivateKey,
) -> tenure::Result<(Vec<Duration>, Finding)> {
    const CHECK: &str = "round-trip";
    let mut trips = Vec::with_capacity(READS);
    for _ in 0..READS {
        let began = Instant::now();
        match locks.line(&private.name).await {
            Err(error) if error.kind() == ErrorKind::Rejected => {
                let text = format!("the store refuses a read: {error}");
                return Ok((Vec::new(), Finding::new(CHECK, CHECK, Verdict::Warning, text)));
            }
            line => line?,
        };
        trips.push(began.elapsed());
    }
    trips.sort_unstable();
    let finding = times(CHECK, Verdict::Ok, "the store answers a read in", &trips);
    Ok((trips, finding))
}

/// Reports sorted times.
fn times(check: &'static str, verdict: Verdict, begins: &str, sorted: &[Duration]) -> Finding {
    let (median, worst) = (median(sorted), sorted.last().copied().unwrap_or_default());
    let text =
        format!("{begins} {median:.1?} (median of {}; the worst took {worst:.1?})", sorted.len());
    let mut finding = Finding::new(check, check, verdict, text);
    finding.figures = vec![("median_us", micros(median)), ("worst_us", micros(worst))];
    finding
}

impl PrivateKey {
    pub(super) fn fresh(locks: &Locks) -> Self {
        Self { name: format!("tenure-doctor/{}", TicketId::fresh()), locks: locks.clone() }
    }

    /// Locks private keys, and hands them over to waiters of another client. Reports on the push
    /// and on the clock, and returns whether the store takes locks.
    pub(super) fn try_out(
        &self,
        url: &str,
        trips: &[Duration],
    ) -> Result<(Vec<Finding>, bool), Failure> {
        match self.hand_over(url) {
            Ok((mut waits, clock)) => {
                waits.sort_unstable();
                Ok(([self.judged(&waits, trips)].into_iter().chain(clock).collect(), true))
            }
            Err(error) => {
                let failure = Failure::from(error);
                if ![REFUSED, UNREACHABLE].contains(&failure.code()) {
                    return Err(failure);
                }
                if failure.code() == REFUSED {
                    // The locks of private keys that were given before the refusal.
                    block_on(self.locks.flush());
                }
                let text = format!("no lock was given: {}", failure.sentence());
                let finding = Finding::new("hand-over", "hand-over", Verdict::Warning, text);
                Ok((vec![finding], failure.code() == REFUSED))
            }
        }
    }

    /// Returns the time of each hand-over, and a finding about the clock if the store shows it.
    fn hand_over(&self, url: &str) -> tenure::Result<(Vec<Duration>, Option<Finding>)> {
        // Another client: an engine may serve the waiters of its own client without the store.
        let other = block_on(registry::open(url))?.locks;
        let key = |round: usize| format!("{}/{round}", self.name);
        let mut rounds: Vec<(MutexGuard, Receiver<Served>)> = Vec::new();
        let mut clock = None;
        for round in 0..ROUNDS {
            let before = SystemTime::now();
            let lock = self.locks.mutex(key(round)).try_lock_for(LOCK_MAX);
            let Some(guard) = block_on(lock)? else {
                return Err(tenure::Error::unavailable("a private key is busy"));
            };
            let after = SystemTime::now();
            if round == 0 {
                clock = self.clock(&key(round), before, after)?;
            }
            rounds.push((guard, wait_in_line(&other, key(round))));
        }
        for round in 0..ROUNDS {
            self.until_two(&key(round))?;
        }
        thread::sleep(SETTLES);
        let mut waits = Vec::new();
        for (guard, served) in rounds {
            let released = Instant::now();
            block_on(guard.release())?;
            // The thread sends once, unless it has panicked.
            let (at, guard) = served
                .recv()
                .map_err(|_| tenure::Error::unavailable("a waiter ended without an answer"))?;
            waits.push(at.saturating_duration_since(released));
            if let Some(guard) = guard? {
                block_on(guard.release())?;
            }
        }
        block_on(other.close());
        Ok((waits, clock))
    }

    /// Waits until a line has its waiter.
    fn until_two(&self, key: &str) -> tenure::Result<()> {
        let began = Instant::now();
        while block_on(self.locks.line(key))?.len() < 2 && began.elapsed() < WAIT_MAX {
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn judged(&self, waits: &[Duration], trips: &[Duration]) -> Finding {
        let median_wait = median(waits);
        let (verdict, begins) = if !self.locks.guarantees().push {
            (Verdict::Note, "waiters poll, and one is served after a release in")
        } else if median_wait <= PUSHED + 5 * median(trips) {
            (Verdict::Ok, "a push serves the next waiter in")
        } else if median_wait < POLLED {
            (Verdict::Note, "a late push or a poll serves the next waiter in")
        } else {
            (Verdict::Warning, "no push arrives in time, and the next waiter is served in")
        };
        times("hand-over", verdict, begins, waits)
    }

    /// Compares the store's clock with that of this machine, by the time at which a ticket joined.
    fn clock(
        &self,
        key: &str,
        before: SystemTime,
        after: SystemTime,
    ) -> tenure::Result<Option<Finding>> {
        if self.locks.guarantees().liveness != Liveness::Lease {
            return Ok(None);
        }
        let line = block_on(self.locks.line(key))?;
        let Some(joined) = line.first().and_then(|holder| holder.since) else { return Ok(None) };
        Ok(after.duration_since(before).ok().map(|took| skew(joined, before + took / 2, took / 2)))
    }
}

/// Starts a thread that waits for a lock. The channel gets one answer.
fn wait_in_line(locks: &Locks, key: String) -> Receiver<Served> {
    let (sender, receiver) = mpsc::channel();
    let locks = locks.clone();
    thread::spawn(move || {
        let guard = block_on(locks.mutex(key).try_lock_for(WAIT_MAX));
        let _ = sender.send((Instant::now(), guard)); // the check has failed elsewhere
    });
    receiver
}

/// Reports how far the store's clock is ahead of this machine's.
fn skew(store: SystemTime, here: SystemTime, within: Duration) -> Finding {
    let (ahead, word, sign) = match store.duration_since(here) {
        Ok(ahead) => (ahead, "ahead of", 1),
        Err(behind) => (behind.duration(), "behind", -1),
    };
    let is_far = ahead.saturating_sub(within) > SKEW_MAX;
    let text = format!(
        "the store's clock is {ahead:.1?} {word} this machine's, give or take {within:.1?}"
    );
    let (verdict, more) = if is_far {
        (Verdict::Warning, ": ages are wrong by that, so let NTP keep both clocks")
    } else {
        (Verdict::Ok, "")
    };
    let mut finding = Finding::new("clock", "clock", verdict, text + more);
    finding.figures = vec![("ahead_us", sign * micros(ahead)), ("within_us", micros(within))];
    finding
}

fn median(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_clock_is_warned_of_only_if_it_is_surely_wrong() {
        let here = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let verdict = |ahead: i64, within: u64| {
            let by = Duration::from_millis(ahead.unsigned_abs());
            let store = if ahead < 0 { here - by } else { here + by };
            let finding = skew(store, here, Duration::from_millis(within));
            assert_eq!(finding.figures[0], ("ahead_us", ahead * 1_000));
            finding.verdict
        };
        assert_eq!(verdict(300, 1), Verdict::Ok);
        assert_eq!(verdict(3_000, 2_500), Verdict::Ok);
        assert_eq!(verdict(3_000, 10), Verdict::Warning);
        assert_eq!(verdict(-3_000, 10), Verdict::Warning);
    }

    #[test]
    fn times_have_a_median_and_a_worst() {
        let sorted: Vec<_> = (1..=4).map(Duration::from_millis).collect();
        let finding = times("hand-over", Verdict::Ok, "in", &sorted);
        assert_eq!(finding.figures, [("median_us", 2_000), ("worst_us", 4_000)]);
        assert_eq!(finding.text, "in 2.0ms (median of 4; the worst took 4.0ms)");
        assert_eq!(median(&[]), Duration::ZERO);
    }
}
