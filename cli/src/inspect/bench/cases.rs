//! The cases that one process measures alone.

use std::thread;
use std::time::{Duration, Instant};

use tenure::Locks;

use super::Bench;
use super::outcome::Outcome;
use crate::failure::Failure;

/// Maximum number of measurements of a task.
const ROUNDS_MAX: usize = 200_000;

/// The measurements of one task.
struct Lap {
    times_ns: Vec<u64>,
}

/// Locks and releases one key.
pub(super) fn free(bench: &Bench) -> Result<Outcome, Failure> {
    let began = Instant::now();
    let lap = rounds(&bench.locks, &bench.key("free"), bench.time, Timed::Whole)?;
    Ok(Outcome::new("free", began.elapsed(), lap.times_ns))
}

/// Locks and releases with many tasks, each with its own key.
pub(super) fn parallel(bench: &Bench) -> Result<Outcome, Failure> {
    let own = |task: usize| bench.key(&format!("parallel {task}"));
    let (took, laps) = together(bench, own, Timed::Whole)?;
    let times = laps.into_iter().flat_map(|lap| lap.times_ns).collect();
    Ok(Outcome::new("parallel", took, times).and("tasks", bench.tasks as u64))
}

/// Many tasks compete for one key.
pub(super) fn crowd(bench: &Bench) -> Result<Outcome, Failure> {
    let (took, laps) = together(bench, |_| bench.key("crowd"), Timed::Wait)?;
    let counts: Vec<u64> = laps.iter().map(|lap| lap.times_ns.len() as u64).collect();
    let times: Vec<u64> = laps.into_iter().flat_map(|lap| lap.times_ns).collect();
    let longest_us = times.iter().max().copied().unwrap_or(0) / 1_000;
    Ok(Outcome::new("crowd", took, times)
        .and("tasks", bench.tasks as u64)
        .and("least", counts.iter().min().copied().unwrap_or(0))
        .and("most", counts.iter().max().copied().unwrap_or(0))
        .and("longest_us", longest_us))
}

/// The measured part of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    /// Lock and release.
    Whole,
    /// Only the lock.
    Wait,
}

fn together(
    bench: &Bench,
    key: impl Fn(usize) -> String,
    timed: Timed,
) -> Result<(Duration, Vec<Lap>), Failure> {
    let began = Instant::now();
    let laps: Vec<Result<Lap, Failure>> = thread::scope(|scope| {
        let start = |task| {
            let (key, locks) = (key(task), &bench.locks);
            scope.spawn(move || rounds(locks, &key, bench.time, timed))
        };
        let tasks: Vec<_> = (0..bench.tasks).map(start).collect();
        tasks.into_iter().map(|task| task.join().expect("a task does not panic")).collect()
    });
    let took = began.elapsed();
    Ok((took, laps.into_iter().collect::<Result<_, _>>()?))
}

fn rounds(locks: &Locks, key: &str, time: Duration, timed: Timed) -> Result<Lap, Failure> {
    let mutex = locks.blocking().mutex(key);
    let began = Instant::now();
    let mut times_ns = Vec::new();
    while began.elapsed() < time && times_ns.len() < ROUNDS_MAX {
        let start = Instant::now();
        let guard = mutex.lock()?;
        let waited = start.elapsed();
        guard.release()?;
        let taken = if timed == Timed::Wait { waited } else { start.elapsed() };
        times_ns.push(u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(Lap { times_ns })
}
