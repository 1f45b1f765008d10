//! The conformance suite that every engine of Tenure must pass.
//!
//! The crate has three parts: `suite` runs the cases against an engine, [`sim`] simulates time,
//! processes and networks from a seed, and [`fault`] has engines and a proxy that inject faults.

mod any_guard;
pub mod fault;
pub mod sim;
mod suite;

#[doc(hidden)]
pub use any_guard::AnyGuard;
pub use fault::pause;
#[doc(hidden)]
pub use suite::helper;
pub use suite::{Arena, Case, Story, cases, play, play_in, play_seed, play_simulated};
