//! Following a change stream: it goes on where it ended, and says so where it cannot.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{ReadPreference, SelectionCriteria};
use tenure_core::uneven;
use tokio::time::sleep;

use crate::call::Calls;

/// The server answers after this time if nothing has happened.
const AWAIT: Duration = Duration::from_secs(20);
/// The pause after a failure; it doubles with each failure that follows.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The stream can be resumed no more: what happened meanwhile is lost. `ChangeStreamFatalError`,
/// `ChangeStreamHistoryLost`, `InvalidResumeToken`, `CappedPositionLost`, `CursorNotFound` of a stream that was dropped.
const LOST: [i32; 4] = [280, 286, 260, 136];

/// Who hears a change stream.
pub(crate) trait Listener: Send {
    /// The stages that leave what it wants to hear.
    fn stages(&self) -> Vec<Document>;

    /// The stream hears from now on. `goes_on`: nothing was missed since it heard last.
    fn opened(&mut self, goes_on: bool) -> impl Future<Output = tenure_core::Result<()>> + Send;

    /// Something has changed. That the collection is gone is not said: the stream ends, and another one opens. One also
    /// opens if this fails, and does not go on where this one ended.
    fn take(
        &mut self,
        event: &RawDocumentBuf,
    ) -> impl Future<Output = tenure_core::Result<()>> + Send;

    /// The stream does not open.
    fn failed(&mut self, error: &Error);

    /// Whether anybody still wants to hear it.
    fn is_wanted(&self) -> bool {
        true
    }
}

/// Hears for as long as it is wanted. It alone owns the driver's stream.
pub(crate) async fn follow(calls: Arc<Calls>, mut listener: impl Listener) {
    let (mut token, mut pause) = (None, PAUSE_FIRST);
    while listener.is_wanted() {
        let goes_on = token.is_some();
        match open(&calls, listener.stages(), token.clone()).await {
            Ok(mut stream) => {
                if listener.opened(goes_on).await.is_ok() {
                    pause = PAUSE_FIRST;
                    token = hear(&mut stream, &mut listener).await;
                }
            }
            Err(error) => {
                listener.failed(&error);
                if is_lost(&error) {
                    token = None;
                }
            }
        }
        sleep(uneven(pause, getrandom::u64().unwrap_or(0))).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn open(
    calls: &Calls,
    stages: Vec<Document>,
    token: Option<ResumeToken>,
) -> Result<ChangeStream<RawDocumentBuf>, Error> {
    let records = calls.database.collection::<Document>(&calls.collection);
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    let watch = records.watch().pipeline(stages).max_await_time(AWAIT);
    let watch = watch.selection_criteria(primary);
    let stream = match token {
        Some(token) => watch.resume_after(token).await?,
        None => watch.await?,
    };
    Ok(stream.with_type())
}

/// Hears until the stream ends, and says where it can be resumed.
async fn hear(
    stream: &mut ChangeStream<RawDocumentBuf>,
    listener: &mut impl Listener,
) -> Option<ResumeToken> {
    while stream.is_alive() && listener.is_wanted() {
        match stream.next_if_any().await {
            Ok(Some(event)) => {
                let what = event.get_str("operationType").unwrap_or_default();
                if matches!(what, "drop" | "rename" | "dropDatabase" | "invalidate") {
                    return None;
                }
                if let Err(error) = listener.take(&event).await {
                    tracing::debug!(%error, "a change is not understood: the stream begins anew");
                    return None;
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, "the change stream has ended");
                return if is_lost(&error) { None } else { stream.resume_token() };
            }
        }
    }
    stream.resume_token()
}

/// Whether what happened since the stream ended can be heard no more.
fn is_lost(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::Command(command) => {
            LOST.contains(&command.code) || error.contains_label("NonResumableChangeStreamError")
        }
        ErrorKind::MissingResumeToken => true,
        _ => false,
    }
}
