//! Background work: waiting for a lock, renewing leases, releasing dropped tickets.
//!
//! All of it runs on a [`Runtime`], which provides tasks, time and random numbers. [`acquire`]
//! joins a line and waits until the ticket is served, with a [`listener`] for wake-ups from the
//! store. The [`renewer`] renews leases. The [`releaser`] takes tickets of dropped guards and
//! waiters out of their lines. Pauses between retries use [`backoff`]. [`spawn`] starts work that
//! goes on when its caller does not poll it.

pub(crate) mod acquire;
pub(crate) mod admission;
pub(crate) mod backoff;
pub(crate) mod event_stream;
#[cfg(test)]
pub(crate) mod fake_runtime;
pub(crate) mod listener;
pub(crate) mod releaser;
pub(crate) mod renewer;
pub(crate) mod runtime;
pub(crate) mod spawn;
