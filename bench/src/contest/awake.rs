//! Cores that stay awake: a process of the lowest priority spins on each of them, and gives way to everybody.
//!
//! A core that sleeps takes tens of microseconds to wake up, on some machines. So everything that waits for an answer
//! is measured both ways: as the cores are, and with cores that stay awake.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::stores::Stores;
use crate::figures::Table;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

const ROLE: &str = "__contest_awake";
/// Nobody spins for longer, whatever becomes of the bench.
const SPIN_MAX: Duration = Duration::from_secs(300);

/// The rows on the cores as they are, and on cores that stay awake.
pub(crate) fn on_both(table: &mut Table, stores: Stores, rows: impl Fn(&mut Table, &Stores)) {
    rows(table, &stores);
    let stores = stores.awake();
    match Spinners::start() {
        Err(why) => table.row(stores.suite, format!("absent: {why}"), "–", "–"),
        Ok(_spinning) => rows(table, &stores),
    }
}

/// A process for each core, until this is dropped.
struct Spinners(Vec<Child>);

impl Spinners {
    fn start() -> Result<Self, String> {
        let cores = thread::available_parallelism().map_err(|error| error.to_string())?.get();
        let mut spinners = Self(Vec::new());
        for core in 0..cores {
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            // The scheduler treats a core that only carries such a process as one that is free.
            let mut spinner = Command::new("chrt");
            spinner.args(["--idle", "0"]).arg(program).args([ROLE, &core.to_string()]);
            let started = spinner.stdin(Stdio::null()).spawn();
            spinners.0.push(started.map_err(|error| format!("chrt does not start: {error}"))?);
        }
        Ok(spinners)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for spinner in &mut self.0 {
            // It may be gone already, which is just as well.
            let _ = spinner.kill();
            let _ = spinner.wait();
        }
    }
}

/// Spins, if this is such a process.
pub(crate) fn be_one(arguments: &[String]) -> bool {
    let [role, core] = arguments else { return false };
    if role != ROLE {
        return false;
    }
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let mut cores = CpuSet::new();
    cores.set(core.parse().unwrap());
    sched_setaffinity(None, &cores).unwrap();
    let began = Instant::now();
    while began.elapsed() < SPIN_MAX {
        for _ in 0..1_000_000 {
            std::hint::spin_loop();
        }
    }
    true
}
