//! The cases of a holder: each is a statement that must hold for every lock library.

mod leaving;
mod losing;
mod waiting;

use super::case::HolderCase;

/// All cases of a holder.
pub fn all_cases() -> impl Iterator<Item = &'static HolderCase> {
    [losing::CASES, leaving::CASES, waiting::CASES].into_iter().flatten()
}
