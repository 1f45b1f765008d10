//! The guarantees of this engine, and warnings for the operator of a store.

use std::path::Path;
use std::time::Duration;

use tenure_core::{EventDelivery, Guarantees, Liveness, TokenDurability};

/// Time limit of every verb but `watch` and `events`, whatever others have locked.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Returns the guarantees, which hold for every store, with the warnings of this one.
pub(crate) fn profile(dir: &Path, warnings: Vec<String>) -> Guarantees {
    let mut profile = Guarantees::new("file", Liveness::Kernel);
    profile.store = format!("the store in {}", dir.display());
    profile.fair = true;
    profile.push = true;
    profile.events = EventDelivery::Every;
    profile.fencing = TokenDurability::Durable;
    profile.survives.holder_crash = true;
    // The kernel knows that a paused holder lives: it keeps its lock, and others wait.
    profile.survives.holder_pause = false;
    // There is no process to crash; a crash of the machine ends all holders too.
    profile.survives.store_crash = true;
    profile.survives.clock_step = true;
    profile.survives.full_memory = true;
    profile.warnings = warnings;
    profile.answers_within = ANSWERS_WITHIN;
    profile.quick = true;
    profile
}
