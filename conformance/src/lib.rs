//! What every engine of Tenure must pass, ours or a stranger's, in ten lines of a test file.

mod arena;
mod cancel;
mod case;
pub mod cases;
pub mod fault;
#[doc(hidden)]
pub mod helper;
pub mod holder;
mod model;
mod paced;
pub mod sim;
mod suite;
mod together;

pub use arena::Arena;
pub use case::{Case, Story};
#[doc(hidden)]
pub use paced::pause;
pub use suite::{play, play_in, play_seed, play_simulated};
