//! Tasks that take turns: the turns of each, the longest wait, and whether two ever hold at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::contender::{Contender, Held};
use super::entrant::Round;
use super::side::{GONE, Side};
use crate::figures::{grouped, per_second, readable};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// All tasks use the same key.
    One,
    /// Each task has a key of its own.
    Own,
}

#[derive(Default)]
pub(crate) struct Turns {
    /// Turns of each task.
    counts: Vec<u64>,
    time: Duration,
    longest_wait: Duration,
    /// Turns in which another task held the same key.
    overlaps: u64,
    pub(crate) failure: Option<String>,
}

impl Turns {
    /// The time and the turns of all tasks.
    pub(crate) fn round(&self) -> Round {
        Round { time: self.time, pairs: self.counts.iter().sum() }
    }

    fn each(&self) -> Duration {
        let turns = self.counts.iter().sum::<u64>().max(1);
        self.time / u32::try_from(turns).unwrap()
    }

    pub(crate) fn and(mut self, more: Self) -> Self {
        self.counts.resize(more.counts.len(), 0);
        for (count, more) in self.counts.iter_mut().zip(more.counts) {
            *count += more;
        }
        self.time += more.time;
        self.longest_wait = self.longest_wait.max(more.longest_wait);
        self.overlaps += more.overlaps;
        self.failure = self.failure.or(more.failure);
        self
    }

    /// The rate, the fewest and most turns of a task, the longest wait, and overlaps.
    pub(crate) fn describe(&self) -> String {
        if let Some(failure) = &self.failure {
            return failure.clone();
        }
        let least = self.counts.iter().min().copied().unwrap_or_default();
        let most = self.counts.iter().max().copied().unwrap_or_default();
        format!(
            "{}, {}–{} per task, longest wait {}{}",
            per_second(self.each()),
            grouped(least),
            grouped(most),
            readable(self.longest_wait),
            alarm(self.overlaps)
        )
    }
}

/// A warning, if two tasks ever held at once.
pub(crate) fn alarm(overlaps: u64) -> String {
    match overlaps {
        0 => String::new(),
        count => format!(", **two held at once, {} times**", grouped(count)),
    }
}

/// Runs `tasks` tasks that lock and release for `time`.
pub(crate) async fn take(
    contender: Arc<dyn Contender>,
    tasks: usize,
    keys: Keys,
    time: Duration,
) -> Turns {
    let inside = Arc::new(AtomicUsize::new(0));
    let end = Instant::now() + time;
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let key = match keys {
                Keys::One => "turns".to_owned(),
                Keys::Own => format!("turns-{task}"),
            };
            let task = Task { contender: contender.clone(), inside: inside.clone(), key, keys };
            tokio::spawn(task.run(end))
        })
        .collect();
    let mut all = Turns { time, ..Turns::default() };
    for task in tasks {
        let own = task.await.unwrap();
        all.counts.extend(own.counts);
        all.longest_wait = all.longest_wait.max(own.longest_wait);
        all.overlaps += own.overlaps;
        all.failure = all.failure.or(own.failure);
    }
    all
}

struct Task {
    contender: Arc<dyn Contender>,
    inside: Arc<AtomicUsize>,
    key: String,
    keys: Keys,
}

impl Task {
    async fn run(self, end: Instant) -> Turns {
        let mut turns = Turns { counts: vec![0], ..Turns::default() };
        loop {
            let asked = Instant::now();
            if asked >= end {
                return turns;
            }
            match self.contender.lock(&self.key).await {
                Ok(held) => {
                    turns.longest_wait = turns.longest_wait.max(asked.elapsed());
                    turns.counts[0] += u64::from(Instant::now() < end);
                    turns.overlaps += u64::from(self.hold(held).await);
                }
                Err(failure) => {
                    turns.failure = Some(failure);
                    return turns;
                }
            }
        }
    }

    /// Holds the lock across a yield, and returns whether another task held it too.
    async fn hold(&self, held: Held) -> bool {
        let mut overlap = false;
        if self.keys == Keys::One {
            overlap = self.inside.fetch_add(1, Ordering::Relaxed) > 0;
            tokio::task::yield_now().await;
            self.inside.fetch_sub(1, Ordering::Relaxed);
        }
        held.release.await;
        overlap
    }
}

/// The same in another process, which counts its turns.
pub(crate) fn elsewhere(side: &mut Side, tasks: usize, keys: Keys, time: Duration) -> Turns {
    let keys = if keys == Keys::Own { "own" } else { "one" };
    let answer = side.ask(&format!("turns {tasks} {keys} {}", time.as_secs_f64()));
    let mut numbers = answer.split(' ').map_while(|number| number.parse().ok());
    let (Some(longest), Some(overlaps)) = (numbers.next(), numbers.next()) else {
        return Turns { failure: Some(GONE.into()), ..Turns::default() };
    };
    let longest_wait = Duration::from_nanos(longest);
    Turns { counts: numbers.collect(), time, longest_wait, overlaps, failure: None }
}
