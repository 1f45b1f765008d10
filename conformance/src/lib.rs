//! What every engine of Tenure must pass, ours or a stranger's, in ten lines of a test file.
//!
//! The crate has three rooms: `suite` is what strangers run, [`sim`] is a world in which time and chance come from
//! a seed, and [`fault`] is the stage for faults: engines and networks that misbehave.

pub mod fault;
pub mod sim;
mod suite;

#[doc(hidden)]
pub use fault::pause;
#[doc(hidden)]
pub use suite::helper;
pub use suite::{Arena, Case, Story, cases, play, play_in, play_seed, play_simulated};
