//! What happened to a line, for those who look on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Key, Ticket};

/// One thing that happened to one ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Event {
    /// When, in microseconds since 1970 by the store's clock.
    pub at_us: u64,
    /// What.
    pub what: What,
    /// The ticket, as it was then.
    pub ticket: Ticket,
    /// Its number.
    pub number: u64,
}

impl Event {
    /// When it happened, by the store's clock.
    pub fn at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.at_us)
    }
}

/// What can happen to a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum What {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

/// What an onlooker missed since its cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// What happened, in the order it happened to each line.
    pub events: Vec<Event>,
    /// How far that is.
    pub cursor: Cursor,
    /// Some of what happened is no longer known: look at the lines themselves.
    pub missed: bool,
}
