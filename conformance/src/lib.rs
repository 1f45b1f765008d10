//! What every engine of Tenure must pass, ours or a stranger's, in ten lines of a test file.

mod arena;
mod case;
pub mod sim;

pub use arena::Arena;
pub use case::{Case, Story};
