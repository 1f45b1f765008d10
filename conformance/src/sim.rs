//! The simulation: a world from a seed, the stories that are told in it, and the cases of a holder.

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
pub use referee::Tallied;
pub use story::{Ending, Tale};
pub use world::{STORE, World};
