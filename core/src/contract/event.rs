//! What happened to a line, for those who look on. A stream with a cursor shows an observer of an election every term
//! in order, however short; a store that keeps no journal is looked at again and again instead, and its profile says so.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Key, Ticket};

/// One thing that happened to one ticket.
///
/// ```
/// use std::time::SystemTime;
///
/// use tenure::WatchEvent;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let mut watch = locks.watch_prefix("").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// if let WatchEvent::Event(event) = watch.next().await? {
///     assert_eq!((event.ticket.id, event.number), (guard.id(), guard.token()));
///     assert!(event.at() <= SystemTime::now());
/// }
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Event {
    /// When, in microseconds since 1970 by the store's clock.
    pub at_us: u64,
    /// What.
    #[cfg_attr(feature = "serde", serde(rename = "event"))]
    pub kind: EventKind,
    /// The ticket, as it was then.
    pub ticket: Ticket,
    /// Its number.
    #[cfg_attr(feature = "serde", serde(rename = "token"))]
    pub number: u64,
}

impl Event {
    /// When it happened, by the store's clock.
    pub fn at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.at_us)
    }
}

/// What can happen to a ticket.
///
/// ```
/// use tenure::{WatchEvent, event::EventKind};
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
    /// It joined the line.
    Joined,
    /// It is served from now on.
    Served,
    /// Its note or its share changed.
    Changed,
    /// Its owner took it out.
    Left,
    /// It gave no sign of life, and is out.
    Expired,
    /// Somebody else took it out, or told its owner to.
    Broken,
}

/// Which lines to look on.
///
/// ```
/// use tenure::{Key, event::Scope};
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
    /// Every line whose key begins with this; the empty prefix is all of them.
    Prefix(String),
}

impl Scope {
    /// Whether the line of this key is meant.
    pub fn covers(&self, key: &Key) -> bool {
        match self {
            Self::Key(own) => own == key,
            Self::Prefix(prefix) => key.as_str().starts_with(prefix.as_str()),
        }
    }
}

/// How far an onlooker has seen; means something only to the engine that gave it.
///
/// ```
/// use tenure::{event::Scope, engine::{Engine, Memory}};
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let everything = Scope::Prefix(String::new());
/// let begin = engine.events(&everything, None).await?.cursor;
/// // What happens from now on is answered to whoever asks for what came after `begin`.
/// # let locks = tenure::Locks::new(engine.clone());
/// # drop(locks.mutex("a").lock().await?);
/// let news = engine.events(&everything, Some(begin)).await?;
/// assert!(news.cursor > begin);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

/// What an onlooker missed since its cursor.
///
/// ```
/// use tenure::{Locks, event::Scope, event::EventKind, engine::{Engine, Memory}};
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
    /// What happened, in the order it happened to each line.
    pub events: Vec<Event>,
    /// How far that is.
    pub cursor: Cursor,
    /// Some of what happened is no longer known: look at the lines themselves.
    pub missed: bool,
}
