//! A stream of the events of one key, or of all keys with a prefix.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::background::client::Client;
use crate::background::event_stream::{Cooldown, EventStream, Source};
use crate::event::{Cursor, Event, Scope};
use crate::{Engine as _, Key, Locks, Result};

/// A stream of events from the moment it was made. It never ends.
///
/// An error does not end the stream: it continues when the store answers again. While the store
/// fails, it is asked again after pauses that grow to ten seconds.
///
/// ```
/// use tenure::inspect::WatchEvent;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let mut watch = locks.watch_prefix("invoices/").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// match watch.next().await? {
///     WatchEvent::Event(event) => assert_eq!(event.ticket.key.as_str(), "invoices/42"),
///     _ => println!("read the lines again"),
/// }
/// # drop(guard);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct Watch(EventStream<WatchEvent>);

/// An item of a [`Watch`].
///
/// ```
/// use tenure::inspect::WatchEvent;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let mut watch = locks.watch_prefix("").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// match watch.next().await? {
///     WatchEvent::Event(event) => println!("{:?}: {}", event.kind, event.ticket.key),
///     WatchEvent::Gap => println!("{} keys are in use", locks.keys("").await?.len()),
///     _ => {}
/// }
/// # drop(guard);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum WatchEvent {
    /// An event.
    Event(Event),
    /// Events were missed, because the store no longer has them: read the lines again.
    Gap,
}

impl Locks {
    /// Watches every key that begins with `prefix`.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub async fn watch_prefix(&self, prefix: impl Into<String>) -> Result<Watch> {
        Watch::start(&self.client, Scope::Prefix(prefix.into())).await
    }

    /// Watches one key.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub async fn watch(&self, key: impl AsRef<str>) -> Result<Watch> {
        Watch::start(&self.client, Scope::Key(Key::new(key)?)).await
    }
}

impl Watch {
    pub(crate) async fn start(client: &Arc<Client>, scope: Scope) -> Result<Self> {
        client.runtime.ready()?;
        let cursor = client.open_engine()?.events(&scope, None).await?.cursor;
        let (client, seen, rest) = (client.clone(), VecDeque::new(), Cooldown::default());
        Ok(Self(EventStream::new(Onlooker { client, scope, cursor, seen, rest })))
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// The store failed. The next call tries again.
    ///
    /// # Cancel safety
    ///
    /// No event is missed if the future is dropped: the next call continues where this one stopped.
    pub async fn next(&mut self) -> Result<WatchEvent> {
        self.0.next().await
    }
}

impl Stream for Watch {
    type Item = Result<WatchEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next(context)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

struct Onlooker {
    client: Arc<Client>,
    scope: Scope,
    cursor: Cursor,
    seen: VecDeque<WatchEvent>,
    rest: Cooldown,
}

impl Source for Onlooker {
    type Item = WatchEvent;

    async fn next(&mut self) -> Result<WatchEvent> {
        loop {
            if let Some(seen) = self.seen.pop_front() {
                return Ok(seen);
            }
            let runtime = &*self.client.runtime;
            self.rest.over(runtime).await;
            let news = match self.client.open_engine() {
                Ok(engine) => engine.events(&self.scope, Some(self.cursor)).await,
                Err(closed) => Err(closed),
            };
            let news = self.rest.after(news, runtime)?;
            self.cursor = news.cursor;
            if news.missed {
                self.seen.push_back(WatchEvent::Gap);
            }
            self.seen.extend(news.events.into_iter().map(WatchEvent::Event));
        }
    }
}
