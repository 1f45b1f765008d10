//! Serialization with `serde`, with the fields of `tenure --json`. Invalid values are refused.

use std::time::Duration;

use serde::de::Error as _;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{CounterValue, Key, Place, Share, Ticket, TicketId};

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

/// A ticket as in `tenure line --json`, without its place.
impl Serialize for Ticket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// The permits of a semaphore.
        #[derive(Serialize)]
        struct Permits {
            take: u32,
            of: u32,
        }
        let share = self.share;
        let permits =
            (share.kind() == "permits").then(|| Permits { take: share.take(), of: share.of() });
        let mut ticket = serializer.serialize_struct("Ticket", 7)?;
        ticket.serialize_field("key", &self.key)?;
        ticket.serialize_field("id", &self.id)?;
        ticket.serialize_field("kind", share.kind())?;
        ticket.serialize_field("permits", &permits)?;
        ticket.serialize_field("owner", &self.owner)?;
        ticket.serialize_field("note", &self.note)?;
        ticket.serialize_field("ttl_ms", &millis(self.ttl))?;
        ticket.end()
    }
}

/// A place as in `tenure line --json`.
impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut place = serializer.serialize_struct("Place", 3)?;
        place.serialize_field("token", &self.number)?;
        place.serialize_field("state", self.label())?;
        place.serialize_field("expires_in_ms", &self.life.map(millis))?;
        place.end()
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
