//! Notices between clients, by `LISTEN` and `NOTIFY`.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_kit::Link;
use tenure_record::{Inbox, NOTICES_MAX, ROW_BACKOFF, RecordNotice};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::Notification;

use crate::connection::{OpenConnection, open_primary};
use crate::primary::{Parameter, Primary, QueryRefusal, query};
use crate::settings::{Host, Settings};
use crate::sql::NOTIFY;
use crate::trouble;

/// Pause between two notices of a client to itself, which show that notices arrive.
const ECHO_EVERY: Duration = Duration::from_secs(10);
/// The payload of a notice to itself.
const ECHO: &str = "echo";

/// Maximum steps whose notices wait to be sent, and whose notices one statement sends.
const STEPS_MAX: usize = 1024;
const STEPS_AT_ONCE: usize = 16;
/// Tries to send notices.
const TRIES_MAX: u32 = 5;

/// Sends notices in the background, one statement at a time. `NOTIFY` may wait for the
/// notifications of other programs, and the verbs behind it on this connection wait as well. A
/// notice is a hint: one that is not sent delays a waiter until its next renewal.
pub(crate) struct NoticeSender {
    waiting: mpsc::Sender<Vec<RecordNotice>>,
    task: JoinHandle<()>,
}

impl NoticeSender {
    pub(crate) fn start(link: &Arc<Link<Primary>>) -> Self {
        let (waiting, receiver) = mpsc::channel(STEPS_MAX);
        Self { waiting, task: link.home().spawn(send_all(link.clone(), receiver)) }
    }

    /// Has the notices of a step sent, if there is room.
    pub(crate) fn send(&self, notices: &[RecordNotice]) {
        if !notices.is_empty() {
            let _ = self.waiting.try_send(notices.to_vec());
        }
    }

    /// Waits until all are sent.
    pub(crate) async fn finish(self) {
        drop(self.waiting);
        let _ = self.task.await; // it may have ended with its runtime
    }
}

async fn send_all(link: Arc<Link<Primary>>, mut waiting: mpsc::Receiver<Vec<RecordNotice>>) {
    let mut steps = Vec::new();
    while waiting.recv_many(&mut steps, STEPS_AT_ONCE).await > 0 {
        let notices: Vec<_> = steps.drain(..).flatten().collect();
        let channels: Vec<_> = notices.iter().map(|notice| channel(notice.inbox)).collect();
        let payloads: Vec<_> = notices.iter().map(ToString::to_string).collect();
        let mut backoff = ROW_BACKOFF;
        for _ in 0..TRIES_MAX {
            match send(&link, &channels, &payloads).await {
                Ok(()) => break,
                Err(refusal) => {
                    tracing::debug!(?refusal, "notices are not sent");
                    if refusal.conflict().is_err() {
                        break;
                    }
                }
            }
            tokio::time::sleep(backoff.pause()).await;
        }
    }
}

/// Sends notices in a transaction of their own.
async fn send(
    link: &Link<Primary>,
    channels: &[String],
    payloads: &[String],
) -> Result<(), QueryRefusal> {
    let parameters = [Parameter::Texts(channels), Parameter::Texts(payloads)];
    query(link, NOTIFY, &parameters).await.map(drop)
}

fn channel(inbox: Inbox) -> String {
    format!("tenure_{inbox}")
}

/// Listens over a connection of its own. Returns once a notice to itself has arrived.
pub(crate) async fn listen(
    link: &Arc<Link<Primary>>,
    inbox: Inbox,
) -> Result<mpsc::Receiver<RecordNotice>> {
    let settings = listening(&link.server().settings);
    let (connection, mut notifications) = open_primary(&settings, || {}).await?;
    let statement = format!("LISTEN \"{}\"", channel(inbox));
    let listens = timeout(settings.timeout, connection.client.batch_execute(&statement)).await;
    let listens = listens.map_err(|_| trouble::no_answer(&settings))?;
    listens.map_err(|error| trouble::error(&settings, &error))?;
    let (sender, receiver) = mpsc::channel(NOTICES_MAX);
    echo(link, inbox).await?;
    let echoed = async {
        while let Some(notification) = notifications.recv().await {
            if notification.payload() == ECHO {
                return true;
            }
            // The crate reads its lines when it begins to listen, so this one is known then.
        }
        false
    };
    if timeout(settings.timeout, echoed).await != Ok(true) {
        return Err(Error::unavailable(format!(
            "{} accepts LISTEN and does not deliver notifications: is it a pooler?",
            settings.name()
        )));
    }
    let reader =
        NotificationReader { link: Arc::downgrade(link), inbox, connection, notifications, sender };
    tokio::spawn(reader.run(settings.timeout, link.closed()));
    Ok(receiver)
}

/// The settings of the connection that listens.
fn listening(settings: &Settings) -> Settings {
    let mut listening = settings.clone();
    if let Some(host) = &settings.notify_host {
        listening.hosts = vec![Host::Tcp(host.clone())];
    }
    listening
}

async fn echo(link: &Link<Primary>, inbox: Inbox) -> Result<()> {
    match send(link, &[channel(inbox)], &[ECHO.to_owned()]).await {
        Ok(()) => Ok(()),
        Err(refusal) => {
            refusal.conflict()?;
            Err(trouble::no_answer(&link.server().settings))
        }
    }
}

/// The connection that listens, and its reader.
struct NotificationReader {
    /// It closes once only tasks that send notices own it.
    link: Weak<Link<Primary>>,
    inbox: Inbox,
    /// Open while it lives.
    connection: OpenConnection,
    notifications: mpsc::Receiver<Notification>,
    sender: mpsc::Sender<RecordNotice>,
}

impl NotificationReader {
    /// Delivers notices until the reader is gone, the connection or the link ends, or for too long
    /// no notice has arrived, also none to itself.
    async fn run(mut self, patience: Duration, closed: impl Future<Output = ()>) {
        let mut closed = pin!(closed);
        let mut heard = Instant::now();
        let mut next_echo = heard + ECHO_EVERY;
        while !self.connection.client.is_closed() {
            tokio::select! {
                // A notice that has arrived counts before the time that it took.
                biased;
                notification = self.notifications.recv() => {
                    let Some(notification) = notification else { return };
                    heard = Instant::now();
                    next_echo = heard + ECHO_EVERY;
                    if !self.deliver(notification.payload()) {
                        return;
                    }
                }
                () = self.sender.closed() => return,
                () = &mut closed => return,
                () = sleep_until(heard + ECHO_EVERY + patience) => {
                    tracing::debug!("no notice to itself has arrived: waiters poll");
                    return;
                }
                () = sleep_until(next_echo) => {
                    next_echo = Instant::now() + ECHO_EVERY;
                    let Some(link) = self.link.upgrade() else { return };
                    if echo(&link, self.inbox).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Returns whether to go on. The channel ends if it is full: the crate reads its lines then.
    fn deliver(&self, payload: &str) -> bool {
        if payload == ECHO {
            return true;
        }
        match payload.parse() {
            Ok(notice) => self.sender.try_send(notice).is_ok(),
            Err(error) => {
                tracing::debug!(%error, "a notice is ignored");
                true
            }
        }
    }
}
