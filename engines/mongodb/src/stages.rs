//! The stages of every step, around those of its verbs: they open the line, remove tickets whose
//! life has ended, and serve the tickets that are next.
//!
//! The stages are written for any line: `@held` is the name of its field `held`, and `$@held` the
//! value. A [`FieldPrefix`](crate::field_prefix::FieldPrefix) puts in the place of the line.

use mongodb::bson::{Bson, Document, bson, doc};

use crate::line::{ALL, KEEP_MS};
use crate::readable::{held_by_readable, is_readable, unreadable};

/// Letters that are concatenated at a time. A text that grows letter by letter is copied for each
/// letter.
const LETTERS_AT_ONCE: i64 = 64;

/// Opens the line. Refuses the step if this version cannot read the line's fields, before another
/// expression fails on them.
pub(crate) fn open() -> Document {
    doc! { "$set": {
        "@held": { "$cond": [is_readable(), { "$ifNull": ["$@held", []] }, unreadable("$@held")] },
        "@waiting": { "$ifNull": ["$@waiting", []] },
        "@at": now(),
        "@step": { "$add": [{ "$ifNull": ["$@step", 0_i64] }, 1_i64] },
        "@bytes": { "$bsonSize": "$$ROOT" },
    } }
}

/// The server's clock, which does not go back.
pub(crate) fn now() -> Bson {
    bson!({ "$max": ["$@at", { "$toLong": "$$NOW" }] })
}

/// Whether a ticket's life may have ended.
fn is_late() -> Bson {
    bson!({ "$lte": ["$@next_expiry", "$@at"] })
}

/// Removes all tickets whose life has ended before any ticket is served in their place.
pub(crate) fn expire() -> Document {
    // A ticket whose end is no number stays, and `serve` refuses the step if that ticket holds.
    // MongoDB sorts a missing value and NaN below all numbers, and texts above them.
    let lives = bson!({ "$or": [
        { "$gt": ["$$this.ends", "$@at"] }, { "$lt": ["$$this.ends", 0_i64] },
    ] });
    let living = |array: &str| {
        let living = bson!({ "$filter": { "input": array, "as": "this", "cond": &lives } });
        bson!({ "$cond": [is_late(), living, array] })
    };
    let all = bson!({ "$concatArrays": ["$@held", "$@waiting"] });
    let gone = bson!({ "$filter": { "input": all, "as": "this", "cond": { "$not": [&lives] } } });
    doc! { "$set": {
        "@held": living("$@held"),
        "@waiting": living("$@waiting"),
        "@notices": { "$cond": [is_late(), letters(&gone, "O"), ""] },
        "@did": [],
    } }
}

/// Counts the waiting tickets that are served now: the first ones, for as long as they fit. Mostly
/// it is none or one.
pub(crate) fn count_newly_served() -> Document {
    let take_of = |at: i64| bson!({ "$ifNull": [{ "$arrayElemAt": ["$@waiting.take", at] }, ALL] });
    let is_more = |sum: Bson| bson!({ "$gt": [sum, "$$room"] });
    let fits = bson!({ "$lte": [{ "$add": ["$$value.sum", "$$this"] }, "$$room"] });
    let counted = bson!({ "$reduce": {
        "input": "$@waiting.take",
        "initialValue": { "sum": 0_i64, "n": 0_i64 },
        "in": {
            "sum": { "$add": ["$$value.sum", { "$cond": [&fits, "$$this", ALL] }] },
            "n": { "$add": ["$$value.n", { "$cond": [&fits, 1_i64, 0_i64] }] },
        },
    } });
    doc! { "$set": { "@newly_served": { "$let": {
        "vars": { "room": { "$subtract": ["$@of", { "$sum": "$@held.take" }] } },
        "in": { "$switch": {
            "branches": [
                { "case": { "$eq": [{ "$size": "$@waiting" }, 0_i64] }, "then": 0_i64 },
                { "case": is_more(take_of(0)), "then": 0_i64 },
                { "case": is_more(bson!({ "$add": [take_of(0), take_of(1)] })), "then": 1_i64 },
            ],
            "default": { "$let": { "vars": { "all": counted }, "in": "$$all.n" } },
        } },
    } } } }
}

/// Serves the tickets that were counted, and writes their letters.
pub(crate) fn serve() -> Document {
    let next = bson!({ "$slice": ["$@waiting", "$@newly_served"] });
    let unless_none = |field: &str, other: Bson| bson!({ "$cond": [{ "$eq": ["$@newly_served", 0_i64] }, field, other] });
    let held = unless_none("$@held", bson!({ "$concatArrays": ["$@held", &next] }));
    // An end may be NaN. `next_expiry` must not be: the next step would refuse the line.
    let first_end = bson!({ "$max": [
        0_i64, { "$min": [{ "$min": "$@held.ends" }, { "$min": "$@waiting.ends" }] },
    ] });
    doc! { "$set": {
        "@held": held_by_readable(&held),
        "@waiting": unless_none("$@waiting", bson!({ "$slice": ["$@waiting", "$@newly_served", ALL] })),
        "@notices": unless_none("$@notices", bson!({ "$concat": ["$@notices", letters(&next, "S")] })),
        "@next_expiry": { "$cond": [is_late(), first_end, "$@next_expiry"] },
        "@reap": reap(),
        "@ask": "$$REMOVE",
    } }
}

/// Returns the date at which the record may be reaped. It is far enough ahead that most verbs leave
/// it as it is. Otherwise each would write the index.
pub(crate) fn reap() -> Bson {
    let date = |keep: i64| bson!({ "$toDate": { "$add": ["$$least", keep] } });
    let tickets = bson!({ "$add": [{ "$size": "$@held" }, { "$size": "$@waiting" }] });
    // In a line with tickets another one may live longer.
    let is_soon_enough = bson!({ "$or": [
        { "$gt": [tickets, 0_i64] }, { "$lte": ["$$kept", date(3 * KEEP_MS)] },
    ] });
    bson!({ "$let": {
        "vars": {
            "kept": { "$cond": [{ "$isArray": "$@reap" }, { "$arrayElemAt": ["$@reap", 0] }, null] },
            "least": { "$max": [
                { "$add": ["$@at", "$@ask.ttl"] },
                { "$toLong": { "$divide": ["$@last", 1000_i64] } },
            ] },
        },
        "in": { "$cond": [
            { "$and": [{ "$gte": ["$$kept", date(KEEP_MS)] }, is_soon_enough] },
            "$@reap",
            [date(2 * KEEP_MS), true],
        ] },
    } })
}

/// Returns the letters of one kind to these tickets, in one text. A change stream reports a
/// changed text as a whole, but may report only the changed elements of an array.
pub(crate) fn letters(tickets: &Bson, kind: &str) -> Bson {
    let some = bson!({ "$slice": ["$$tickets", "$$this", LETTERS_AT_ONCE] });
    let some = bson!({ "$reduce": { "input": some, "initialValue": "", "in": letter(kind) } });
    bson!({ "$let": { "vars": { "tickets": tickets }, "in": { "$reduce": {
        "input": { "$range": [0_i64, { "$size": "$$tickets" }, LETTERS_AT_ONCE] },
        "initialValue": "",
        "in": { "$concat": ["$$value", some] },
    } } } })
}

/// Returns the letters `$$value` and one more, of this kind, to the ticket `$$this`.
pub(crate) fn letter(kind: &str) -> Bson {
    bson!({ "$concat": [
        "$$value", "$$this.inbox", "$$this.id", kind, { "$toString": "$$this.n" }, " ",
    ] })
}
