//! The processes of one server: the postmaster, and its children, which share its data folder.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::Result;
use crate::patience::until;

/// Returns the processes whose working folder is the data folder. Only those of the server have it,
/// also after the end of the postmaster.
fn of(data: &Path) -> Result<Vec<Pid>> {
    let all = fs::read_dir("/proc").map_err(|error| format!("/proc cannot be read: {error}."))?;
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let inside = pids.filter(|pid: &i32| {
        // Fails if the process has ended.
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|folder| folder == data)
    });
    Ok(inside.filter_map(Pid::from_raw).collect())
}

/// Sends a signal to each process.
pub(super) fn signal(data: &Path, signal: Signal) -> Result<()> {
    for pid in of(data)? {
        // Fails if the process has ended since it was listed.
        let _ = kill_process(pid, signal);
    }
    Ok(())
}

/// Kills all processes, and waits for their end. The postmaster has ended: it would start others.
pub(super) fn kill(data: &Path) -> Result<()> {
    until(|| {
        signal(data, Signal::KILL)?;
        let left = of(data)?;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} of a killed server are left.")) }
    })
}

/// Freezes all processes, and waits until they are stopped. The postmaster is frozen already.
pub(super) fn freeze(data: &Path) -> Result<()> {
    signal(data, Signal::STOP)?;
    until(|| match of(data)?.into_iter().find(|&pid| runs(pid)) {
        Some(pid) => Err(format!("{pid:?} is not frozen.")),
        None => Ok(()),
    })
}

/// Whether the process has neither stopped nor ended.
fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // The state follows the name of the program, which is in parentheses.
    let state = stat.ok().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next());
    state.is_some_and(|state| !"TtZX".contains(state))
}
