//! Locks over HTTP: the requests of clients, their answers, and the record for an audit.

use std::error::Error as StdError;
use std::pin::Pin;
use std::time::Instant;

use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Body;
use serde::Serialize;
use serde_json::json;
use tenure_core::{Key, LeaveMode, Ticket};
use tokio::sync::oneshot;

use crate::access::{Access, Role, Visitor, peer};
use crate::lock_request::LockRequest;
use crate::locks::Acquired;
use crate::reply::{HttpRefusal, HttpReply, json};
use crate::service::{Serve, read};

/// The action of a client that takes locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LockAction {
    /// Takes a lock.
    Acquire,
    /// Renews a lock.
    Renew,
    /// Releases a lock.
    Release,
}

/// The record of a lock that a client took or released, of a renewal of a lost lock, or of a
/// request that the role or the Origin forbids, at most one of those a second. It has no key: the
/// ticket's id is unique.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LockRecord {
    /// The name of the visitor.
    pub who: String,
    /// The address of the client, if the server knows it.
    pub from: Option<String>,
    /// The action.
    pub action: LockAction,
    /// The id of the ticket, or `unread` if the request was refused before its body was read.
    pub ticket: String,
    /// The number of the ticket. For an exclusive holder it is the fencing token.
    pub number: Option<u64>,
    /// The HTTP status of the answer.
    pub status: u16,
}

impl LockRecord {
    fn new(parts: &Parts, visitor: &Visitor, status: StatusCode) -> Self {
        let action = match parts.method {
            Method::PUT => LockAction::Renew,
            _ if is_release(parts) => LockAction::Release,
            _ => LockAction::Acquire,
        };
        Self {
            who: visitor.who().to_owned(),
            from: peer(parts).map(str::to_owned),
            action,
            ticket: "unread".to_owned(),
            number: None,
            status: status.as_u16(),
        }
    }
}

/// Whether a request releases a lock.
pub(crate) fn is_release(parts: &Parts) -> bool {
    matches!(parts.method.as_str(), "DELETE" | "UNLOCK")
}

impl Serve {
    /// Takes, renews or releases a lock.
    pub(crate) async fn lock<B>(
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
        self.admit_lock(parts, visitor, Access::check_origin(parts))?;
        let fields =
            "`id` and perhaps `ttl_ms`, `wait_ms`, `mode` or `permits`, `owner`, `note`, `number`";
        let request: LockRequest = read(body, fields).await?;
        let ticket = request.ticket(key, visitor.who())?;
        if is_release(parts) {
            let result =
                if self.release(parts, visitor, &ticket).await? { "released" } else { "absent" };
            return Ok(json(StatusCode::OK, &json!({ "result": result })));
        }
        if parts.method == Method::PUT {
            let renewed = self.shared.desk.renew(&ticket, request.number()?).await;
            let held = renewed.inspect_err(|refused| {
                if matches!(refused.status(), StatusCode::GONE | StatusCode::CONFLICT) {
                    self.record(parts, visitor, &ticket, None, refused.status());
                }
            })?;
            return Ok(json(StatusCode::OK, &held.shown(&ticket)));
        }
        match self.acquire(parts, visitor, &request, &ticket).await? {
            Acquired::Held(held) => Ok(json(StatusCode::OK, &held.shown(&ticket))),
            Acquired::Waiting { number } => {
                let ticket = ticket.id.to_string();
                let waiting = json!({ "state": "waiting", "ticket": ticket, "number": number });
                Ok(json(StatusCode::ACCEPTED, &waiting))
            }
            Acquired::Busy => {
                let refused = HttpRefusal::new(StatusCode::LOCKED, "the lock is busy");
                Err(refused.with_cure("wait in line with `wait_ms`, or try again later"))
            }
        }
    }

    /// Takes a lock, and records it even if the client is gone by then. Withdraws the ticket of a
    /// client that is gone, but not that of Terraform: a late withdrawal would remove the lock of a
    /// request that was sent again to another server.
    pub(crate) async fn acquire(
        &self,
        parts: &Parts,
        visitor: &Visitor,
        request: &LockRequest,
        ticket: &Ticket,
    ) -> Result<Acquired, HttpRefusal> {
        let (wait, is_terraform) = (request.wait()?, request.is_terraform);
        self.shared.desk.take_one(tokio::time::Instant::now())?;
        let record = LockRecord::new(parts, visitor, StatusCode::OK);
        let record = LockRecord { ticket: ticket.id.to_string(), ..record };
        let (service, ticket) = (self.clone(), ticket.clone());
        let (mut answer, answered) = oneshot::channel();
        // The runtime does not cancel this task when the client disconnects.
        tokio::spawn(async move {
            let desk = &service.shared.desk;
            desk.open(ticket.id).await;
            let acquired = desk.acquire(&ticket, wait, answer.closed()).await;
            if let Ok(Acquired::Held(held)) = &acquired {
                (service.on_lock)(&LockRecord { number: Some(held.number), ..record.clone() });
            }
            let has_joined = match &acquired {
                Ok(Acquired::Busy) => false,
                Ok(_) => true,
                // the store may have served the join, and only its answer is late
                Err(refused) => refused.status() == StatusCode::SERVICE_UNAVAILABLE,
            };
            let is_answered = answer.send(acquired).is_ok();
            let withdrawal = desk.close(ticket.id, is_answered);
            if withdrawal.is_none() || !has_joined || is_terraform {
                return;
            }
            // A client may have got the answer of an earlier request, so its hold is only asked to
            // leave. Without an answer of the store the ticket expires.
            let _ = desk.release(&ticket, LeaveMode::Graceful).await;
        });
        answered.await.unwrap_or_else(|_| {
            let sentence = "the acquisition was not finished";
            Err(HttpRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, sentence))
        })
    }

    /// Releases a lock, and records it. Returns whether the ticket was in the line.
    pub(crate) async fn release(
        &self,
        parts: &Parts,
        visitor: &Visitor,
        ticket: &Ticket,
    ) -> Result<bool, HttpRefusal> {
        let was_there = self.shared.desk.release(ticket, LeaveMode::Now).await?;
        if was_there {
            self.record(parts, visitor, ticket, None, StatusCode::OK);
        }
        Ok(was_there)
    }

    /// Checks the role of a visitor and the origin of a request.
    pub(crate) fn admit_lock(
        &self,
        parts: &Parts,
        visitor: &Visitor,
        origin: Result<(), HttpRefusal>,
    ) -> Result<(), HttpRefusal> {
        origin.and_then(|()| visitor.check(Role::Lock)).inspect_err(|refused| {
            if self.shared.limit.takes_refusal(Instant::now()) {
                (self.on_lock)(&LockRecord::new(parts, visitor, refused.status()));
            }
        })
    }

    fn record(
        &self,
        parts: &Parts,
        visitor: &Visitor,
        ticket: &Ticket,
        number: Option<u64>,
        status: StatusCode,
    ) {
        let record = LockRecord::new(parts, visitor, status);
        (self.on_lock)(&LockRecord { ticket: ticket.id.to_string(), number, ..record });
    }
}
