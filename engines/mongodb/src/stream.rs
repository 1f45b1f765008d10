//! The stream: it hears what other clients write into records about this client's tickets, and whoever meddles with
//! records. The server filters, so a client hears only of its own inbox.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{ReadPreference, SelectionCriteria};
use tenure_core::uneven;
use tenure_kit::mailbox::Mailbox;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::call::Calls;
use crate::letter;
use crate::roll::Roll;

/// The server answers after this time if nothing has happened.
const AWAIT: Duration = Duration::from_secs(20);
/// The pause after a failure; it doubles with each failure that follows.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The stream can be resumed no more: what happened meanwhile is lost. `ChangeStreamFatalError`,
/// `ChangeStreamHistoryLost`, `InvalidResumeToken`, `CappedPositionLost`, `CursorNotFound` of a stream that was dropped.
const LOST: [i32; 4] = [280, 286, 260, 136];

/// What one client hears, and where it puts it.
pub(crate) struct Stream {
    calls: Arc<Calls>,
    mail: Arc<Mailbox>,
    roll: Arc<Roll>,
    inbox: String,
    /// The task that listens, once there is one.
    listens: Mutex<Option<AbortHandle>>,
    /// Whether it has heard anything yet.
    opened: watch::Sender<bool>,
}

impl Stream {
    pub(crate) fn new(
        calls: Arc<Calls>,
        mail: Arc<Mailbox>,
        roll: Arc<Roll>,
        inbox: String,
    ) -> Self {
        Self {
            calls,
            mail,
            roll,
            inbox,
            listens: Mutex::default(),
            opened: watch::Sender::new(false),
        }
    }

    /// Listens from now on.
    pub(crate) fn start(&self) {
        let mut listens = self.listens.lock().unwrap_or_else(PoisonError::into_inner);
        if listens.is_none() {
            let ear = Ear {
                calls: self.calls.clone(),
                mail: self.mail.clone(),
                roll: self.roll.clone(),
                inbox: self.inbox.clone(),
                opened: self.opened.clone(),
            };
            *listens = Some(self.calls.home.spawn(ear.listen()).abort_handle());
        }
    }

    /// Whether it hears, or catches up with what it missed.
    pub(crate) fn is_open(&self) -> bool {
        *self.opened.borrow()
    }

    /// Returns once it hears.
    pub(crate) async fn opened(&self) {
        let mut opened = self.opened.subscribe();
        // It cannot be closed: the sender is here.
        let _open = opened.wait_for(|opened| *opened).await;
    }

    /// Listens no more.
    pub(crate) fn stop(&self) {
        let listens = self.listens.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = listens {
            task.abort();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The task that listens. It alone owns the driver's stream.
struct Ear {
    calls: Arc<Calls>,
    mail: Arc<Mailbox>,
    roll: Arc<Roll>,
    inbox: String,
    opened: watch::Sender<bool>,
}

impl Ear {
    /// Listens for as long as it is not stopped. A stream that ends goes on where it ended; where that cannot be, every
    /// ticket looks.
    async fn listen(self) {
        let (mut token, mut pause) = (None, PAUSE_FIRST);
        loop {
            let resumes = token.is_some();
            match self.open(token.clone()).await {
                Ok(mut stream) => {
                    // Before the first time it is for each ticket to find out what it missed.
                    let is_first = !self.opened.send_replace(true);
                    if !resumes && !is_first {
                        self.mail.interrupted();
                    }
                    pause = PAUSE_FIRST;
                    token = self.hear(&mut stream).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "the change stream does not open");
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
        &self,
        token: Option<ResumeToken>,
    ) -> Result<ChangeStream<RawDocumentBuf>, Error> {
        let records = self.calls.database.collection::<Document>(&self.calls.collection);
        let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
        let watch = records.watch().pipeline(filter(&self.inbox)).max_await_time(AWAIT);
        let watch = watch.selection_criteria(primary);
        let stream = match token {
            Some(token) => watch.resume_after(token).await?,
            None => watch.await?,
        };
        Ok(stream.with_type())
    }

    /// Hears until the stream ends, and says where it can be resumed.
    async fn hear(&self, stream: &mut ChangeStream<RawDocumentBuf>) -> Option<ResumeToken> {
        while stream.is_alive() {
            match stream.next_if_any().await {
                Ok(Some(event)) => {
                    self.take(&event)?;
                }
                Ok(None) => {}
                Err(error) if is_lost(&error) => return None,
                Err(error) => {
                    tracing::debug!(%error, "the change stream has ended");
                    return stream.resume_token();
                }
            }
        }
        stream.resume_token()
    }

    /// What an event says to this client's tickets; `None` if the collection is gone, and the stream with it.
    fn take(&self, event: &RawDocumentBuf) -> Option<()> {
        let what = event.get_str("operationType").unwrap_or_default();
        if matches!(what, "drop" | "rename" | "dropDatabase" | "invalidate") {
            return None;
        }
        if let Ok(bell) = event.get_str("bell") {
            letter::deliver(&self.mail, &self.inbox, bell);
            return Some(());
        }
        let record = event.get_document("documentKey").and_then(|key| key.get_str("_id"));
        for id in record.map_or_else(|_| Vec::new(), |record| self.roll.of(record)) {
            self.mail.look(id);
        }
        Some(())
    }
}

/// Of all changes those that concern this inbox, and those that no verb of Tenure's makes.
fn filter(inbox: &str) -> [Document; 2] {
    let (delta, whole) = ("updateDescription.updatedFields", "fullDocument");
    let letter = |at: &str| doc! { format!("{at}.bell"): { "$regex": inbox } };
    let foreign = |operation: &str, at: &str| {
        doc! { "operationType": operation, format!("{at}.step"): { "$exists": false } }
    };
    let gone = ["delete", "drop", "rename", "dropDatabase", "invalidate"].to_vec();
    let cases = vec![
        letter(delta),
        letter(whole),
        doc! { "operationType": { "$in": gone } },
        foreign("update", delta),
        foreign("replace", whole),
    ];
    [
        doc! { "$match": { "$or": cases } },
        doc! { "$project": {
            "operationType": 1,
            "documentKey": 1,
            "bell": { "$ifNull": [format!("${delta}.bell"), format!("${whole}.bell")] },
        } },
    ]
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
