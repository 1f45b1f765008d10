//! A server's wall clock is set by a library that answers in the system's place.

use std::process::Command;

use crate::folder::Folder;
use crate::{Result, Tool};

/// What a server with a clock that can be set needs, beside itself.
pub const FAKETIME: Tool = Tool::library("faketime/libfaketimeMT.so.1", "libfaketime");

/// The file in the server's folder that says how far its clock is off.
const FILE: &str = "clock";

/// Has a program ask the library for the time, which is the true one at first.
pub(crate) fn put_before(command: &mut Command, folder: &Folder) -> Result<()> {
    let library = FAKETIME.found().ok_or_else(|| FAKETIME.absent().unwrap_or_default())?;
    let file = set(folder, 0)?;
    // The library asks for memory before it is ready, and jemalloc asks for the time before it
    // gives any: they wait for each other for ever. With the C library named here too, memory
    // comes from there.
    command.env("LD_PRELOAD", format!("{} libc.so.6", library.display()));
    command.env("FAKETIME_TIMESTAMP_FILE", file);
    // The file is read whenever the time is asked for: who has set the clock sees it at once.
    command.env("FAKETIME_NO_CACHE", "1");
    // Time-outs and ages of files are no wall clock's matter. The first name is of old versions.
    for left_alone in ["DONT_FAKE_MONOTONIC", "FAKETIME_DONT_FAKE_MONOTONIC", "NO_FAKE_STAT"] {
        command.env(left_alone, "1");
    }
    Ok(())
}

/// Has a program take the time for so many seconds later than it is, or earlier, from the beginning to the end.
pub(crate) fn shift(command: &mut Command, offset_seconds: i64) -> Result<()> {
    let library = FAKETIME.found().ok_or_else(|| FAKETIME.absent().unwrap_or_default())?;
    command.env("LD_PRELOAD", format!("{} libc.so.6", library.display()));
    command.env("FAKETIME", format!("{offset_seconds:+}"));
    for left_alone in ["DONT_FAKE_MONOTONIC", "FAKETIME_DONT_FAKE_MONOTONIC", "NO_FAKE_STAT"] {
        command.env(left_alone, "1");
    }
    Ok(())
}

/// Sets the clock: this many seconds ahead of the true time, or behind it.
pub(crate) fn set(folder: &Folder, offset_seconds: i64) -> Result<std::path::PathBuf> {
    folder.write(FILE, &format!("{offset_seconds:+}\n"))
}

/// Removes the names of what the library shares between processes: no other will ask for it, and
/// a killed one would leave it.
pub(crate) fn tidy_up_after(pid: u32) {
    for name in ["faketime_shm", "sem.faketime_sem"] {
        // The library may have made none.
        let _ = std::fs::remove_file(format!("/dev/shm/{name}_{pid}"));
    }
}
