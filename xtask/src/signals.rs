//! Restores the default action of signals before tests run.
//!
//! A command that a script starts with `&` ignores SIGINT and SIGQUIT, and one below `nohup`
//! SIGHUP. `tenure run` keeps a signal ignored that is ignored at its start, so its tests of that
//! signal would wait for ever.

use std::env;
use std::fs::read_to_string;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::process::{Result, not_started, succeeds};

/// The option of GNU `env` that restores the default action.
const RESTORE: &str = "--default-signal=HUP,INT,QUIT,TERM";
/// The same signals as bits of `SigIgn` in `/proc/self/status`.
const MASK: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 14;
/// Set in the restarted command, which must not restart again if `env` had no effect.
const RESTARTED: &str = "TENURE_SIGNALS_RESTORED";

/// Returns if the signals have their default action; otherwise restarts this command with it.
pub(crate) fn restore() -> Result<()> {
    // Only Linux has this file. Elsewhere an ignored signal is not noticed.
    if !are_ignored(&read_to_string("/proc/self/status").unwrap_or_default()) {
        return Ok(());
    }
    if env::var_os(RESTARTED).is_some() || !succeeds(Command::new("env").args([RESTORE, "true"])) {
        return Err("SIGHUP, SIGINT, SIGQUIT or SIGTERM is ignored here, but the tests of `tenure run` need it: start this in the foreground".into());
    }
    let this = env::current_exe();
    let this = this.map_err(|error| format!("cannot find this program: {error}"))?;
    let mut restarted = Command::new("env");
    restarted.arg(RESTORE).arg(this).args(env::args_os().skip(1)).env(RESTARTED, "1");
    let error = restarted.exec();
    Err(not_started(&restarted, &error))
}

/// Whether this `/proc/self/status` has one of the signals ignored.
fn are_ignored(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|ignored| u64::from_str_radix(ignored.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored & MASK != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_a_bit_of_the_mask() {
        assert!(are_ignored("Name:\txtask\nSigIgn:\t0000000000001002\n"));
        assert!(are_ignored("SigIgn:\t0000000000001004\n"));
        assert!(!are_ignored("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000002\n"));
        assert!(!are_ignored(""), "other systems have no such file");
    }
}
