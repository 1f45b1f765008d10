//! The service over real HTTP connections.

mod breaking;
mod guarding;
mod kit;
mod limits;
mod locks;
mod metrics;
mod mounts;
mod observe;
mod openapi;
#[cfg(unix)]
mod proxy;
mod reading;
mod schemathesis;
mod streams;
mod terraform;
