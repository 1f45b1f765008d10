//! The cases of a holder: each is a sentence that must be true of anybody who believes to hold a lock.

mod leaving;
mod losing;
mod waiting;

use super::case::HolderCase;

/// Every case of a holder.
pub fn all_cases() -> impl Iterator<Item = &'static HolderCase> {
    [losing::CASES, leaving::CASES, waiting::CASES].into_iter().flatten()
}
