//! `tenure run` beside `flock(1)`: each is a process that starts another one.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::figures::{Table, median, ms, times};

/// Runs of each, in turn.
const ROUNDS: usize = 300;

pub(crate) fn run(table: &mut Table) {
    let (case, wanted) = ("command: `tenure run k -- true`", "≤ 1.8 ×");
    let folder = tempfile::tempdir().unwrap();
    let Some(tenure) = tenure() else {
        return table.row(case, "absent: it is built beside the bench", "–", wanted);
    };
    let (file, store) = (folder.path().join("file"), folder.path().join("store"));
    let flock = || {
        let mut flock = Command::new("flock");
        flock.arg(&file).arg("true");
        flock
    };
    let ours = || {
        let mut ours = Command::new(&tenure);
        ours.args(["run", "k", "--", "true"]).env("TENURE_ON", format!("file:{}", store.display()));
        ours
    };
    if flock().status().is_err() {
        return table.row(case, "nothing to compare with: `flock` is absent", "–", wanted);
    }
    let (mut floor, mut took) = (Vec::new(), Vec::new());
    // The first run creates the store.
    once(ours());
    for _ in 0..ROUNDS {
        floor.push(once(flock()));
        took.push(once(ours()));
    }
    let (floor, took) = (median(&mut floor), median(&mut took));
    table.row("command: `flock FILE true`, the floor", ms(floor), "1", "–");
    table.row(case, ms(took), format!("{:.2} × the floor", times(took, floor)), wanted);
}

fn once(mut command: Command) -> Duration {
    command.stdin(Stdio::null());
    let start = Instant::now();
    let ended = command.status().unwrap();
    assert!(ended.success(), "{ended}");
    start.elapsed()
}

/// The program, built beside this one.
fn tenure() -> Option<PathBuf> {
    let bench = std::env::current_exe().unwrap();
    let name = format!("tenure{}", std::env::consts::EXE_SUFFIX);
    Some(bench.with_file_name(name)).filter(|path| path.is_file())
}
