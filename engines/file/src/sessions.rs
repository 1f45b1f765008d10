//! Sessions: the file that each engine value keeps locked, and how others notice that it is dead.

pub(crate) mod peers;
pub(crate) mod session;
