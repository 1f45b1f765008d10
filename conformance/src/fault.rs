//! Wrappers of an engine that inject the faults of a network, and a proxy for real servers.

mod asked;
mod carries;
mod distant;
mod impatience;
mod lossy;
mod moody;
mod outage;
mod paced;
mod proxy;
mod spied;
pub mod stage;
pub mod stories;
mod weather;

pub use asked::{Asked, Verb};
pub use distant::Distant;
pub use impatience::impatience;
pub use lossy::Lossy;
pub use moody::{Mood, Moody};
pub use outage::Outage;
pub(crate) use paced::Paced;
#[doc(hidden)]
pub use paced::pause;
pub use proxy::{Act, Counts, Direction, Match, Protocol, Proxy, Rule};
pub use spied::Spied;
pub use weather::{Network, Weather};
