//! The processes that have a file locked: a verb waits for those that run, and its error names
//! them.

use crate::os::dir::FileId;
use crate::os::{LockOwners, OwnerState};

/// Maximum reads of the table of locks. The system returns it in pieces of a page, and an unlock
/// between two pieces moves the rest. So a lock may be in none of the pieces, and the search is
/// repeated.
const LOOKS_MAX: u32 = 20;

/// Returns the processes that have this file locked. Those of other containers are not in the
/// table.
pub(crate) fn of(id: FileId) -> Option<LockOwners> {
    let mut looks = (0..LOOKS_MAX).map_while(|_| std::fs::read_to_string("/proc/locks").ok());
    let mut processes = looks.find_map(|table| {
        let found = owners(&table, id);
        (!found.is_empty()).then_some(found)
    })?;
    processes.sort_unstable();
    processes.dedup();
    let (names, states): (Vec<_>, Vec<_>) = processes.into_iter().map(look).unzip();
    Some(LockOwners { names: names.join(", "), state: states.into_iter().min()? })
}

fn owners(table: &str, id: FileId) -> Vec<u32> {
    let on = |same: &dyn Fn(u32, u32) -> bool| -> Vec<u32> {
        let found = table.lines().filter_map(owner);
        let found =
            found.filter(|(_, inode, device)| *inode == id.inode && same(device.0, device.1));
        found.map(|(process, ..)| process).collect()
    };
    let exactly = on(&|major, minor| rustix::fs::makedev(major, minor) == id.device);
    // Btrfs reports another device here than elsewhere. Both are without a major number.
    if exactly.is_empty() && rustix::fs::major(id.device) == 0 {
        return on(&|major, _| major == 0);
    }
    exactly
}

/// Parses a line `1: FLOCK  ADVISORY  WRITE 4711 fe:00:5366844 0 EOF`. It has `->` behind the
/// number for a process that only waits.
fn owner(line: &str) -> Option<(u32, u64, (u32, u32))> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, _, process, file, ..] = words[..] else { return None };
    let mut parts = file.split(':');
    let major = u32::from_str_radix(parts.next()?, 16).ok()?;
    let minor = u32::from_str_radix(parts.next()?, 16).ok()?;
    let inode: u64 = parts.next()?.parse().ok()?;
    Some((process.parse().ok()?, inode, (major, minor)))
}

/// Returns the name of a process, and whether it runs.
fn look(process: u32) -> (String, OwnerState) {
    let own = if process == std::process::id() { ", this program" } else { "" };
    let stat = std::fs::read(format!("/proc/{process}/stat")).unwrap_or_default();
    match parse_stat(&String::from_utf8_lossy(&stat)) {
        Some((name, state)) => (format!("process {process} ({name}{own})"), state),
        None => (format!("process {process}"), OwnerState::Unknown),
    }
}

/// Parses `4711 (name) S …`. A name may have parentheses, too.
fn parse_stat(stat: &str) -> Option<(&str, OwnerState)> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let is_stopped = rest.starts_with(['T', 't']);
    Some((name, if is_stopped { OwnerState::Stopped } else { OwnerState::Runs }))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn the_table_tells_who_holds_a_file() {
        let table = "1: FLOCK  ADVISORY  WRITE 4711 fe:00:5366844 0 EOF
1: -> FLOCK  ADVISORY  WRITE 4712 fe:00:5366844 0 EOF
2: FLOCK  ADVISORY  READ 4713 fe:00:77 0 EOF
3: FLOCK  ADVISORY  READ 4714 fe:01:5366844 0 EOF
4: POSIX  ADVISORY  WRITE 4715 fe:00:5366844 0 EOF
5: FLOCK  ADVISORY  READ 4716 00:2c:88 0 EOF
of another system";
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!(owners(table, FileId { device, inode: 5_366_844 }), [4711]);
        assert_eq!(owners(table, FileId { device, inode: 99 }), []);
        assert_eq!(owners(table, FileId { device, inode: 88 }), [], "of another file system");
        let device = rustix::fs::makedev(0, 0x30);
        assert_eq!(owners(table, FileId { device, inode: 88 }), [4716], "as on Btrfs");
    }

    #[test]
    fn a_process_is_stopped_by_a_signal_or_a_debugger() {
        use OwnerState::{Runs, Stopped};
        assert_eq!(parse_stat("7 (a) T 1 7"), Some(("a", Stopped)));
        assert_eq!(parse_stat("7 (a) t 1 7"), Some(("a", Stopped)));
        assert_eq!(parse_stat("7 (T (x) T) S 1 7"), Some(("T (x) T", Runs)));
        assert_eq!(parse_stat("7 (a) D 1 7"), Some(("a", Runs)), "it waits for the disk");
        assert_eq!(parse_stat(""), None);
        let (name, state) = look(std::process::id());
        assert!(name.ends_with(", this program)"), "{name}");
        assert_eq!(state, Runs);
        assert_eq!(look(u32::MAX).1, OwnerState::Unknown, "there is none");
    }

    fn each(files: &[File], act: fn(&File) -> io::Result<()>) {
        for file in files {
            act(file).unwrap();
        }
    }

    #[test]
    fn an_owner_is_found_though_others_lock_and_unlock() {
        let dir = tempfile::tempdir().unwrap();
        let files = |name: &str| -> Vec<File> {
            (0..100)
                .map(|count| File::create(dir.path().join(format!("{name}{count}"))))
                .collect::<Result<_, _>>()
                .unwrap()
        };
        let (kept, others) = (files("kept"), files("other"));
        each(&kept, File::lock);
        let over = AtomicBool::new(false);
        let missed = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    each(&others, File::lock);
                    each(&others, File::unlock);
                }
            });
            let looks = kept.iter().cycle().take(500);
            let missed =
                looks.filter(|file| of(FileId::of(&file.metadata().unwrap())).is_none()).count();
            over.store(true, Ordering::Relaxed);
            missed
        });
        assert_eq!(missed, 0);
    }
}
