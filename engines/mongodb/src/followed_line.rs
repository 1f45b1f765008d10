//! A followed line: the recent events of one line, or of all lines, from a change stream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use mongodb::bson::{Document, RawDocumentBuf, doc};
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::line::Journal;
use tenure_core::sync::Mutex;
use tenure_core::{Error, Key, Result};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::command::CommandSender;
use crate::feed::{Consumer, Feed};
use crate::line::record;
use crate::mirror::{FIELDS, Mirror, NAME};
use crate::trouble;
use crate::wants::Wants;

/// Time without a call of an onlooker after which a line is followed no longer.
const IDLE: Duration = Duration::from_secs(30);
/// Maximum changes that wait to be read. If there are more, the onlooker's next batch reports
/// missed events.
const CHANGES_MAX: usize = 1024;
/// Pause before lines are read again that could not be read.
const PAUSE: Duration = Duration::from_millis(500);
/// Ends of the ids of sequences, counts and values, which are no lines.
const NUMBERS: [&str; 3] = [":n", ":c", ":v"];
/// Distance from the first cursor of one stream to the first of the next: no cursor belongs to two.
pub(crate) const CURSORS: u64 = 1 << 40;

/// The recent events of a line, or of all lines.
pub(crate) struct FollowedLine {
    commands: Arc<CommandSender>,
    key: Option<Key>,
    first_cursor: u64,
    past: Mutex<LineHistory>,
    news: Notify,
}

struct LineHistory {
    journal: Journal,
    mirror: Mirror,
    is_open: bool,
    /// The error for which no events are read at the moment.
    trouble: Option<Error>,
    asked: Instant,
    task: Option<AbortHandle>,
}

impl LineHistory {
    fn of(journal: Journal) -> Self {
        let (mirror, asked) = (Mirror::default(), Instant::now());
        Self { journal, mirror, is_open: false, trouble: None, asked, task: None }
    }

    fn has_ended(&self) -> bool {
        self.task.as_ref().is_some_and(AbortHandle::is_finished)
    }
}

impl FollowedLine {
    pub(crate) fn begin(
        commands: Arc<CommandSender>,
        feed: &Feed,
        key: Option<Key>,
        first_cursor: u64,
    ) -> Arc<Self> {
        let mut journal = Journal::default();
        journal.keep();
        let (past, news) = (Mutex::new(LineHistory::of(journal)), Notify::new());
        let following = Arc::new(Self { commands, key, first_cursor, past, news });
        let (heard, inbox) = mpsc::channel(CHANGES_MAX);
        let missed = AtomicBool::new(false);
        let handler = Arc::new(FeedHandler { following: following.clone(), heard, missed });
        let listening = feed.listen(handler.clone(), || wants(following.key.as_ref()));
        let follows = async move {
            handler.follow(inbox).await;
            drop(listening);
        };
        let task = following.commands.runtime.spawn(follows).abort_handle();
        following.past().task = Some(task);
        following
    }

    pub(crate) fn end(&self) {
        if let Some(task) = &self.past().task {
            task.abort();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.past().has_ended()
    }

    /// Returns once the lines are read and their changes are received, or with the error that
    /// prevents it.
    pub(crate) async fn opened(&self) -> Result<()> {
        loop {
            let news = self.news.notified();
            {
                let past = self.past();
                if let Some(trouble) = &past.trouble {
                    return Err(trouble.clone());
                }
                if past.is_open {
                    return Ok(());
                }
            }
            news.await;
        }
    }

    pub(crate) async fn since(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        let Some(Cursor(mut after)) = after else {
            let cursor = Cursor(self.first_cursor + self.past().journal.end());
            return Ok(EventBatch { events: Vec::new(), cursor, missed: false });
        };
        loop {
            let news = self.news.notified();
            {
                let mut past = self.past();
                past.asked = Instant::now();
                let cursor = Cursor(self.first_cursor + past.journal.end());
                let known = after.checked_sub(self.first_cursor).filter(|after| *after < CURSORS);
                match known.and_then(|after| past.journal.since(after, scope)) {
                    None => return Ok(EventBatch { events: Vec::new(), cursor, missed: true }),
                    Some(events) if !events.is_empty() => {
                        return Ok(EventBatch { events, cursor, missed: false });
                    }
                    // Events out of scope need not be returned.
                    Some(_) => after = cursor.0,
                }
                if let Some(trouble) = &past.trouble {
                    return Err(trouble.clone());
                }
                if past.has_ended() {
                    return Ok(EventBatch { events: Vec::new(), cursor, missed: true });
                }
            }
            // A waiting onlooker keeps the stream open: wake up in time to note that.
            let _ = timeout(IDLE / 4, news).await; // look again in either case
        }
    }

    fn past(&self) -> MutexGuard<'_, LineHistory> {
        self.past.lock()
    }
}

/// Returns the filter for the changes of a line, or of all lines.
fn wants(key: Option<&Key>) -> Wants {
    let lines = if let Some(key) = key {
        doc! { "documentKey._id": record(key) }
    } else {
        let numbers = format!("({})$", NUMBERS.join("|"));
        doc! { "documentKey._id": { "$not": { "$regex": numbers } } }
    };
    Wants {
        computed: Document::new(),
        // A collection that was dropped has no further changes: its lines are read anew.
        cases: vec![lines, doc! { "documentKey": { "$exists": false } }],
        sent: doc! { "fullDocument": 1, "updateDescription": 1 },
    }
}

/// A message of the change stream to an onlooker.
enum StreamMessage {
    Opened { goes_on: bool },
    Change(RawDocumentBuf),
}

/// Writes what is received into the journal.
struct FeedHandler {
    following: Arc<FollowedLine>,
    heard: mpsc::Sender<StreamMessage>,
    /// Whether more was received than may wait to be read.
    missed: AtomicBool,
}

impl FeedHandler {
    fn put(&self, heard: StreamMessage) {
        if self.heard.try_send(heard).is_err() {
            self.missed.store(true, Ordering::Relaxed);
        }
    }

    fn concerns(&self, change: &RawDocumentBuf) -> bool {
        let id = change.get_document("documentKey").and_then(|key| key.get_str("_id"));
        let Ok(id) = id else { return false };
        match &self.following.key {
            Some(key) => id == record(key),
            None => !NUMBERS.iter().any(|end| id.ends_with(end)),
        }
    }

    /// Writes the journal for as long as an onlooker asks for it.
    async fn follow(&self, mut inbox: mpsc::Receiver<StreamMessage>) {
        while self.following.past().asked.elapsed() < IDLE {
            let Ok(heard) = timeout(IDLE / 4, inbox.recv()).await else { continue };
            let Some(heard) = heard else { return };
            let is_told = match heard {
                _ if self.missed.load(Ordering::Relaxed) => false,
                StreamMessage::Opened { goes_on } => goes_on && self.following.goes_on(),
                StreamMessage::Change(change) => self.following.learn(&change).await.is_ok(),
            };
            if is_told {
                continue;
            }
            // The waiting messages are older than the read that follows.
            self.missed.store(false, Ordering::Relaxed);
            while inbox.try_recv().is_ok() {}
            while let Err(error) = self.following.read().await {
                self.following.fail(error);
                sleep(PAUSE).await;
                if self.following.past().asked.elapsed() >= IDLE {
                    return;
                }
            }
        }
    }
}

impl Consumer for FeedHandler {
    fn opened(&self, goes_on: bool) {
        self.put(StreamMessage::Opened { goes_on });
    }

    fn take(&self, change: &RawDocumentBuf) {
        if self.concerns(change) {
            self.put(StreamMessage::Change(change.clone()));
        }
    }

    fn failed(&self, error: &Error, _is_refused: bool) {
        self.following.fail(error.clone());
    }

    fn closed(&self) {}
}

impl FollowedLine {
    /// Called if the stream was resumed where it ended. Returns whether nothing was missed, which
    /// is so if the lines were read before.
    fn goes_on(&self) -> bool {
        let mut past = self.past();
        if past.is_open {
            past.trouble = None;
            self.news.notify_waiters();
        }
        past.is_open
    }

    /// Reads the lines as they are now. Events before that are missed.
    async fn read(&self) -> Result<()> {
        let all = || doc! { "reap": true };
        let lines = self.key.as_ref().map_or_else(all, |key| doc! { "_id": record(key) });
        let records = self.commands.read(&lines, &FIELDS).await?;
        let mut past = self.past();
        past.mirror = Mirror::of(records);
        if past.is_open {
            past.journal.gap();
        }
        (past.is_open, past.trouble) = (true, None);
        self.news.notify_waiters();
        Ok(())
    }

    /// Records the events of a change.
    async fn learn(&self, change: &RawDocumentBuf) -> Result<()> {
        let change = Document::try_from(change.as_ref());
        let change = change.map_err(|_| trouble::strange(&self.commands.servers))?;
        let stranger = self.past().mirror.stranger(&change);
        let name = match stranger {
            Some(id) => self.commands.read(&doc! { "_id": id }, &NAME).await?,
            None => Vec::new(),
        };
        let mut past = self.past();
        past.mirror.learn(name);
        for event in past.mirror.apply(&change) {
            past.journal.push(event);
        }
        self.news.notify_waiters();
        Ok(())
    }

    fn fail(&self, error: Error) {
        self.past().trouble = Some(error);
        self.news.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use mongodb::Client;
    use mongodb::options::ClientOptions;
    use tokio::runtime::Handle;

    use super::*;
    use crate::server_label::ServerLabel;
    use crate::settings::Settings;

    #[tokio::test]
    async fn an_onlooker_that_does_not_keep_up_misses_changes_and_keeps_no_more_than_fit() {
        let client = Client::with_options(ClientOptions::default()).unwrap();
        let runtime = Handle::current();
        let commands =
            Arc::new(CommandSender::new(client, ServerLabel::unknown(), runtime, &Settings::new()));
        let key = Key::new("a").unwrap();
        let id = record(&key);
        let past = Mutex::new(LineHistory::of(Journal::default()));
        let (news, key) = (Notify::new(), Some(key));
        let following = Arc::new(FollowedLine { commands, key, first_cursor: 0, past, news });
        let (heard, mut inbox) = mpsc::channel(2);
        let handler = FeedHandler { following, heard, missed: AtomicBool::new(false) };
        let change =
            |id: &str| RawDocumentBuf::try_from(&doc! { "documentKey": { "_id": id } }).unwrap();
        for change in [change(&id), change("another line"), change(&id)] {
            handler.take(&change);
        }
        assert!(!handler.missed.load(Ordering::Relaxed));
        handler.take(&change(&id));
        assert!(handler.missed.load(Ordering::Relaxed));
        let mut kept = 0;
        while inbox.try_recv().is_ok() {
            kept += 1;
        }
        assert_eq!(kept, 2);
    }
}
