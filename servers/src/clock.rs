//! Sets the wall clock of a server by a library that replaces the system's functions.

use std::process::Command;

use crate::folder::Folder;
use crate::{Result, Tool};

/// The library that a server with a settable clock needs.
pub const FAKETIME: Tool = Tool::library("faketime/libfaketimeMT.so.1", "libfaketime");

/// The file in the server's folder with the offset of its clock.
const FILE: &str = "clock";

/// Makes a program use the library, with the true time at first.
pub(crate) fn put_before(command: &mut Command, folder: &Folder) -> Result<()> {
    let library = FAKETIME.found().ok_or_else(|| FAKETIME.absent().unwrap_or_default())?;
    let file = set(folder, 0)?;
    // The library allocates memory before it is ready, and jemalloc reads the time before it
    // returns any: a deadlock. With the C library preloaded as well, memory comes from its
    // allocator.
    command.env("LD_PRELOAD", format!("{} libc.so.6", library.display()));
    command.env("FAKETIME_TIMESTAMP_FILE", file);
    // The library reads the file at every call, so a new time is effective at once.
    command.env("FAKETIME_NO_CACHE", "1");
    // Timeouts and the ages of files stay true. The first name is that of old versions.
    for left_alone in ["DONT_FAKE_MONOTONIC", "FAKETIME_DONT_FAKE_MONOTONIC", "NO_FAKE_STAT"] {
        command.env(left_alone, "1");
    }
    Ok(())
}

/// Shifts the clock of a program by a constant offset.
pub(crate) fn shift(command: &mut Command, offset_seconds: i64) -> Result<()> {
    let library = FAKETIME.found().ok_or_else(|| FAKETIME.absent().unwrap_or_default())?;
    command.env("LD_PRELOAD", format!("{} libc.so.6", library.display()));
    command.env("FAKETIME", format!("{offset_seconds:+}"));
    for left_alone in ["DONT_FAKE_MONOTONIC", "FAKETIME_DONT_FAKE_MONOTONIC", "NO_FAKE_STAT"] {
        command.env(left_alone, "1");
    }
    Ok(())
}

/// Sets the clock to this offset from the true time.
pub(crate) fn set(folder: &Folder, offset_seconds: i64) -> Result<std::path::PathBuf> {
    folder.write(FILE, &format!("{offset_seconds:+}\n"))
}

/// Removes the shared memory of the library. No other process uses it, and a killed process would
/// leave it behind.
pub(crate) fn tidy_up_after(pid: u32) {
    for name in ["faketime_shm", "sem.faketime_sem"] {
        // Fails if the library has created none.
        let _ = std::fs::remove_file(format!("/dev/shm/{name}_{pid}"));
    }
}
