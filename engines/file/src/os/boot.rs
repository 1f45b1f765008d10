//! The start of the machine: after a new one a store may have lost its last writes.

use crate::os::system;

/// A start of the machine, as a book's header keeps it.
///
/// Containers and changed roots of one running machine may have different ids of it, or none at
/// all. So it is also identified by its moment: the wall clock, less the time that the machine has
/// run.
///
/// ```text
///   63          40 39                                   0
///   ┌─────────────┬──────────────────────────────────────┐
///   │ of its id   │ when it began, in 10 ms since 1970   │
///   └─────────────┴──────────────────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Boot(pub(crate) u64);

const MOMENT_BITS: u32 = 40;
const MOMENT_US: u64 = 10_000;
/// Maximum difference of two readings of the same moment. No machine is down for a shorter time.
const NEAR: u64 = 50;

impl Boot {
    fn new(id: u64, began_us: u64) -> Self {
        Self(id << MOMENT_BITS | (began_us / MOMENT_US) & ((1 << MOMENT_BITS) - 1))
    }

    /// Returns the current start, with the parts that the system reports.
    pub(crate) fn now() -> Self {
        Self::new(system::boot_id(), system::began_us())
    }

    /// Returns whether both can be the same start. `written_us` is the time at which the first was
    /// written. A clock that shows less now was set back, perhaps by a new start.
    pub(crate) fn is_same(self, now: Self, written_us: u64, now_us: u64) -> bool {
        let (id, began) = (self.0 >> MOMENT_BITS, self.0 & ((1 << MOMENT_BITS) - 1));
        let (now_id, now_began) = (now.0 >> MOMENT_BITS, now.0 & ((1 << MOMENT_BITS) - 1));
        let by_id = id == now_id && id != 0;
        let by_moment = began != 0
            && now_began != 0
            && began.abs_diff(now_began) <= NEAR
            && written_us <= now_us;
        by_id || by_moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN_US: u64 = 1_700_000_000_000_000;
    const HOUR_US: u64 = 3_600_000_000;

    fn same(then: Boot, now: Boot) -> bool {
        then.is_same(now, BEGAN_US + HOUR_US, BEGAN_US + 2 * HOUR_US)
    }

    #[test]
    fn containers_of_one_machine_are_in_the_same_start_of_it() {
        let here = Boot::new(1, BEGAN_US);
        assert!(same(here, Boot::new(2, BEGAN_US + 100_000)), "another id, as gVisor has");
        assert!(same(here, Boot::new(0, BEGAN_US)), "no id, as in a chroot without /proc");
        assert!(same(here, Boot::new(1, BEGAN_US + HOUR_US)), "a clock that was set");
    }

    #[test]
    fn another_start_is_another() {
        let here = Boot::new(1, BEGAN_US);
        assert!(!same(here, Boot::new(2, BEGAN_US + 1_000_000)));
        assert!(!same(here, Boot::new(0, BEGAN_US + HOUR_US)));
        assert!(!same(Boot::new(0, 0), Boot::new(0, 0)), "nothing is known");
        let set_back = here.is_same(Boot::new(2, BEGAN_US), BEGAN_US + HOUR_US, BEGAN_US + 1);
        assert!(
            !set_back,
            "a machine without a clock of its own begins with the same time each time"
        );
    }
}
