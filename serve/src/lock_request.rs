//! The body of a request about a lock, and the ticket that it is about.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tenure_core::{Key, Owner, Share, TTL_DEFAULT, Ticket, TicketId};

use crate::reply::HttpRefusal;

/// Length of a client's id, in bytes.
const ID_BYTES: std::ops::RangeInclusive<usize> = 16..=128;
/// Minimum ttl of a lock.
pub(crate) const TTL_LEAST: Duration = Duration::from_secs(1);
/// Maximum ttl of a lock.
pub(crate) const TTL_MOST: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum time that a request waits for a lock. Proxies end requests that take longer.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

/// The body of a request to take, renew or release a lock.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockRequest {
    /// The client's id of this hold. A client that knows it can release the lock.
    pub(crate) id: String,
    /// For a renewal: the number of the hold.
    number: Option<u64>,
    ttl_ms: Option<u64>,
    wait_ms: Option<u64>,
    mode: Option<LockMode>,
    permits: Option<PermitsRequest>,
    #[serde(default)]
    owner: String,
    #[serde(default)]
    note: String,
    /// Terraform sent it.
    #[serde(skip)]
    pub(crate) is_terraform: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LockMode {
    Exclusive,
    Shared,
}

/// Permits of a semaphore.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PermitsRequest {
    take: u32,
    of: u32,
}

impl LockRequest {
    /// A request of Terraform with this id.
    pub(crate) fn terraform(id: String, ttl: Duration, owner: String, note: String) -> Self {
        Self {
            id,
            number: None,
            ttl_ms: u64::try_from(ttl.as_millis()).ok(),
            wait_ms: None,
            mode: None,
            permits: None,
            owner,
            note,
            is_terraform: true,
        }
    }

    /// The number of the hold that is renewed.
    pub(crate) fn number(&self) -> Result<u64, HttpRefusal> {
        self.number.ok_or_else(|| bad("`number` is missing: a renewal names that of its hold"))
    }

    /// The time that the request may wait.
    pub(crate) fn wait(&self) -> Result<Duration, HttpRefusal> {
        let wait = Duration::from_millis(self.wait_ms.unwrap_or(0));
        if wait <= WAIT_MAX {
            return Ok(wait);
        }
        Err(bad(format!("`wait_ms` must be 0 to {}", WAIT_MAX.as_millis())))
    }

    /// The ticket of this request. Its owner is the visitor `who`, and the name that the client
    /// gave itself. An address is no part of it: the same request may come by another way again.
    pub(crate) fn ticket(&self, key: Key, who: &str) -> Result<Ticket, HttpRefusal> {
        let ttl = self.ttl_ms.map_or(TTL_DEFAULT, Duration::from_millis);
        if !(TTL_LEAST..=TTL_MOST).contains(&ttl) {
            let (least, most) = (TTL_LEAST.as_millis(), TTL_MOST.as_millis());
            return Err(bad(format!("`ttl_ms` must be {least} to {most}")));
        }
        let share = match (self.mode, self.permits) {
            (None | Some(LockMode::Exclusive), None) => Share::WHOLE,
            (Some(LockMode::Shared), None) => Share::READER,
            (None, Some(PermitsRequest { take, of })) => Share::new(take, of)?,
            (Some(_), Some(_)) => return Err(bad("a request has `mode` or `permits`, not both")),
        };
        let id = self.ticket_id(&key, share)?;
        let owner = match &*self.owner {
            "" => Owner::shortened(who),
            owner => Owner::shortened(&format!("{who}: {owner}")),
        };
        let ticket = Ticket::new(key, share).with_note(&*self.note)?;
        Ok(Ticket { id, ttl, owner, ..ticket })
    }

    /// The id of the ticket: visitors see it, and cannot compute the client's id from it. Another
    /// share is another ticket, so no request finds a hold of a share that it does not name.
    fn ticket_id(&self, key: &Key, share: Share) -> Result<TicketId, HttpRefusal> {
        let is_shown = self.id.bytes().all(|byte| byte.is_ascii_graphic());
        if !ID_BYTES.contains(&self.id.len()) || !is_shown {
            let (least, most) = (ID_BYTES.start(), ID_BYTES.end());
            let sentence = format!("`id` must have {least} to {most} bytes of visible ASCII");
            return Err(bad(sentence));
        }
        // Visitors see the ids of Terraform in its notes, so those are no ids of other locks.
        let protocol = if self.is_terraform { "terraform" } else { "lock" };
        let (id, take, of) = (&self.id, share.take(), share.of());
        // Only the last field may have a space, so no other fields have this text.
        let hash = Sha256::digest(format!("{protocol} {id} {take}/{of} {key}"));
        let mut first = [0; 16];
        first.copy_from_slice(&hash[..16]);
        Ok(TicketId::from_u128(u128::from_be_bytes(first)).whole())
    }
}

fn bad(sentence: impl Into<String>) -> HttpRefusal {
    HttpRefusal::new(StatusCode::BAD_REQUEST, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(body: &str, key: &str) -> Result<Ticket, HttpRefusal> {
        let request: LockRequest = serde_json::from_str(body).unwrap();
        request.ticket(Key::new(key).unwrap(), "ana")
    }

    const ID: &str = r#"{"id":"0123456789abcdef"}"#;

    #[test]
    fn the_same_id_is_the_same_ticket_of_its_key_and_share_alone() {
        let first = ticket(ID, "k").unwrap();
        assert_eq!(first.id, ticket(ID, "k").unwrap().id);
        assert_ne!(first.id, ticket(ID, "l").unwrap().id);
        assert_ne!(first.id, ticket(r#"{"id":"0123456789abcdeg"}"#, "k").unwrap().id);
        assert_eq!((first.ttl, first.share), (TTL_DEFAULT, Share::WHOLE));
        let shared = ticket(&ID.replace('}', r#","mode":"shared"}"#), "k").unwrap();
        assert_ne!(first.id, shared.id, "another share");
        let (id, none) = ("0123456789abcdef".to_owned(), String::new());
        let terraform = LockRequest::terraform(id, TTL_DEFAULT, none.clone(), none);
        assert_ne!(first.id, terraform.ticket(Key::new("k").unwrap(), "ana").unwrap().id);
    }

    #[test]
    fn limits_are_kept() {
        let with = |more: &str| ticket(&ID.replace('}', &format!(",{more}}}")), "k");
        for right in [
            r#""ttl_ms":1000"#,
            r#""ttl_ms":86400000,"mode":"exclusive""#,
            r#""mode":"shared""#,
            r#""permits":{"take":1,"of":3}"#,
        ] {
            assert!(with(right).is_ok(), "{right}");
        }
        for wrong in [
            r#""ttl_ms":999"#,
            r#""ttl_ms":86400001"#,
            r#""permits":{"take":4,"of":3}"#,
            r#""mode":"shared","permits":{"take":1,"of":3}"#,
        ] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
        for wrong in ["short", "0123456789 abcdef", &"x".repeat(129)] {
            assert!(ticket(&format!(r#"{{"id":"{wrong}"}}"#), "k").is_err(), "{wrong}");
        }
    }
}
