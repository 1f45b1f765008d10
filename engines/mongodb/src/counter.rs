//! A number beside a line: a sequence, which is kept for good, or a count, which its window ends.

use std::time::Duration;

use mongodb::bson::{Bson, RawDocumentBuf, bson, doc, rawdoc};
use tenure_core::{NUMBER_MAX, Window};

use crate::line::KEEP_MS;
use crate::readable::{number, refuse_number};
use crate::request::exact;

/// Longest window, in milliseconds.
const WINDOW_MS_MAX: u128 = 1 << 52;

/// The stages that add to a number, and the fields of their answer.
pub(crate) struct CounterStages {
    pub(crate) stages: Vec<RawDocumentBuf>,
    pub(crate) fields: RawDocumentBuf,
}

/// Builds the first stage, which has the request: the addend, the limit, and the window.
pub(crate) fn ask(by: u64, window: Option<Window>) -> RawDocumentBuf {
    let mut ask = rawdoc! { "by": exact(by), "limit": exact(NUMBER_MAX) };
    if let Some(Window { per, limit }) = window {
        let limit = limit.map_or(exact(NUMBER_MAX), |limit| exact(limit.min(NUMBER_MAX)));
        ask = rawdoc! { "by": exact(by), "limit": limit, "per": millis(per) };
    }
    rawdoc! { "$set": { "ask": { "$literal": ask } } }
}

impl CounterStages {
    pub(crate) fn sequence() -> Self {
        Self::new(false)
    }

    pub(crate) fn windowed() -> Self {
        Self::new(true)
    }

    fn new(is_windowed: bool) -> Self {
        let now = bson!({ "$toLong": "$$NOW" });
        let step = bson!({ "$add": [{ "$ifNull": ["$step", 0_i64] }, 1_i64] });
        // A record is inserted with its first number. Before that it has its id and the field
        // `ask`.
        let is_new = bson!({ "$eq": [{ "$size": { "$objectToArray": "$$ROOT" } }, 2] });
        let is_one = bson!({ "$and": [{ "$isNumber": "$value" }, number("$value")] });
        let is_kept = bson!({ "$or": [is_one, is_new] });
        let times = if is_windowed {
            bson!({ "$and": [number("$ends"), number("$per"), { "$ne": ["$per", 0_i64] }] })
        } else {
            bson!(true)
        };
        let is_readable = bson!({ "$and": [is_kept, times, number("$step")] });
        let value = bson!({ "$cond": [is_readable, "$value", refuse_number("$value")] });
        let clock = doc! { "$set": { "value": value, "at": now, "step": step, "notices": "" } };
        let runs = bson!({ "$gt": ["$ends", "$at"] });
        let before = if is_windowed {
            let per = bson!({ "$ifNull": ["$per", "$ask.per"] });
            // A clock that was set back, or is that of another member, makes no window longer.
            let rest = bson!({ "$min": ["$ends", { "$add": ["$at", per.clone()] }] });
            let anew = bson!({ "$add": ["$at", "$ask.per"] });
            doc! { "$set": {
                "value": { "$cond": [runs.clone(), "$value", 0_i64] },
                "per": { "$cond": [runs.clone(), per, "$ask.per"] },
                "resets": { "$cond": [runs.clone(), rest, anew] },
            } }
        } else {
            doc! { "$set": { "value": { "$ifNull": ["$value", 0_i64] } } }
        };
        let sum = bson!({ "$add": ["$value", "$ask.by"] });
        let fits = bson!({ "$lte": [sum.clone(), i64::try_from(NUMBER_MAX).unwrap_or(i64::MAX)] });
        let allowed = bson!({ "$and": [fits.clone(), { "$lte": [sum.clone(), "$ask.limit"] }] });
        // The TTL index goes by this date. A sequence has none.
        let reap = if is_windowed {
            bson!({ "$toDate": { "$add": ["$resets", KEEP_MS] } })
        } else {
            Bson::Boolean(false)
        };
        // A read and a refused addition open no window. They may find the end of a running one.
        let counts = bson!({ "$and": [allowed.clone(), { "$gt": ["$ask.by", 0_i64] }] });
        let ends = bson!({ "$cond": [{ "$or": [counts, runs] }, "$resets", "$ends"] });
        let add = doc! { "$set": {
            "value": { "$cond": [allowed.clone(), sum, "$value"] },
            "ends": ends,
            "fits": fits, "allowed": allowed, "reap": reap, "ask": "$$REMOVE",
        } };
        let raw = |stage| RawDocumentBuf::try_from(&stage).expect("a stage is a document");
        let fields =
            rawdoc! { "_id": 0, "value": 1, "fits": 1, "allowed": 1, "at": 1, "ends": "$resets" };
        Self { stages: [clock, before, add].map(raw).into(), fields }
    }
}

/// Returns whole milliseconds, rounded up, from 1 to `WINDOW_MS_MAX`.
pub fn millis(time: Duration) -> i64 {
    let millis = time.as_nanos().div_ceil(1_000_000).clamp(1, WINDOW_MS_MAX);
    i64::try_from(millis).unwrap_or(i64::MAX)
}
