//! The change stream of a feed: it is opened, read, and opened again where it ended.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria};
use tenure_core::{Backoff, jitter};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::feed::{FeedInner, StreamChange};
use crate::trouble;
use crate::wants::Wants;

/// Minimum time that an answer of the stream may be late, also with a shorter `timeout`. A slow
/// server must not look like a dead connection.
const SLACK_MIN: Duration = Duration::from_secs(5);
/// First backoff after a failure. It doubles with each further failure, up to `PAUSE_MAX`.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Pause after the server has refused the stream. Consumers poll meanwhile.
const PAUSE_REFUSED: Duration = Duration::from_secs(30);
/// Error codes of a stream that cannot be resumed, so changes were missed:
/// `ChangeStreamFatalError`, `ChangeStreamHistoryLost`, `InvalidResumeToken`, `CappedPositionLost`.
const LOST: [i32; 4] = [280, 286, 260, 136];
/// Kinds of changes after which a stream ends or stays silent. The server ends it also if no
/// consumer wants these.
const ENDS: [&str; 4] = ["drop", "rename", "dropDatabase", "invalidate"];

/// Why reading the stream ended.
enum Ended {
    /// A consumer wants changes that the pipeline leaves out.
    Grown,
    /// No consumer is left.
    Idle,
    /// The server or the connection ended the stream.
    Broken,
}

/// Reads the stream while the feed has consumers.
pub(crate) async fn run(feed: Arc<FeedInner>) {
    let slack = feed.commands.timeout.max(SLACK_MIN);
    let (mut token, mut backoff) = (None, Backoff::new(PAUSE_FIRST, PAUSE_MAX));
    while let Some(wants) = feed.wants() {
        // The driver sets no deadline of its own, and a connection may go silent without an end.
        match timeout(slack, open(&feed, &wants, token.clone())).await {
            Ok(Ok(mut stream)) => {
                feed.opened(&wants, token.is_some());
                token = stream.resume_token();
                match read(&feed, &mut stream, &wants, &mut token, &mut backoff, slack).await {
                    Ended::Idle => return,
                    Ended::Grown => continue,
                    Ended::Broken => {}
                }
            }
            Ok(Err(error)) => {
                let told = trouble::error(&feed.commands.servers, &error);
                // A resume token that the server refuses must not keep the stream closed.
                let is_refused = token.is_none() && is_refusal(&told);
                token = token.filter(|_| told.is_retryable() && !is_lost(&error));
                feed.failed(told, is_refused);
            }
            Err(_) => feed.failed(trouble::late(&feed.commands.servers), false),
        }
        let pause = backoff.pause();
        let refused = || jitter(PAUSE_REFUSED, getrandom::u64().unwrap_or(0));
        sleep(if feed.is_refused() { refused() } else { pause }).await;
    }
}

async fn open(
    feed: &FeedInner,
    wants: &Wants,
    token: Option<ResumeToken>,
) -> Result<ChangeStream<RawDocumentBuf>, Error> {
    let commands = &feed.commands;
    let records = commands.database.collection::<Document>(&commands.collection);
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    let watch = records.watch().pipeline(wants.pipeline()).max_await_time(feed.await_time);
    // A change stream does not take every read concern that a client may have.
    let watch = watch.selection_criteria(primary).read_concern(ReadConcern::majority());
    let stream = match token {
        Some(token) => watch.resume_after(token).await?,
        None => watch.await?,
    };
    Ok(stream.with_type())
}

/// Passes changes to the consumers until the stream ends. The token says where it can be resumed.
async fn read(
    feed: &FeedInner,
    stream: &mut ChangeStream<RawDocumentBuf>,
    wants: &Wants,
    token: &mut Option<ResumeToken>,
    backoff: &mut Backoff,
    slack: Duration,
) -> Ended {
    while stream.is_alive() {
        let next = {
            // A dropped request may lose its answer, so it goes on while consumers come and go.
            let until = Instant::now() + feed.await_time + slack;
            let mut next = pin!(stream.next_if_any());
            loop {
                let changed = timeout_at(until, feed.consumers_changed());
                match select(next.as_mut(), pin!(changed)).await {
                    Either::Left((next, _)) => break next,
                    Either::Right((Ok(()), _)) => match feed.reconsider(wants) {
                        StreamChange::Stay => {}
                        StreamChange::Grow => return Ended::Grown,
                        StreamChange::End => return Ended::Idle,
                    },
                    // The server answers within the time that it may wait, so the connection is
                    // dead.
                    Either::Right((Err(_), _)) => {
                        tracing::debug!("the change stream is silent: it is opened again");
                        return Ended::Broken;
                    }
                }
            }
        };
        let change = match next {
            Ok(change) => change,
            Err(error) => {
                tracing::debug!(%error, "the change stream has ended");
                *token = token.take().filter(|_| !is_lost(&error));
                return Ended::Broken;
            }
        };
        backoff.reset();
        *token = stream.resume_token();
        let Some(change) = change else { continue };
        if ENDS.contains(&change.get_str("operationType").unwrap_or_default()) {
            *token = None;
            return Ended::Broken;
        }
        feed.take(&change);
    }
    // The collection is gone, so the stream cannot be resumed.
    *token = None;
    Ended::Broken
}

fn is_refusal(error: &tenure_core::Error) -> bool {
    matches!(error.kind(), tenure_core::ErrorKind::Rejected | tenure_core::ErrorKind::Invalid)
}

/// Returns whether the stream cannot be resumed where it ended.
fn is_lost(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::Command(command) => {
            LOST.contains(&command.code) || error.contains_label("NonResumableChangeStreamError")
        }
        ErrorKind::MissingResumeToken => true,
        _ => false,
    }
}
