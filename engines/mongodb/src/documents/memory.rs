//! Documents in this process's memory, with the same locks: for tests of programs without a server.

mod change;
mod filter;
mod view;
mod warehouse;

pub(super) use view::MemoryView;
pub(super) use warehouse::Warehouse;
