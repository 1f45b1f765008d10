//! The clocks of one simulated process. Pure: the world passes the time.

use tenure_core::Time;

#[derive(Clone, Copy, Default)]
pub(super) struct Process {
    pub(super) paused: bool,
    pub(super) dead: bool,
    /// Drift of its clocks against the world, in parts per million.
    pub(super) drift_ppm: i64,
    /// Offset of its clocks to the world.
    pub(super) offset_ns: u64,
    /// Drift of its raw clock against its boot clock in parts per million, and its start.
    pub(super) slew_ppm: u64,
    pub(super) slewed_from_ns: u64,
    /// Time that its raw clock stood still while the machine slept.
    pub(super) slept_ns: u64,
    /// Offset of its wall clock to the world.
    pub(super) wall_us: i64,
}

impl Process {
    /// A process with this offset.
    pub(super) fn ahead_by(offset_ns: u64) -> Self {
        Self { offset_ns, ..Self::default() }
    }

    pub(super) fn now(&self, passed_ns: u64) -> Time {
        let passed = i128::from(passed_ns);
        let ran = passed + passed * i128::from(self.drift_ppm) / 1_000_000;
        let boot_ns = u64::try_from(ran).unwrap_or(0) + self.offset_ns;
        let slewed = u128::from(boot_ns.saturating_sub(self.slewed_from_ns));
        let ahead = u64::try_from(slewed * u128::from(self.slew_ppm) / 1_000_000).unwrap_or(0);
        Time { boot_ns, raw_ns: boot_ns - self.slept_ns + ahead }
    }

    /// The time of the world at which its raw clock has advanced by this much.
    pub(super) fn world_ns(&self, raw_ns: u64) -> u64 {
        let rate = u128::from((1_000_000 + self.drift_ppm).unsigned_abs().max(1));
        let slewed = u128::from(1_000_000 + self.slew_ppm);
        let ns = (u128::from(raw_ns) * 1_000_000_000_000).div_ceil(rate * slewed);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}
