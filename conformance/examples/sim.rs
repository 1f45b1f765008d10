//! Runs simulated stories by their seeds: a million of them, or one with its log.
//!
//! ```text
//! sim --seeds 1000000 [--from N] [--jobs J]
//! sim --seed N
//! ```

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tenure_conformance::sim::Tale;

#[derive(Clone, Copy)]
struct Wanted {
    seed: Option<u64>,
    seeds: u64,
    from: u64,
    jobs: u64,
}

fn main() -> ExitCode {
    let Some(wanted) = wanted() else {
        eprintln!("usage: sim --seeds COUNT [--from N] [--jobs J], or: sim --seed N");
        return ExitCode::from(64);
    };
    match wanted.seed {
        Some(seed) => play_one(seed),
        None => play_many(wanted),
    }
}

fn wanted() -> Option<Wanted> {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut wanted = Wanted { seed: None, seeds: 10_000, from: 0, jobs: cores };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let number = words.next()?.parse().ok()?;
        match word.as_str() {
            "--seed" => wanted.seed = Some(number),
            "--seeds" => wanted.seeds = number,
            "--from" => wanted.from = number,
            "--jobs" => wanted.jobs = number.max(1),
            _ => return None,
        }
    }
    Some(wanted)
}

fn play_one(seed: u64) -> ExitCode {
    let ending = Tale::new().with_log().play(seed);
    println!("{ending}");
    if ending.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Every job takes the next seed, until there is none or a promise is broken.
fn play_many(wanted: Wanted) -> ExitCode {
    let next = Arc::new(AtomicU64::new(wanted.from));
    let broken = Arc::new(AtomicBool::new(false));
    let end = wanted.from.saturating_add(wanted.seeds);
    let jobs: Vec<_> = (0..wanted.jobs)
        .map(|_| {
            let (next, broken) = (next.clone(), broken.clone());
            thread::spawn(move || {
                let (mut grants, mut losses) = (0, 0);
                while !broken.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let ending = Tale::new().play(seed);
                    grants += ending.counts.grants;
                    losses += ending.counts.losses;
                    if ending.violation.is_some() {
                        broken.store(true, Ordering::Relaxed);
                        println!("{ending}");
                    }
                    if (seed + 1).is_multiple_of(100_000) {
                        println!("{} seeds", seed + 1 - wanted.from);
                    }
                }
                (grants, losses)
            })
        })
        .collect();
    let (mut grants, mut losses) = (0, 0);
    for job in jobs {
        let Ok((granted, lost)) = job.join() else { return ExitCode::FAILURE };
        grants += granted;
        losses += lost;
    }
    println!("{} seeds: {grants} grants, {losses} losses", wanted.seeds);
    if broken.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
