//! The ring of events behind all streams, and the one watch of the store that fills it.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper::body::Bytes;
use serde::Serialize;
use serde_json::json;
use tenure_core::event::{Event, EventKind};
use tenure_core::{Backoff, Key, Locks, Reason, Result, TicketId, Watch, WatchEvent};
use tenure_kit::rfc3339::rfc3339;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

use crate::stream::STREAMS_MAX;

/// Events that a stream may be behind before it has a gap.
const EVENTS_KEPT: usize = 1_024;
/// The store is watched for this time after the last stream has ended, at least.
const LINGER: Duration = Duration::from_secs(60);
/// Pauses before a new watch, after the store refused the watch.
const WATCH_AGAIN: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// The events of the store since the first stream, each with a position.
pub(crate) struct EventRing {
    locks: Locks,
    /// A random name: the ring of an earlier process had another.
    name: String,
    kept: Mutex<VecDeque<KeptEvent>>,
    /// The position of the last event.
    head: watch::Sender<u64>,
    ended: watch::Sender<bool>,
    /// One permit for each stream that may be opened.
    pub(crate) streams: Arc<Semaphore>,
    watching: tokio::sync::Mutex<Watching>,
    /// The streams have had `trouble`, and the store has not answered since.
    is_down: AtomicBool,
}

/// The state of the watch that fills the ring.
#[derive(Default, PartialEq, Eq)]
enum Watching {
    #[default]
    NotYet,
    Running,
    Paused,
}

/// An event as all streams send it.
#[derive(Clone)]
pub(crate) struct KeptEvent {
    pub(crate) position: u64,
    /// `None`: it concerns all keys.
    key: Option<Key>,
    pub(crate) text: Bytes,
}

/// An event as JSON, whose fields have the same order in every build.
#[derive(Serialize)]
struct SentEvent<'a> {
    at: String,
    event: &'a str,
    key: &'a str,
    ticket: String,
    number: u64,
    owner: &'a str,
    note: &'a str,
}

/// The next step of a stream.
pub(crate) enum NextEvent {
    /// An event to send.
    Event(KeptEvent),
    /// Events were dropped before the stream sent them. It continues behind this position.
    Gap(u64),
    /// All events up to this position were sent or are of other keys.
    Nothing(u64),
}

impl EventRing {
    pub(crate) fn new(locks: Locks) -> Self {
        Self {
            locks,
            name: TicketId::fresh().to_string()[..8].to_owned(),
            kept: Mutex::default(),
            head: watch::Sender::new(0),
            ended: watch::Sender::new(false),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            watching: tokio::sync::Mutex::default(),
            is_down: AtomicBool::new(false),
        }
    }

    /// Watches the store, if it is not watched yet. Every later event reaches the ring.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<()> {
        let mut watching = self.watching.lock().await;
        if *watching == Watching::Running {
            return Ok(());
        }
        let watch = self.locks.watch_prefix("").await?;
        if *watching == Watching::Paused {
            self.push(None, "gap", &json!({}));
        }
        *watching = Watching::Running;
        tokio::spawn(fill(Arc::downgrade(self), watch));
        Ok(())
    }

    /// Ends all streams.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }

    pub(crate) fn ending(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    pub(crate) fn heads(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// The id of a position, which clients send back as `Last-Event-ID`.
    pub(crate) fn id(&self, position: u64) -> String {
        format!("{}-{position}", self.name)
    }

    /// The position of an id. `None` for an id of another ring.
    pub(crate) fn position(&self, id: &str) -> Option<u64> {
        let position = id.strip_prefix(self.name.as_str())?.strip_prefix('-')?.parse().ok()?;
        (position <= *self.head.borrow()).then_some(position)
    }

    /// Returns the first event behind `seen` whose key begins with `prefix`.
    pub(crate) fn next(&self, seen: u64, prefix: &str) -> NextEvent {
        let kept = self.kept();
        let Some(last) = kept.back().map(|event| event.position) else {
            return NextEvent::Nothing(seen);
        };
        let behind = usize::try_from(last.saturating_sub(seen)).unwrap_or(usize::MAX);
        if behind > kept.len() {
            return NextEvent::Gap(last);
        }
        let is_wanted = |event: &&KeptEvent| {
            event.key.as_ref().is_none_or(|key| key.as_str().starts_with(prefix))
        };
        match kept.iter().skip(kept.len() - behind).find(is_wanted) {
            Some(event) => NextEvent::Event(event.clone()),
            None => NextEvent::Nothing(last.max(seen)),
        }
    }

    fn push(&self, key: Option<Key>, name: &str, data: &impl Serialize) {
        let data = serde_json::to_string(data).unwrap_or_default(); // text and numbers cannot fail
        let mut kept = self.kept();
        let position = *self.head.borrow() + 1;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(text, "id: {}\nevent: {name}\ndata: {data}\n\n", self.id(position));
        if kept.len() == EVENTS_KEPT {
            kept.pop_front();
        }
        kept.push_back(KeptEvent { position, key, text: text.into() });
        self.head.send_replace(position);
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<KeptEvent>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push_event(&self, event: &Event) {
        let Some(kind) = name_of(event.kind) else { return };
        let ticket = &event.ticket;
        let data = SentEvent {
            at: rfc3339(event.at_us),
            event: kind,
            key: ticket.key.as_str(),
            ticket: ticket.id.to_string(),
            number: event.number,
            owner: &ticket.owner,
            note: &ticket.note,
        };
        self.push(Some(ticket.key.clone()), "ticket", &data);
    }

    /// Sends `trouble` to every stream, once in a failure of the store. `/v1/health` has the
    /// present state.
    fn push_trouble(&self, error: &tenure_core::Error) {
        if !self.is_down.swap(true, Ordering::Relaxed) {
            self.push(None, "trouble", &json!({ "error": error.to_string() }));
        }
    }

    /// The store has answered: its next failure is `trouble` again.
    pub(crate) fn store_answered(&self) {
        self.is_down.store(false, Ordering::Relaxed);
    }

    fn has_streams(&self) -> bool {
        self.streams.available_permits() < STREAMS_MAX
    }
}

/// Fills the ring until no stream was open for [`LINGER`], or the service is gone or closed.
async fn fill(ring: Weak<EventRing>, mut events: Watch) {
    let (mut was_idle, mut backoff) = (false, WATCH_AGAIN);
    loop {
        let next = tokio::select! {
            next = events.next() => next,
            () = sleep(LINGER) => {
                let Some(ring) = ring.upgrade() else { return };
                // A stream that is being opened has its permit, and waits for this mutex.
                let mut watching = ring.watching.lock().await;
                let is_idle = !ring.has_streams();
                if is_idle && was_idle {
                    *watching = Watching::Paused;
                    return;
                }
                was_idle = is_idle;
                continue;
            }
        };
        let Some(filled) = ring.upgrade() else { return };
        let error = match next {
            Ok(event) => {
                filled.store_answered();
                backoff.reset();
                match event {
                    WatchEvent::Event(event) => filled.push_event(&event),
                    _ => filled.push(None, "gap", &json!({})),
                }
                continue;
            }
            Err(error) => error,
        };
        if error.reason() == Some(Reason::Closed) {
            return filled.end();
        }
        filled.push_trouble(&error);
        if error.is_retryable() {
            // The watch continues by itself.
            continue;
        }
        tracing::warn!(%error, "the store refused the watch");
        let locks = filled.locks.clone();
        drop(filled);
        sleep(backoff.pause()).await;
        // If this fails, the old watch is asked once more.
        match locks.watch_prefix("").await {
            Ok(watch) => events = watch,
            Err(error) => {
                tracing::debug!(%error, "the store refused a new watch");
                continue;
            }
        }
        let Some(filled) = ring.upgrade() else { return };
        filled.store_answered();
        // The events between the two watches are not known.
        filled.push(None, "gap", &json!({}));
    }
}

fn name_of(kind: EventKind) -> Option<&'static str> {
    Some(match kind {
        EventKind::Joined => "joined",
        EventKind::Served => "served",
        EventKind::Changed => "changed",
        EventKind::Left => "left",
        EventKind::Expired => "expired",
        EventKind::Broken => "broken",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use tenure_core::Memory;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn without_streams_the_store_is_not_watched_and_the_next_stream_has_a_gap() {
        let ring = Arc::new(EventRing::new(Locks::new(Memory::new())));
        let permit = ring.streams.clone().try_acquire_owned().unwrap();
        ring.start().await.unwrap();
        sleep(LINGER * 5).await;
        assert!(*ring.watching.lock().await == Watching::Running, "a stream is open");
        drop(permit);
        while *ring.watching.lock().await != Watching::Paused {
            sleep(LINGER).await;
        }
        assert!(matches!(ring.next(0, ""), NextEvent::Nothing(0)));
        ring.start().await.unwrap();
        let NextEvent::Event(event) = ring.next(0, "") else { panic!("a gap") };
        assert!(event.text.ends_with(b"event: gap\ndata: {}\n\n"));
    }

    #[test]
    fn a_position_is_known_by_its_id_while_it_is_of_this_ring() {
        let ring = EventRing::new(Locks::new(Memory::new()));
        ring.push(None, "gap", &json!({}));
        assert_eq!(ring.position(&ring.id(1)), Some(1));
        assert_eq!(ring.position(&ring.id(2)), None, "it was not given out");
        assert_eq!(ring.position("00000000-1"), None);
        assert_eq!(ring.position("1"), None);
    }
}
