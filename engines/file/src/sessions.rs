//! Sessions: the file that each engine value keeps locked, and how the others find out that it is dead.

pub(crate) mod peers;
pub(crate) mod session;
