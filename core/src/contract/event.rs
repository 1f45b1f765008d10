//! Events of a line, for watchers. A store with a journal delivers every event in order. A store
//! without one is polled, and its guarantees say so: see [`EventDelivery`](crate::EventDelivery).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Key, Ticket};

/// A change of one ticket.
///
/// ```
/// use std::time::SystemTime;
///
/// use tenure::inspect::WatchEvent;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let mut watch = locks.watch_prefix("").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// if let WatchEvent::Event(event) = watch.next().await? {
///     assert_eq!((event.ticket.id, event.number), (guard.id(), guard.token().get()));
///     assert!(event.at() <= SystemTime::now());
/// }
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Event {
    /// The time of the change, in microseconds since 1970 by the store's clock.
    pub at_us: u64,
    /// The kind of change.
    #[cfg_attr(feature = "serde", serde(rename = "event"))]
    pub kind: EventKind,
    /// The ticket, as it was at that time.
    pub ticket: Ticket,
    /// The ticket's number.
    #[cfg_attr(feature = "serde", serde(rename = "token"))]
    pub number: u64,
}

impl Event {
    /// The event of an engine.
    pub fn new(kind: EventKind, at_us: u64, ticket: Ticket, number: u64) -> Self {
        Self { at_us, kind, ticket, number }
    }

    /// The time of the change, by the store's clock.
    pub fn at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.at_us)
    }
}

/// A kind of change of a ticket.
///
/// ```
/// use tenure::inspect::{EventKind, WatchEvent};
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let mut watch = locks.watch("invoices/42").await?;
/// drop(locks.mutex("invoices/42").lock().await?);
/// for expected in [EventKind::Joined, EventKind::Served, EventKind::Left] {
///     assert!(matches!(watch.next().await?, WatchEvent::Event(event) if event.kind == expected));
/// }
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum EventKind {
    /// The ticket joined the line.
    Joined,
    /// The ticket is served from now on.
    Served,
    /// The ticket's note or share changed.
    Changed,
    /// The owner removed the ticket.
    Left,
    /// The ticket expired, and was removed.
    Expired,
    /// Another client removed the ticket, or asked its owner to leave.
    Broken,
}

/// The lines to watch.
///
/// ```
/// use tenure::inspect::Scope;
/// use tenure::Key;
///
/// let invoices = Scope::Prefix("invoices/".into());
/// assert!(invoices.covers(&Key::new("invoices/42")?));
/// assert!(!invoices.covers(&Key::new("reports/42")?));
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One line.
    Key(Key),
    /// Every line whose key begins with this. The empty prefix is all lines.
    Prefix(String),
}

impl Scope {
    /// Whether the line of this key is in scope.
    pub fn covers(&self, key: &Key) -> bool {
        match self {
            Self::Key(own) => own == key,
            Self::Prefix(prefix) => key.as_str().starts_with(prefix.as_str()),
        }
    }
}

/// A position in the events of one engine.
///
/// ```
/// use tenure::engine::{Engine, Memory};
/// use tenure::inspect::Scope;
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let everything = Scope::Prefix(String::new());
/// let begin = engine.events(&everything, None).await?.cursor;
/// // A call with `begin` returns the events from now on.
/// # let locks = tenure::Locks::new(engine.clone());
/// # drop(locks.mutex("a").lock().await?);
/// let news = engine.events(&everything, Some(begin)).await?;
/// assert!(news.cursor > begin);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

/// The events after a cursor.
///
/// ```
/// use tenure::engine::{Engine, Memory};
/// use tenure::inspect::{EventKind, Scope};
/// use tenure::Locks;
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let everything = Scope::Prefix(String::new());
/// let cursor = engine.events(&everything, None).await?.cursor;
/// drop(Locks::new(engine.clone()).mutex("a").lock().await?);
/// let news = engine.events(&everything, Some(cursor)).await?;
/// assert!(!news.missed);
/// assert_eq!(news.events[0].kind, EventKind::Joined);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBatch {
    /// The events, in order for each line.
    pub events: Vec<Event>,
    /// The position after these events.
    pub cursor: Cursor,
    /// Some events are no longer known: read the lines again.
    pub missed: bool,
}
