//! Runs a guarded write: a transaction whose first step raises the fence's record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mongodb::ClientSession;
use mongodb::error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions};
use tenure_core::{Backoff, Result, Token};
use tokio::time::{sleep, timeout};

use crate::trouble::{self, Failed};
use crate::{Fence, Write, WriteResult, majority};

/// The pause after the first failed attempt. Each further failure doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Runs the transaction until it is done or refused, or the time limit of the fence is over.
pub(crate) async fn run(fence: &Fence, token: Token, writes: &[Write]) -> Result<WriteResult> {
    // Whether a commit was sent: from then on the writes may be done.
    let was_sent = AtomicBool::new(false);
    match timeout(fence.within, attempts(fence, token, writes, &was_sent)).await {
        Ok(done) => done.map_err(|failed| failed.into_error(was_sent.load(Ordering::Relaxed))),
        Err(_) => Err(trouble::silent(fence.within, was_sent.load(Ordering::Relaxed))),
    }
}

async fn attempts(
    fence: &Fence,
    token: Token,
    writes: &[Write],
    was_sent: &AtomicBool,
) -> Result<WriteResult, Failed> {
    let mut session = fence.records.client().start_session().await?;
    let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    loop {
        let failed = match attempt(fence, token, writes, &mut session, was_sent).await {
            Ok(written) => return Ok(written),
            Err(failed) => failed,
        };
        let _ = session.abort_transaction().await; // Without it the server aborts later by itself.
        match failed {
            Failed::Driver(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => {
                // This label means that the server has rolled back the whole attempt.
                was_sent.store(false, Ordering::Relaxed);
                sleep(backoff.pause()).await;
            }
            failed => return Err(failed),
        }
    }
}

async fn attempt(
    fence: &Fence,
    token: Token,
    writes: &[Write],
    session: &mut ClientSession,
    was_sent: &AtomicBool,
) -> Result<WriteResult, Failed> {
    session.start_transaction().with_options(options()).await?;
    fence.raise(token, Some(&mut *session)).await?;
    let mut written = WriteResult::default();
    for write in writes {
        write.run(session, &mut written).await?;
    }
    let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    loop {
        was_sent.store(true, Ordering::Relaxed);
        match session.commit_transaction().await {
            Ok(()) => return Ok(written),
            // A second commit of one transaction has no effect.
            Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) => {
                sleep(backoff.pause()).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn options() -> TransactionOptions {
    TransactionOptions::builder()
        .read_concern(ReadConcern::snapshot())
        .write_concern(majority())
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .build()
}
