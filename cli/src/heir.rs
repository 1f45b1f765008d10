//! `--as NAME`: a run that was restarted removes the ticket of its dead predecessor, and does not
//! wait for the end of its lease.

use std::future::pending;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use tenure::Locks;
use tenure::guarantees::Liveness;
use tenure::inspect::LineEntry;
use tenure::limits::TTL_DEFAULT;

use crate::failure::{Failure, say_if};
use crate::owner::OwnerParts;
use crate::screen::{printable, quoted};
use crate::store::SETTLE_MAX;
use crate::supervisor::process_tree::ProcessTree;
use crate::supervisor::signals::Signals;
use crate::supervisor::task::marks_of;

/// Pause between two looks at the processes of a dead predecessor.
const PAUSE: Duration = Duration::from_millis(50);

/// Removes the tickets of dead processes of the same name, user and machine from the line.
///
/// Only a process that has ended is a predecessor, and only once all processes of its command have
/// ended: its keeper may still be killing them. A store in files removes the ticket of such a
/// process itself, and keeps that of one whose command runs on.
pub(crate) fn inherit(
    signals: &mut Signals,
    locks: &Locks,
    key: &str,
    verbose: bool,
) -> Result<(), Failure> {
    if locks.guarantees().liveness == Liveness::Kernel {
        return Ok(());
    }
    let Some(own) = OwnerParts::parse(locks.owner()) else { return Ok(()) };
    let line = match signals.within(SETTLE_MAX, locks.line(key))? {
        Ok(Some(Ok(line))) => line,
        // The wait for the lock reports what is wrong with the store.
        Ok(_) => return Ok(()),
        Err(signal) => return Err(Failure::asked(signal)),
    };
    for entry in line.iter().filter(|entry| is_predecessor(&own, entry)) {
        if !has_ended(signals, key, entry)? {
            continue;
        }
        let removed = signals.within(SETTLE_MAX, locks.force_unlock(key, entry.id))?;
        match removed {
            Ok(Some(Ok(_))) => say_if(verbose, || {
                let (key, owner) = (quoted(key), printable(&entry.owner));
                format!("{key}: the ticket of {owner}, which has ended, is removed")
            }),
            // It ends with its lease.
            Ok(_) => {}
            Err(signal) => return Err(Failure::asked(signal)),
        }
    }
    Ok(())
}

/// Whether the owner is an earlier process of the same name, user and machine, which has ended.
fn is_predecessor(own: &OwnerParts, entry: &LineEntry) -> bool {
    let Some(owner) = OwnerParts::parse(&entry.owner) else { return false };
    let is_same =
        (&owner.program, &owner.user, &owner.host) == (&own.program, &own.user, &own.host);
    is_same && (owner.pid == own.pid || is_dead(owner.pid))
}

fn is_dead(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// Waits until no process of its command is left, for as long as its lease may last. `false`: some
/// process is left, or processes cannot be listed here.
fn has_ended(signals: &mut Signals, key: &str, entry: &LineEntry) -> Result<bool, Failure> {
    let (began, limit) = (Instant::now(), entry.life.unwrap_or(TTL_DEFAULT));
    let tree = ProcessTree::Marked { group: None, marks: marks_of(key, entry.number) };
    loop {
        match tree.members() {
            Ok(members) if members.is_empty() => return Ok(true),
            Ok(_) if began.elapsed() < limit => {}
            Ok(_) | Err(_) => return Ok(false),
        }
        if let Err(signal) = signals.within(PAUSE, pending::<()>())? {
            return Err(Failure::asked(signal));
        }
    }
}
