//! What engines share that speak to a store: how a URL is read, how an engine describes itself, how a connection is
//! kept, and how tickets are told that they are served.
//!
//! Core knows the contract of an engine and no store. An engine knows its store. The kit stands between them, so that
//! an engine is little more than its verbs.

pub mod duration;
pub mod options;
pub mod register;
pub mod secret;
pub mod url;
