//! Alone: three short verbs for a ticket that is the only one served, in a line where nobody's life can have ended.
//!
//! MongoDB reads a pipeline anew for each call, so a short one saves the server much. Each names what it expects of the
//! record. If the record is otherwise, nothing happens, and the verb for all kinds of lines is asked.

use mongodb::bson::{Bson, Document, RawDocumentBuf, bson, cstr, doc, rawdoc};
use tenure_core::Ticket;

use crate::bundle;
use crate::line::{KEEP_MS, NOTES_BYTES_MAX, did};

/// A verb that was asked for one ticket: what it expects of the record besides the id, and its stages.
pub(crate) struct Short<'a> {
    pub(crate) expects: Document,
    pub(crate) first: RawDocumentBuf,
    pub(crate) stages: &'a [RawDocumentBuf],
}

/// What of a verb is the same for all tickets.
struct Plan {
    expects: Document,
    /// What its first stage sets besides what is asked.
    sets: RawDocumentBuf,
    /// The stages behind the first.
    stages: Vec<RawDocumentBuf>,
}

/// The three of them, which are made once.
pub(crate) struct Alone {
    /// Into a line in which nobody stands.
    join: Plan,
    renew: Plan,
    /// Out of a line in which nobody else stands.
    leave: Plan,
}

impl Alone {
    pub(crate) fn new() -> Self {
        Self { join: join(), renew: renew(), leave: leave() }
    }

    pub(crate) fn join(&self, ticket: &Ticket, inbox: &str) -> Short<'_> {
        self.join.asks(ticket, inbox)
    }

    /// Its share is what it was, and so is how long it lives.
    pub(crate) fn renew(&self, ticket: &Ticket, inbox: &str) -> Short<'_> {
        let mut short = self.renew.asks(ticket, inbox);
        let take = i64::from(ticket.share.take());
        short.expects.extend(doc! { "held.0.id": ticket.id.to_string(), "held.0.take": take });
        short
    }

    pub(crate) fn leave(&self, ticket: &Ticket, inbox: &str) -> Short<'_> {
        let mut expects = self.leave.expects.clone();
        expects.extend(doc! { "held.0.id": ticket.id.to_string(), "held.0.inbox": inbox });
        Short { expects, first: rawdoc! { "$set": self.leave.sets.clone() }, stages: &[] }
    }
}

impl Plan {
    fn asks(&self, ticket: &Ticket, inbox: &str) -> Short<'_> {
        let one = bundle::joins(ticket, false);
        let ask = rawdoc! { "key": ticket.key.as_str(), "inbox": inbox, "one": one };
        let mut sets = self.sets.clone();
        sets.append(cstr!("ask"), rawdoc! { "$literal": ask });
        let first = rawdoc! { "$set": sets };
        Short { expects: self.expects.clone(), first, stages: &self.stages }
    }
}

fn join() -> Plan {
    let next = bson!({ "$max": [
        { "$add": [{ "$ifNull": ["$last", 0_i64] }, 1_i64] }, { "$multiply": [now(), 1000_i64] },
    ] });
    let sets = doc! { "at": now(), "last": next, "bytes": { "$bsonSize": "$$ROOT" } };
    let seat = bson!({
        "id": "$ask.one.id", "n": "$last", "ends": ends(), "take": "$ask.one.take", "told": false,
        "inbox": "$ask.inbox", "ttl_us": "$ask.one.ttl_us", "owner": "$ask.one.owner", "note": "$ask.one.note",
    });
    let mut fields = step(Some(did::SERVED));
    fields.extend(doc! {
        "held": [seat], "waiting": [], "of": "$ask.one.of", "quiet": ends(),
        "key": { "$ifNull": ["$key", "$ask.key"] },
        "reap": reap(&[is_late_enough(), is_soon_enough()]),
        "ask": "$$REMOVE",
    });
    let expects = doc! { "held.0": absent(), "waiting.0": absent() };
    Plan { expects, sets: raw(&sets), stages: vec![raw(&doc! { "$set": fields })] }
}

fn renew() -> Plan {
    let expects = doc! {
        "held.1": absent(),
        "held.0.told": false,
        "bytes": { "$lt": NOTES_BYTES_MAX },
        "$expr": is_calm(),
    };
    let changes = bson!({
        "ends": { "$max": ["$$it.ends", ends()] }, "inbox": "$ask.inbox", "note": "$ask.one.note",
    });
    let renewed = bson!({ "$let": {
        "vars": { "it": { "$arrayElemAt": ["$held", 0] } },
        "in": { "$mergeObjects": ["$$it", changes] },
    } });
    let mut fields = step(None);
    fields.extend(doc! { "held": [renewed], "reap": reap(&[is_late_enough()]), "ask": "$$REMOVE" });
    Plan { expects, sets: raw(&doc! { "at": now() }), stages: vec![raw(&doc! { "$set": fields })] }
}

/// It leaves the date of the record as it is, so that the index is not written.
fn leave() -> Plan {
    let expects = doc! { "held.1": absent(), "waiting.0": absent(), "$expr": is_calm() };
    let mut sets = step(Some(did::HOLDING));
    sets.insert("held", bson!([]));
    Plan { expects, sets: raw(&sets), stages: Vec::new() }
}

/// When the record may go. The date is left as it is where that will do.
fn reap(will_do: &[Bson]) -> Bson {
    let kept =
        bson!({ "$cond": [{ "$isArray": "$reap" }, { "$arrayElemAt": ["$reap", 0] }, Bson::Null] });
    let least = bson!({ "$max": [ends(), passed()] });
    bson!({ "$let": {
        "vars": { "kept": kept, "least": least },
        "in": { "$cond": [{ "$and": will_do }, "$reap", [date("$$least", 2 * KEEP_MS), true]] },
    } })
}

fn is_late_enough() -> Bson {
    bson!({ "$gte": ["$$kept", date("$$least", KEEP_MS)] })
}

/// Only where nobody stands: others may live longer.
fn is_soon_enough() -> Bson {
    bson!({ "$lte": ["$$kept", date("$$least", 2 * KEEP_MS)] })
}

/// What every step writes.
fn step(did: Option<i64>) -> Document {
    let did: Vec<i64> = did.into_iter().collect();
    let step = bson!({ "$add": [{ "$ifNull": ["$step", 0_i64] }, 1_i64] });
    doc! { "step": step, "bell": "", "did": did, "woken": 0_i64 }
}

fn now() -> Bson {
    bson!({ "$max": ["$at", { "$toLong": "$$NOW" }] })
}

/// When a life ends that begins now.
fn ends() -> Bson {
    bson!({ "$add": ["$at", "$ask.one.ttl"] })
}

/// When the clock has passed the last number.
fn passed() -> Bson {
    bson!({ "$toLong": { "$divide": ["$last", 1000_i64] } })
}

fn date(from: &str, keep: i64) -> Bson {
    bson!({ "$toDate": { "$add": [from, keep] } })
}

/// Nobody's life has ended.
fn is_calm() -> Bson {
    bson!({ "$gt": ["$quiet", now()] })
}

fn absent() -> Document {
    doc! { "$exists": false }
}

fn raw(stage: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(stage).expect("a stage is a document")
}
