//! Signals, while tests run: a script that starts something with `&` has SIGINT and SIGQUIT ignored in it and in all that it starts, and
//! `nohup` SIGHUP. `tenure run` leaves a signal ignored that it finds so, and the stories of that signal would wait for it in vain.

use std::env;
use std::fs::read_to_string;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::process::{Result, not_started, succeeds};

/// The option of GNU's `env` that gives these signals their meaning back.
const HEED: &str = "--default-signal=HUP,INT,QUIT,TERM";
/// The same as Linux tells which are ignored.
const MASK: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 14;
/// Set in a command that has begun anew: an `env` that knows the option and does nothing would begin it without end.
const ANEW: &str = "TENURE_SIGNALS_HEEDED";

/// Returns where the signals mean something. Elsewhere this command begins anew with their meaning given back.
pub(crate) fn heed() -> Result<()> {
    // Only Linux has this page. Elsewhere a signal that is ignored is not noticed.
    if !are_ignored(&read_to_string("/proc/self/status").unwrap_or_default()) {
        return Ok(());
    }
    if env::var_os(ANEW).is_some() || !succeeds(Command::new("env").args([HEED, "true"])) {
        return Err("Signals are ignored here, as SIGINT is in whatever a script starts with `&`, and the tests of `tenure run` would wait for them in vain: start this in the foreground.".into());
    }
    let this = env::current_exe();
    let this = this.map_err(|error| format!("This program is not found: {error}."))?;
    let mut anew = Command::new("env");
    anew.arg(HEED).arg(this).args(env::args_os().skip(1)).env(ANEW, "1");
    let error = anew.exec();
    Err(not_started(&anew, &error))
}

/// Whether Linux says of a process that it ignores one of them.
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
        assert!(!are_ignored(""), "there is no such page here");
    }
}
