//! A guarded write is a transaction whose first step raises the fence's record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mongodb::ClientSession;
use mongodb::error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions};
use tenure_core::{Result, jitter};
use tokio::time::{sleep, timeout};

use crate::trouble::{self, Failed};
use crate::{Fence, Write, Written, majority};

/// The pause before a transaction that met another one begins again; it doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// The longest of these pauses.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Runs it again and again until it is done or refused, or the fence's time is over.
pub(crate) async fn run(fence: &Fence, token: u64, writes: &[Write]) -> Result<Written> {
    // From the first commit that was sent on, it may be done.
    let was_sent = AtomicBool::new(false);
    match timeout(fence.within, attempts(fence, token, writes, &was_sent)).await {
        Ok(done) => done.map_err(|failed| failed.told(was_sent.load(Ordering::Relaxed))),
        Err(_) => Err(trouble::silent(fence.within, was_sent.load(Ordering::Relaxed))),
    }
}

async fn attempts(
    fence: &Fence,
    token: u64,
    writes: &[Write],
    was_sent: &AtomicBool,
) -> Result<Written, Failed> {
    let mut session = fence.records.client().start_session().await?;
    let mut pause = PAUSE_MIN;
    loop {
        let failed = match attempt(fence, token, writes, &mut session, was_sent).await {
            Ok(written) => return Ok(written),
            Err(failed) => failed,
        };
        // The server forgets it in any case; until then it would hold up others.
        let _ = session.abort_transaction().await;
        match failed {
            Failed::Driver(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => {
                // The server says that nothing of this attempt remains.
                was_sent.store(false, Ordering::Relaxed);
                sleep(jitter(pause, getrandom::u64().unwrap_or(0))).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            failed => return Err(failed),
        }
    }
}

async fn attempt(
    fence: &Fence,
    token: u64,
    writes: &[Write],
    session: &mut ClientSession,
    was_sent: &AtomicBool,
) -> Result<Written, Failed> {
    session.start_transaction().with_options(options()).await?;
    fence.raise(token, Some(&mut *session)).await?;
    let mut written = Written::default();
    for write in writes {
        write.run(session, &mut written).await?;
    }
    let mut pause = PAUSE_MIN;
    loop {
        was_sent.store(true, Ordering::Relaxed);
        match session.commit_transaction().await {
            Ok(()) => return Ok(written),
            // To commit twice is to commit once.
            Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) => {
                sleep(jitter(pause, getrandom::u64().unwrap_or(0))).await;
                pause = (pause * 2).min(PAUSE_MAX);
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
