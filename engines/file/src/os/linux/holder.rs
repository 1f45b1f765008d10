//! Who has a file locked, in words: whoever is kept waiting has to know whom to look at.

use crate::os::dir::FileId;

/// The processes that have this file locked, with what they run.
pub(crate) fn of(id: FileId) -> Option<String> {
    let table = std::fs::read_to_string("/proc/locks").ok()?;
    let mut processes: Vec<u32> = holders(&table, id);
    processes.sort_unstable();
    processes.dedup();
    let named: Vec<String> = processes.into_iter().map(describe).collect();
    (!named.is_empty()).then(|| named.join(", "))
}

fn holders(table: &str, id: FileId) -> Vec<u32> {
    let on = |same: &dyn Fn(u32, u32) -> bool| -> Vec<u32> {
        let found = table.lines().filter_map(holder);
        let found =
            found.filter(|(_, inode, device)| *inode == id.inode && same(device.0, device.1));
        found.map(|(process, ..)| process).collect()
    };
    let exactly = on(&|major, minor| rustix::fs::makedev(major, minor) == id.device);
    // Btrfs tells another device here than everywhere else, without a major number as well.
    if exactly.is_empty() { on(&|major, _| major == 0) } else { exactly }
}

/// A line is `1: FLOCK  ADVISORY  WRITE 4711 fe:00:5366844 0 EOF`, with `->` behind the number for
/// one who only waits.
fn holder(line: &str) -> Option<(u32, u64, (u32, u32))> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, _, process, file, ..] = words[..] else { return None };
    let mut parts = file.split(':');
    let major = u32::from_str_radix(parts.next()?, 16).ok()?;
    let minor = u32::from_str_radix(parts.next()?, 16).ok()?;
    let inode: u64 = parts.next()?.parse().ok()?;
    Some((process.parse().ok()?, inode, (major, minor)))
}

fn describe(process: u32) -> String {
    let own = if process == std::process::id() { ", this program" } else { "" };
    match std::fs::read_to_string(format!("/proc/{process}/comm")) {
        Ok(name) => format!("process {process} ({}{own})", name.trim_end()),
        Err(_) => format!("process {process}"),
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(holders(table, FileId { device, inode: 5_366_844 }), [4711]);
        assert_eq!(holders(table, FileId { device, inode: 99 }), []);
        let device = rustix::fs::makedev(0, 0x30);
        assert_eq!(holders(table, FileId { device, inode: 88 }), [4716], "as on Btrfs");
    }
}
