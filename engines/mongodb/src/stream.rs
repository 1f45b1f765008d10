//! The stream: it hears what other clients write into records about this client's tickets, and whoever meddles with
//! records. The server filters, so a client hears only of its own inbox.

use std::sync::{Arc, Mutex, PoisonError};

use mongodb::bson::{Document, RawDocumentBuf};
use tenure_core::Result;
use tenure_kit::mailbox::Mailbox;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::call::Calls;
use crate::follow::{Listener, follow};
use crate::hearing::Hearing;
use crate::letter;
use crate::roll::Roll;

/// What one client hears, and where it puts it.
pub(crate) struct Stream {
    calls: Arc<Calls>,
    mail: Arc<Mailbox>,
    roll: Arc<Roll>,
    hearing: Arc<Hearing>,
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
        hearing: Arc<Hearing>,
        inbox: String,
    ) -> Self {
        Self {
            calls,
            mail,
            roll,
            hearing,
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
                mail: self.mail.clone(),
                roll: self.roll.clone(),
                hearing: self.hearing.clone(),
                inbox: self.inbox.clone(),
                opened: self.opened.clone(),
            };
            *listens = Some(self.calls.home.spawn(follow(self.calls.clone(), ear)).abort_handle());
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

/// Puts what is heard into the tickets' boxes. Where something was missed, every ticket looks.
struct Ear {
    mail: Arc<Mailbox>,
    roll: Arc<Roll>,
    hearing: Arc<Hearing>,
    inbox: String,
    opened: watch::Sender<bool>,
}

impl Listener for Ear {
    fn stages(&self) -> Vec<Document> {
        self.hearing.filter(&self.inbox)
    }

    async fn opened(&mut self, goes_on: bool) -> Result<()> {
        // Before the first time it is for each ticket to find out what it missed.
        let is_first = !self.opened.send_replace(true);
        if !goes_on && !is_first {
            self.mail.interrupted();
        }
        Ok(())
    }

    async fn take(&mut self, event: &RawDocumentBuf) -> Result<()> {
        if let Ok(bell) = event.get_str("bell")
            && bell.contains(&self.inbox)
        {
            letter::deliver(&self.mail, &self.inbox, bell);
            return Ok(());
        }
        let record = event
            .get("documentKey")
            .ok()
            .flatten()
            .and_then(|key| key.as_document()?.get("_id").ok()?);
        let record = record.and_then(|id| self.hearing.record(id));
        for id in record.map_or_else(Vec::new, |record| self.roll.of(&record)) {
            self.mail.look(id);
        }
        Ok(())
    }

    fn failed(&mut self, error: &mongodb::error::Error) {
        tracing::debug!(%error, "the change stream does not open");
    }
}
