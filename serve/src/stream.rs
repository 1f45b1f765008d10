//! A stream of server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{Stream, unfold};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

use crate::events::{EventRing, NextEvent};
use crate::reply::{HttpRefusal, HttpReply, ReplyBody, reply};

/// Maximum streams of one service.
pub const STREAMS_MAX: usize = 1_000;
/// Interval of the heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// After this time a client whose stream has ended connects again.
const RECONNECT_MS: u64 = 2_000;
/// The id of the last event that a client has seen.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// With the value `no`, nginx passes each event on at once.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A stream of one client.
struct EventsOfClient {
    ring: Arc<EventRing>,
    prefix: String,
    /// The position behind which the stream continues.
    seen: u64,
    /// A text to send before the next event.
    first: Option<Bytes>,
    heads: watch::Receiver<u64>,
    ending: watch::Receiver<bool>,
    /// Held for the life of the stream.
    _permit: OwnedSemaphorePermit,
}

/// Answers `GET /v1/watch`: the events from now on, or from behind the header `Last-Event-ID`.
pub(crate) async fn open(
    ring: &Arc<EventRing>,
    prefix: String,
    headers: &HeaderMap,
) -> Result<HttpReply, HttpRefusal> {
    let Ok(permit) = ring.streams.clone().try_acquire_owned() else {
        let sentence = format!("{STREAMS_MAX} streams are open: try again later");
        return Err(HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, sentence));
    };
    ring.start().await?;
    let heads = ring.heads();
    let head = *heads.borrow();
    let last =
        headers.get(LAST_EVENT_ID).map(|id| id.to_str().ok().and_then(|id| ring.position(id)));
    let (seen, gap) = match last {
        None => (head, ""),
        Some(Some(position)) => (position, ""),
        // The id of another ring: the events between are not known.
        Some(None) => (head, "event: gap\ndata: {}\n"),
    };
    let first = format!("retry: {RECONNECT_MS}\nid: {}\n{gap}\n", ring.id(seen));
    let stream = EventsOfClient {
        ring: ring.clone(),
        prefix,
        seen,
        first: Some(first.into()),
        heads,
        ending: ring.ending(),
        _permit: permit,
    };
    let body = ReplyBody::new(StreamBody::new(frames(stream)));
    let mut reply = reply(StatusCode::OK, "text/event-stream", "no-store", body);
    reply.headers_mut().insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(reply)
}

fn frames(
    stream: EventsOfClient,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static {
    unfold(stream, |mut stream| async move {
        let text = stream.next().await?;
        Some((Ok(Frame::data(text)), stream))
    })
}

impl EventsOfClient {
    /// Returns the next text, or `None` at the end of the service.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let heartbeat = Instant::now() + HEARTBEAT;
        loop {
            self.heads.mark_unchanged();
            match self.ring.next(self.seen, &self.prefix) {
                NextEvent::Event(event) => {
                    self.seen = event.position;
                    return Some(event.text);
                }
                NextEvent::Gap(head) => {
                    self.seen = head;
                    let id = self.ring.id(head);
                    return Some(format!("id: {id}\nevent: gap\ndata: {{}}\n\n").into());
                }
                NextEvent::Nothing(head) => self.seen = head,
            }
            tokio::select! {
                changed = self.heads.changed() => changed.ok()?,
                _ = self.ending.wait_for(|ended| *ended) => return None,
                () = sleep_until(heartbeat) => {
                    // Also moves the client's `Last-Event-ID` on, over events of other keys.
                    return Some(format!(": alive\nid: {}\n\n", self.ring.id(self.seen)).into());
                }
            }
        }
    }
}
