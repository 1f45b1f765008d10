//! The start of the machine.

use std::sync::OnceLock;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::checksum::checksum;

/// Returns a number made of the kernel's id of this start; zero if there is none.
pub(crate) fn boot_id() -> u64 {
    static ID: OnceLock<u64> = OnceLock::new();
    *ID.get_or_init(|| match std::fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(id) => checksum(0, &id).max(1),
        Err(_) => 0,
    })
}

/// Returns when the machine was started: the wall clock, less the time that the machine has run.
pub(crate) fn began_us() -> u64 {
    let us = |time: Timespec| time.tv_sec * 1_000_000 + time.tv_nsec / 1000;
    let running = us(clock_gettime(ClockId::Boottime));
    u64::try_from(us(clock_gettime(ClockId::Realtime)) - running).unwrap_or(0)
}
