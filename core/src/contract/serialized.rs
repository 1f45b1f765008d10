//! Serialization with `serde`, with the fields of `tenure --json`. Invalid values are refused.

use std::time::Duration;

use serde::de::Error as _;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{CounterValue, Key, LineEntry, Share, Ticket, TicketId};

/// The name of the key.
impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// 32 hexadecimal digits, because no JSON parser keeps a number of 128 bits exactly.
impl Serialize for TicketId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TicketId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The kind of share; for permits also `take` and `of`.
impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_permits = self.kind() == "permits";
        let mut share = serializer.serialize_struct("Share", if is_permits { 3 } else { 1 })?;
        share.serialize_field("kind", self.kind())?;
        if is_permits {
            share.serialize_field("take", &self.take())?;
            share.serialize_field("of", &self.of())?;
        }
        share.end()
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A share before it is checked.
        #[derive(Deserialize)]
        #[serde(rename = "Share", tag = "kind", rename_all = "snake_case")]
        enum Unchecked {
            Exclusive,
            Shared,
            Permits { take: u32, of: u32 },
        }
        match Unchecked::deserialize(deserializer)? {
            Unchecked::Exclusive => Ok(Self::WHOLE),
            Unchecked::Shared => Ok(Self::READER),
            Unchecked::Permits { take, of } => Self::new(take, of).map_err(D::Error::custom),
        }
    }
}

/// The permits of a semaphore; `None` for other shares.
#[derive(Serialize)]
struct Permits {
    take: u32,
    of: u32,
}

impl Permits {
    fn of(share: Share) -> Option<Self> {
        (share.kind() == "permits").then(|| Self { take: share.take(), of: share.of() })
    }
}

/// The ticket of an event.
impl Serialize for Ticket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut ticket = serializer.serialize_struct("Ticket", 7)?;
        ticket.serialize_field("key", &self.key)?;
        ticket.serialize_field("id", &self.id)?;
        ticket.serialize_field("kind", self.share.kind())?;
        ticket.serialize_field("permits", &Permits::of(self.share))?;
        ticket.serialize_field("owner", &self.owner)?;
        ticket.serialize_field("note", &self.note)?;
        ticket.serialize_field("ttl_ms", &millis(self.ttl))?;
        ticket.end()
    }
}

/// An entry as in `tenure line --json`, without its position.
impl Serialize for LineEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let since = self.since.map(|at| at.elapsed().unwrap_or_default());
        let mut entry = serializer.serialize_struct("LineEntry", 10)?;
        entry.serialize_field("key", &self.key)?;
        entry.serialize_field("id", &self.id)?;
        entry.serialize_field("token", &self.number)?;
        entry.serialize_field("state", self.label())?;
        entry.serialize_field("kind", self.share.kind())?;
        entry.serialize_field("permits", &Permits::of(self.share))?;
        entry.serialize_field("owner", &self.owner)?;
        entry.serialize_field("note", &self.note)?;
        entry.serialize_field("expires_in_ms", &self.life.map(millis))?;
        entry.serialize_field("since_ms", &since.map(millis))?;
        entry.end()
    }
}

/// The value as in `tenure count --json`.
impl Serialize for CounterValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut value = serializer.serialize_struct("CounterValue", 3)?;
        value.serialize_field("value", &self.value)?;
        value.serialize_field("resets_in_ms", &self.resets_in.map(millis))?;
        value.serialize_field("allowed", &self.allowed)?;
        value.end()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
