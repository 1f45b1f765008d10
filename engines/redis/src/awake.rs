//! Staying awake: who asks for a lock looks for the answer again and again for a moment, before the thread sleeps.
//!
//! A server nearby may answer sooner than a sleeping thread wakes up; one that shares its core with whoever
//! stays awake answers later for it. So both ways are timed, and the one that brings answers sooner is taken.
//! Between two looks the runtime's other tasks have their turn.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;

/// The longest anybody stays awake for an answer.
const AWAKE_MAX: Duration = Duration::from_micros(100);
/// One in so many goes the other way, to find out whether it has become the better one.
const TRIAL_EVERY: u32 = 16;
/// An answer that is later than this says nothing of either way.
const TYPICAL_MAX_NS: u32 = 1_000_000;

/// How soon the answers of one connection come, either way.
#[derive(Default)]
pub(crate) struct Awake {
    asked: AtomicU32,
    sleeping: Typical,
    looking: Typical,
}

/// What an answer takes, about; zero as long as there was none.
#[derive(Default)]
struct Typical(AtomicU32);

impl Awake {
    /// Waits for an answer.
    pub(crate) async fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        let began = Instant::now();
        if self.stays_awake() {
            let answer = look_again(began, answer).await;
            self.looking.learn(began.elapsed());
            answer
        } else {
            let answer = answer.await;
            self.sleeping.learn(began.elapsed());
            answer
        }
    }

    fn stays_awake(&self) -> bool {
        let is_trial = self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRIAL_EVERY);
        self.is_worth_it() != is_trial
    }

    /// It must be so by an eighth: it costs processor time.
    fn is_worth_it(&self) -> bool {
        let (looking, sleeping) = (self.looking.ns(), self.sleeping.ns());
        looking > 0 && looking + looking / 8 < sleeping
    }
}

async fn look_again<T>(began: Instant, answer: impl Future<Output = T>) -> T {
    let mut answer = pin!(answer);
    while began.elapsed() < AWAKE_MAX {
        if let Some(answer) = (&mut answer).now_or_never() {
            return answer;
        }
        tokio::task::yield_now().await;
    }
    answer.await
}

impl Typical {
    fn ns(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn learn(&self, took: Duration) {
        let took = u32::try_from(took.as_nanos()).unwrap_or(u32::MAX);
        if took > TYPICAL_MAX_NS {
            return;
        }
        let known = self.ns();
        let typical = if known == 0 { took } else { known - known / 8 + took / 8 };
        self.0.store(typical.max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    fn after(asleep_us: u64, awake_us: u64) -> Awake {
        let awake = Awake::default();
        for _ in 0..100 {
            awake.sleeping.learn(Duration::from_micros(asleep_us));
            awake.looking.learn(Duration::from_micros(awake_us));
        }
        awake
    }

    fn times_awake(awake: &Awake) -> usize {
        (0..160).filter(|_| awake.stays_awake()).count()
    }

    #[test]
    fn the_way_that_brings_answers_sooner_is_taken_and_the_other_one_tried_now_and_then() {
        assert_eq!(times_awake(&after(75, 45)), 150);
        assert_eq!(times_awake(&after(25, 35)), 10);
        assert_eq!(times_awake(&after(500, 500)), 10, "far away it makes no difference");
        assert_eq!(times_awake(&Awake::default()), 10, "nothing is known yet");
    }

    #[test]
    fn what_has_changed_is_found_out() {
        let awake = after(75, 45);
        for _ in 0..40 {
            awake.sleeping.learn(Duration::from_micros(20));
        }
        assert_eq!(times_awake(&awake), 10);
        awake.sleeping.learn(Duration::from_secs(2));
        assert_eq!(times_awake(&awake), 10, "an outage says nothing");
    }

    #[tokio::test]
    async fn an_answer_is_passed_on_either_way() {
        for awake in [after(75, 45), after(25, 35)] {
            assert_eq!(awake.wait(ready(7)).await, 7);
            let slow = tokio::time::sleep(AWAKE_MAX * 10).map(|()| 8);
            assert_eq!(awake.wait(slow).await, 8);
        }
    }
}
