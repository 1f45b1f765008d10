//! Documents in this process's memory, with the same locks: for the tests of programs that have no
//! server at hand.

mod change;
mod filter;
mod view;
mod warehouse;

pub(super) use view::MemoryView;
pub(super) use warehouse::Warehouse;
