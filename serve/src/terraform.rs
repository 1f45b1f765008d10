//! The lock calls of Terraform's back-end `http`, whose state another server keeps.

use std::error::Error as StdError;
use std::pin::Pin;

use http::StatusCode;
use http::request::Parts;
use hyper::body::Body;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tenure_core::{Key, Ticket};

use crate::access::{Access, Visitor};
use crate::lock_request::{LockRequest, TTL_MOST};
use crate::lock_service::is_release;
use crate::locks::Acquired;
use crate::reply::{HttpRefusal, HttpReply, json};
use crate::service::{Serve, read};

/// The information about a lock that Terraform sends.
#[derive(Debug, Deserialize, Serialize)]
struct LockInfo {
    #[serde(rename = "ID")]
    id: String,
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl Serve {
    /// Locks or unlocks a state. Terraform renews no lock, so its lease is the longest one.
    pub(crate) async fn terraform<B>(
        &self,
        parts: &Parts,
        visitor: &Visitor,
        key: Key,
        body: Pin<Box<B>>,
    ) -> Result<HttpReply, HttpRefusal>
    where
        B: Body,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        self.admit_lock(parts, visitor, Access::check_origin_of_json(parts))?;
        let info: LockInfo = read(body, "the field `ID` of a lock of Terraform").await?;
        let note = serde_json::to_string(&info).unwrap_or_default();
        let owner = info.more.get("Who").and_then(Value::as_str).unwrap_or("terraform").to_owned();
        let request = LockRequest::terraform(info.id, TTL_MOST, owner, note);
        let ticket = request.ticket(key, visitor.who())?;
        if is_release(parts) {
            if self.release(parts, visitor, &ticket).await? {
                return Ok(json(StatusCode::OK, &json!({ "result": "released" })));
            }
            // Terraform does not renew, so the answer to its unlock is the first word of a loss.
            let sentence = "no lock has this ID: it expired, or was removed or unlocked before";
            let refused = HttpRefusal::new(StatusCode::CONFLICT, sentence).with_cause("gone");
            return Err(refused.with_cure("check that no other run has changed the state"));
        }
        match self.acquire(parts, visitor, &request, &ticket).await? {
            Acquired::Held(held) => Ok(json(StatusCode::OK, &held.shown(&ticket))),
            _ => Ok(json(StatusCode::LOCKED, &self.holder(&ticket).await?)),
        }
    }

    /// The information of the holder. Terraform shows its ID.
    async fn holder(&self, ticket: &Ticket) -> Result<Value, HttpRefusal> {
        let [note, owner] = self.shared.desk.holder(ticket).await?.unwrap_or_default();
        let of_terraform = serde_json::from_str::<LockInfo>(&note).ok();
        let shown = of_terraform.and_then(|info| serde_json::to_value(info).ok());
        // Terraform did not take the lock, or its holder has just left.
        Ok(shown.unwrap_or_else(|| json!({ "ID": "", "Who": owner, "Info": note })))
    }
}
