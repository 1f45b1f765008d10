//! Cores that stay awake: a process of the lowest priority spins on each, and yields to all others.
//!
//! On some machines a core that sleeps takes tens of µs to wake up. So each case that waits for an
//! answer is measured both ways: with the cores as they are, and with cores that stay awake.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::stores::Stores;
use crate::figures::Table;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

const ROLE: &str = "__contest_awake";
/// Maximum time of a spinner, in case the bench does not stop it.
const SPIN_MAX: Duration = Duration::from_secs(300);

/// Measures the rows twice: with the cores as they are, and with cores that stay awake.
pub(crate) fn on_both(table: &mut Table, stores: Stores, rows: impl Fn(&mut Table, &Stores)) {
    rows(table, &stores);
    let stores = stores.awake();
    match Spinners::start() {
        Err(why) => table.row(stores.suite, format!("absent: {why}"), "–", "–"),
        Ok(_spinners) => rows(table, &stores),
    }
}

/// A spinning process for each core. Dropping this kills them.
struct Spinners(Vec<Child>);

impl Spinners {
    fn start() -> Result<Self, String> {
        let cores = thread::available_parallelism().map_err(|error| error.to_string())?.get();
        let mut spinners = Self(Vec::new());
        for core in 0..cores {
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            // The scheduler treats a core that runs only an idle-class process as free.
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
            // A failure means that it has exited already.
            let _ = spinner.kill();
            let _ = spinner.wait();
        }
    }
}

/// Spins, if this is a spinner process.
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
