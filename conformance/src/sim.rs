//! The simulation: a world from a seed, random programs in it, and the cases of a holder.

mod chance;
pub mod holder;
mod host;
mod plan;
mod process;
mod program;
mod referee;
mod story;
mod trouble;
mod world;

pub use chance::Chance;
pub use host::SimHost;
pub use referee::Counts;
pub use story::{Ending, Tale};
pub use world::{STORE, World};
