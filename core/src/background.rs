//! Background work: waiting for a lock, renewing leases, releasing dropped tickets.
//!
//! All of it runs on a [`Runtime`], which provides tasks, time and random numbers. [`acquire`]
//! joins a line and waits until the ticket is served, with a [`listener`] for pushes from the
//! store. Each ticket is a [`lease`] of a [`client`]. The [`renewer`] renews leases. The
//! [`releaser`] takes tickets of dropped guards and waiters out of their lines. Pauses between
//! retries use [`backoff`]. [`spawn`] starts work that goes on when its caller does not poll it.

pub(crate) mod acquire;
pub(crate) mod admission;
pub(crate) mod backoff;
pub(crate) mod client;
pub(crate) mod event_stream;
#[cfg(test)]
pub(crate) mod fake_runtime;
pub(crate) mod lease;
pub(crate) mod listener;
pub(crate) mod monitor;
pub(crate) mod releaser;
pub(crate) mod renewer;
pub(crate) mod retries;
pub(crate) mod runtime;
pub(crate) mod spawn;
