//! Lines in a map of records: the whole suite, and what the crate asks of a store. In simulated
//! time; the toy has the same in real time.

mod conformance;
mod limits;
mod steps;
mod store;
