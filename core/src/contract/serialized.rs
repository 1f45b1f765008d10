//! How keys, ids and shares are written and read with `serde`. What is read is refused where it makes no sense.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Key, Share, TicketId};

/// The name.
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

/// The 32 hexadecimal digits that `line` shows: a number of 128 bits is exact in no JSON parser.
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

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A share before anybody has looked whether it can be.
        #[derive(Deserialize)]
        #[serde(rename = "Share")]
        struct Unchecked {
            take: u32,
            of: u32,
        }
        let Unchecked { take, of } = Unchecked::deserialize(deserializer)?;
        Self::new(take, of).map_err(D::Error::custom)
    }
}
