//! The stream of letters that other clients write into records for tickets of this client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mongodb::bson::{Document, RawDocumentBuf, bson, doc};
use tenure_core::Error;
use tenure_kit::subscriptions::Subscriptions;
use tokio::sync::watch;

use crate::feed::{Consumer, Feed, Hears, Listening};
use crate::letter;
use crate::wants::Wants;

/// The letters of one client, which it receives while one of its tickets waits.
pub(crate) struct NoticeStream {
    feed: Feed,
    wants: Wants,
    letters: Arc<Letters>,
}

impl NoticeStream {
    pub(crate) fn new(feed: Feed, wants: Wants, mail: Arc<Subscriptions>, inbox: String) -> Self {
        let (hears, openings) = (watch::Sender::default(), AtomicU64::new(0));
        Self { feed, wants, letters: Arc::new(Letters { mail, inbox, hears, openings }) }
    }

    /// Listens until this is dropped.
    pub(crate) fn listen(&self) -> Listening {
        self.feed.listen(self.letters.clone(), || self.wants.clone())
    }

    /// Returns whether letters are received, now and from now on.
    pub(crate) fn hears(&self) -> watch::Receiver<Hears> {
        self.letters.hears.subscribe()
    }

    /// Returns the opening from which letters are received, if the stream is open.
    pub(crate) fn opening(&self) -> Option<u64> {
        match *self.letters.hears.borrow() {
            Hears::Open(opening) => Some(opening),
            Hears::Closed | Hears::Refused => None,
        }
    }
}

/// Returns the filter for the changes of records that carry letters for this inbox.
pub(crate) fn letters_in_records(inbox: &str) -> Wants {
    let (delta, whole) = ("updateDescription.updatedFields.notices", "fullDocument.notices");
    let letter = |kind: &str, at: &str| doc! { "operationType": kind, at: { "$regex": inbox } };
    let notices = bson!({ "$ifNull": [format!("${delta}"), format!("${whole}")] });
    Wants {
        computed: Document::new(),
        // A new record has no letters.
        cases: vec![letter("update", delta), letter("replace", whole)],
        sent: doc! { "notices": notices },
    }
}

/// Delivers letters to the tickets' boxes.
struct Letters {
    mail: Arc<Subscriptions>,
    inbox: String,
    hears: watch::Sender<Hears>,
    /// The number of openings so far.
    openings: AtomicU64,
}

impl Consumer for Letters {
    fn opened(&self, goes_on: bool) {
        let before = *self.hears.borrow();
        match before {
            Hears::Open(_) if goes_on => {}
            // Letters were missed: every ticket looks.
            Hears::Open(_) => self.mail.interrupted(),
            // Each ticket looks for what was written before.
            Hears::Closed | Hears::Refused => {
                let opening = self.openings.fetch_add(1, Ordering::Relaxed);
                self.hears.send_replace(Hears::Open(opening));
            }
        }
    }

    fn take(&self, change: &RawDocumentBuf) {
        if let Ok(notices) = change.get_str("notices")
            && notices.contains(&self.inbox)
        {
            letter::deliver(&self.mail, &self.inbox, notices);
        }
    }

    fn failed(&self, _error: &Error, is_refused: bool) {
        if is_refused {
            self.hears.send_replace(Hears::Refused);
        }
    }

    fn closed(&self) {
        self.hears.send_replace(Hears::Closed);
    }
}
