//! The quarantine of a SQL database, and the numbers of its servers.
//!
//! A new primary may lack the last leases of the old one, so it serves no ticket until they have
//! expired. The tables keep the longest ttl for that, and the number of servers so far, the
//! generation.

use std::time::Duration;

/// The least quarantine on another server.
pub const LONGEST_MIN: Duration = Duration::from_secs(60);
/// How long a longest ttl is remembered after it was used last: between this time and its double.
pub const LONGEST_KEPT: Duration = Duration::from_secs(3600);

/// The numbers of each generation are larger by a day in microseconds than those of the one
/// before. So they grow through a fail-over, although the new primary may lack the last numbers of
/// the old one and have a clock that is behind. There is room for 80,000 generations.
pub const GENERATION_STEP_US: u64 = 24 * 60 * 60 * 1_000_000;

/// Whether the quarantine has to begin. The engine replaces the names in braces.
pub const QUARANTINE_IS_DUE: &str =
    "(NOT {is_known} OR m.serve_from_us > {clock} + greatest(m.longest_us, m.longest_before_us))";
