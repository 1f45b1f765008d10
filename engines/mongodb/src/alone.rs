//! Alone: three short verbs for a ticket that is the only one served, in a line where nobody's life can have ended.
//!
//! MongoDB reads a pipeline anew for each call, so a short one saves the server much. Each names what it expects of the
//! record. If the record is otherwise, nothing happens, and the verb for all kinds of lines is asked.

use mongodb::bson::{Bson, Document, RawDocumentBuf, bson, doc};

use crate::line::{KEEP_MS, NOTES_BYTES_MAX, did};

/// A verb: what it expects of the record besides the id, and its stages behind the first.
pub(crate) struct Short {
    pub(crate) expects: Document,
    pub(crate) stages: Vec<RawDocumentBuf>,
}

/// The three of them, which are made once.
pub(crate) struct Alone {
    /// Into a line in which nobody stands.
    join: Short,
    renew: Short,
    /// Out of a line in which nobody else stands.
    leave: Short,
}

impl Alone {
    pub(crate) fn new() -> Self {
        Self { join: join(), renew: renew(), leave: leave() }
    }

    pub(crate) fn join(&self) -> (Document, &[RawDocumentBuf]) {
        (self.join.expects.clone(), &self.join.stages)
    }

    /// Its share is what it was, and so is how long it lives.
    pub(crate) fn renew(&self, id: &str, take: i64) -> (Document, &[RawDocumentBuf]) {
        let mut expects = self.renew.expects.clone();
        expects.extend(doc! { "held.0.id": id, "held.0.take": take });
        (expects, &self.renew.stages)
    }

    pub(crate) fn leave(&self, id: &str, inbox: &str) -> (Document, &[RawDocumentBuf]) {
        let mut expects = self.leave.expects.clone();
        expects.extend(doc! { "held.0.id": id, "held.0.inbox": inbox });
        (expects, &self.leave.stages)
    }
}

fn join() -> Short {
    let next = bson!({ "$max": [
        { "$add": [{ "$ifNull": ["$last", 0_i64] }, 1_i64] }, { "$multiply": [now(), 1000_i64] },
    ] });
    let clock = doc! { "$set": { "at": now(), "last": next, "bytes": { "$bsonSize": "$$ROOT" } } };
    let seat = bson!({
        "id": "$ask.one.id", "n": "$last", "ends": ends(), "take": "$ask.one.take", "told": false,
        "inbox": "$ask.inbox", "ttl_us": "$ask.one.ttl_us", "owner": "$ask.one.owner", "note": "$ask.one.note",
    });
    let mut fields = step(Some(did::SERVED));
    fields.extend(doc! {
        "held": [seat], "waiting": [], "of": "$ask.one.of", "quiet": ends(),
        "key": { "$ifNull": ["$key", "$ask.key"] },
        "reap": [date(bson!({ "$max": [ends(), passed()] }), 2 * KEEP_MS), true],
    });
    let expects = doc! { "held.0": absent(), "waiting.0": absent() };
    Short { expects, stages: vec![raw(&clock), raw(&doc! { "$set": fields })] }
}

fn renew() -> Short {
    let ends = bson!({ "$add": [now(), "$ask.one.ttl"] });
    let kept = bson!({ "$arrayElemAt": ["$reap", 0] });
    let expects = doc! {
        "held.1": absent(),
        "held.0.told": false,
        "bytes": { "$lt": NOTES_BYTES_MAX },
        "$expr": is_calm(),
    };
    let changes = bson!({
        "ends": { "$max": ["$$it.ends", ends.clone()] }, "inbox": "$ask.inbox", "note": "$ask.one.note",
    });
    let renewed = bson!({ "$let": {
        "vars": { "it": { "$arrayElemAt": ["$held", 0] } },
        "in": { "$mergeObjects": ["$$it", changes] },
    } });
    let least = bson!({ "$max": [ends, passed()] });
    let is_kept = bson!({ "$gte": [kept, date(least.clone(), KEEP_MS)] });
    let moved = bson!([date(least, 2 * KEEP_MS), true]);
    let mut fields = step(None);
    fields.extend(doc! {
        "at": now(), "held": [renewed], "reap": { "$cond": [is_kept, "$reap", moved] },
    });
    Short { expects, stages: vec![raw(&doc! { "$set": fields })] }
}

fn leave() -> Short {
    let expects = doc! { "held.1": absent(), "waiting.0": absent(), "$expr": is_calm() };
    let mut fields = step(Some(did::HOLDING));
    let since = bson!({ "$max": [now(), passed()] });
    fields.extend(doc! { "at": now(), "held": [], "reap": date(since, KEEP_MS) });
    Short { expects, stages: vec![raw(&doc! { "$set": fields })] }
}

/// What every step writes.
fn step(did: Option<i64>) -> Document {
    let did: Vec<i64> = did.into_iter().collect();
    let step = bson!({ "$add": [{ "$ifNull": ["$step", 0_i64] }, 1_i64] });
    doc! { "step": step, "bell": "", "did": did, "woken": 0_i64, "ask": "$$REMOVE" }
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

fn date(from: Bson, keep: i64) -> Bson {
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
