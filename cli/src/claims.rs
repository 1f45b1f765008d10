//! Claims: locks that several commands use. `tenure take` starts a process that holds them, the
//! *claim holder*, and `tenure renew`, `drop` and `show` talk to it over a socket.
//!
//! ```text
//! shell ── tenure take ── control channel ── claim holder ═══ store
//!   │                                             │
//!   │ ◄────────── follows its parent ──────────── │
//!   └───── tenure renew, drop, show ── socket ─── │ ── record: which claim, and why it was lost
//! ```
//!
//! * `take`, `use_claim`, `show`: the commands
//! * `paths`: which keys a claim on paths locks
//! * `holder`, `held_claim`: the claim holder, until the locks are held and from then on
//! * `followed`: the process with which a claim ends
//! * `directory`, `question`: the files of the claims; a question to a claim holder, and its answer
//! * `reference`: how a command names a claim

mod directory;
mod followed;
mod held_claim;
pub(crate) mod holder;
mod paths;
mod question;
mod reference;
pub(crate) mod show;
pub(crate) mod take;
pub(crate) mod use_claim;

pub(crate) use held_claim::LEAVE_MAX;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::inspect::json::json_line;
use crate::screen::quoted;

/// A claim as `tenure take` prints it. Its fields are a promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TakenClaim {
    /// The random id, by which the other commands find the claim.
    pub(crate) claim: String,
    pub(crate) keys: Vec<ClaimedKey>,
    /// The claim holder.
    pub(crate) pid: u32,
    /// The store's URL without secrets.
    pub(crate) on: String,
}

/// A lock of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClaimedKey {
    pub(crate) key: String,
    /// The id of the ticket.
    pub(crate) id: String,
    pub(crate) token: u64,
    /// `exclusive` or `shared`.
    pub(crate) kind: String,
}

/// The record of a claim, which outlives its claim holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClaimRecord {
    #[serde(flatten)]
    pub(crate) claim: TakenClaim,
    /// The host name of the claim holder's machine.
    pub(crate) machine: String,
    /// When the claim began, in ms since 1970.
    pub(crate) since_ms: u64,
    /// The process with which the claim ends.
    pub(crate) while_pid: Option<i32>,
    /// The time within which the claim must be renewed.
    pub(crate) ttl: Option<Duration>,
    /// Why the claim was lost.
    pub(crate) lost: Option<String>,
}

impl TakenClaim {
    /// The keys that people know the claim by: without the shared ancestors of paths.
    pub(crate) fn known_by(&self) -> impl Iterator<Item = &str> {
        const EXCLUSIVE: &str = "exclusive";
        let has_exclusive = self.keys.iter().any(|held| held.kind == EXCLUSIVE);
        let known = move |held: &&ClaimedKey| !has_exclusive || held.kind == EXCLUSIVE;
        self.keys.iter().filter(known).map(|held| held.key.as_str())
    }

    /// Names the claim for a message.
    pub(crate) fn named(&self) -> String {
        let keys: Vec<_> = self.known_by().map(quoted).collect();
        format!("the claim on {}", keys.join(", "))
    }
}

/// The host name of this machine.
pub(crate) fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
