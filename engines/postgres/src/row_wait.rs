//! How long a verb waits for a row that another transaction has.

use std::time::Duration;

use tenure_core::Backoff;

/// The longest first wait for a row. Other clients have it for the time of a commit, and get it in
/// turn.
const ROW_TIMEOUT: &str = "500ms";
/// The longest wait for a row that was not to be had before: a transaction of a user may have it
/// for long. The statements of a client go over one connection, so the others wait as well.
pub(crate) const ROW_TIMEOUT_AGAIN: &str = "50ms";
/// As [`ROW_TIMEOUT_AGAIN`], after [`ROW_TRIES_MANY`].
const ROW_TIMEOUT_LAST: &str = "5ms";
const ROW_TRIES_MANY: u32 = 8;
/// The tries to serve a ticket while a transaction may hold the line for the last holder.
const SERVE_TRIES: u32 = 6;
/// Pauses between two tries to get a row.
pub(crate) const ROW_BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(5), Duration::from_millis(250));

/// The tries of one verb to get a row that other transactions have.
pub(crate) struct RowWait {
    tries: u32,
    backoff: Backoff,
}

impl Default for RowWait {
    fn default() -> Self {
        Self { tries: 0, backoff: ROW_BACKOFF }
    }
}

impl RowWait {
    /// Whether a transaction holds the line, as far as is known.
    pub(crate) fn is_long(&self) -> bool {
        self.tries >= SERVE_TRIES
    }

    /// The time limit of the next try. A holder's transaction is in the way of a statement that
    /// `serves`, and of no other.
    pub(crate) fn limit(&self, serves: bool) -> &'static str {
        match self.tries {
            0 if !serves => ROW_TIMEOUT,
            tries if tries < ROW_TRIES_MANY => ROW_TIMEOUT_AGAIN,
            _ => ROW_TIMEOUT_LAST,
        }
    }

    pub(crate) async fn pause(&mut self) {
        self.tries += 1;
        tokio::time::sleep(self.backoff.pause()).await;
    }
}
