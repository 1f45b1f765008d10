//! The verbs: what a step does for tickets that renew, leave and join, in this order.
//!
//! All verbs of one step are in flight at the same time, so any order of them is right. Each is for
//! another ticket. The field `ask` has their requests in three arrays. The array `did` has the
//! outcomes of leaves and joins. The fields of the line are written as in
//! [`stages`](crate::stages).

use mongodb::bson::{Bson, Document, bson, doc};
use tenure_core::LINE_TICKETS_MAX;

use crate::field_prefix::FieldPrefix;
use crate::line::{ALL, number_max, outcome};
use crate::stages::letters;

/// Renews the tickets that stand in the line. A ticket that was asked to leave does not change, so
/// its life ends as before. Notes are kept as they are in a document of more than `notes_max`
/// bytes.
pub(crate) fn renew(notes_max: i64) -> Document {
    let is_there =
        bson!({ "$in": ["$$this.id", { "$concatArrays": ["$@held.id", "$@waiting.id"] }] });
    let floor = bson!({ "$min": [number_max(), { "$max": { "$map": {
        "input": "$@ask.renew", "as": "this", "in": { "$cond": [is_there, "$$this.floor", 0_i64] },
    } } }] });
    let has_floor =
        bson!({ "$and": [{ "$gt": [{ "$max": "$@ask.renew.floor" }, 0_i64] }, has_last()] });
    // The seat of a ticket, `$$it`, after its renewal, `$$this`.
    let renewed = bson!([{ "$cond": ["$$it.told", "$$it", { "$mergeObjects": ["$$it", {
        "ends": { "$max": ["$$it.ends", { "$add": ["$@at", "$$this.ttl"] }] },
        "take": { "$min": ["$$it.take", "$$this.take"] },
        "inbox": "$@ask.inbox",
        "note": { "$cond": [{ "$lt": ["$@bytes", notes_max] }, "$$this.note", "$$it.note"] },
    }] }] }]);
    doc! { "$set": {
        "@held": each_in("$@held", "$@ask.renew", &renewed),
        "@waiting": each_in("$@waiting", "$@ask.renew", &renewed),
        "@last": { "$cond": [has_floor, { "$max": ["$@last", floor] }, "$@last"] },
    } }
}

/// Returns the array after the seat of each requested ticket was replaced by the seats in `other`.
/// Tickets that are not in it change nothing.
fn each_in(array: &str, asked: &str, other: &Bson) -> Bson {
    let other = bson!({ "$let": { "vars": { "it": { "$arrayElemAt": ["$$value", "$$i"] } }, "in": other } });
    let behind = bson!({ "$slice": ["$$value", { "$add": ["$$i", 1_i64] }, ALL] });
    let changed = bson!({ "$concatArrays": [{ "$slice": ["$$value", "$$i"] }, other, behind] });
    bson!({ "$reduce": { "input": asked, "initialValue": array, "in": { "$let": {
        "vars": { "i": { "$indexOfArray": ["$$value.id", "$$this.id"] } },
        "in": { "$cond": [{ "$gte": ["$$i", 0_i64] }, changed, "$$value"] },
    } } } })
}

/// Returns the places of the ticket `$$this` in the arrays, or -1 where it is not.
fn places() -> Document {
    doc! {
        "h": { "$indexOfArray": ["$@held.id", "$$this.id"] },
        "w": { "$indexOfArray": ["$@waiting.id", "$$this.id"] },
    }
}

/// A ticket that leaves is out. A served ticket that is asked to leave stays until its owner has
/// stopped.
pub(crate) fn leave() -> [Document; 3] {
    let seat = |array: &str, at: &str, did: Bson| {
        let seat = bson!({ "$arrayElemAt": [array, at] });
        let found = bson!({ "$mergeObjects": [seat, { "did": did, "soon": "$$this.soon" }] });
        bson!({ "case": { "$gte": [at, 0_i64] }, "then": found })
    };
    let how = bson!({ "$cond": ["$$this.soon", outcome::TOLD, outcome::HOLDING] });
    // A waiting ticket that fits after dead tickets were removed counts as served, although the
    // stage that serves runs after the verbs.
    let up_to_it = bson!({ "$slice": ["$@waiting.take", { "$add": ["$$w", 1_i64] }] });
    let sum = bson!({ "$add": [{ "$sum": "$@held.take" }, { "$sum": up_to_it }] });
    let of_waiting = bson!({ "$cond": [{ "$lte": [sum, "$@of"] }, &how, outcome::WAITING] });
    let found = bson!({ "$let": { "vars": places(), "in": { "$switch": {
        "branches": [seat("$@held", "$$h", how), seat("$@waiting", "$$w", of_waiting)],
        "default": { "id": "$$this.id", "did": outcome::ABSENT },
    } } } });
    let stays = bson!({ "$eq": ["$$this.did", outcome::TOLD] });
    let told_or_out =
        bson!({ "$cond": [stays, [{ "$mergeObjects": ["$$it", { "told": true }] }], []] });
    [
        doc! { "$set": { "@ask.found": { "$map": {
            "input": "$@ask.leave", "as": "this", "in": found,
        } } } },
        doc! { "$set": {
            "@held": each_in("$@held", "$@ask.found", &told_or_out),
            "@waiting": each_in("$@waiting", "$@ask.found", &told_or_out),
        } },
        doc! { "$set": {
            "@did": "$@ask.found.did",
            "@notices": { "$concat": ["$@notices", letters_of_leave()] },
        } },
    ]
}

/// The letters of leaves. A client is notified of a ticket of its own that another client asked to
/// leave or took out. A leave that finds no ticket may be a repeated one whose answer was lost. So
/// its client is notified of all its served tickets.
fn letters_of_leave() -> Bson {
    let is_own = bson!({ "$eq": ["$$this.inbox", "$@ask.inbox"] });
    let did = |did: i64| bson!({ "$eq": ["$$this.did", did] });
    let sign = bson!({ "$switch": {
        "branches": [
            { "case": did(outcome::ABSENT), "then": "" },
            { "case": did(outcome::TOLD), "then": { "$cond": ["$$this.told", "", "T"] } },
            // The owner knows. The letter informs onlookers that it did not leave by itself.
            { "case": "$$this.soon", "then": "B" },
            { "case": &is_own, "then": "" },
        ],
        "default": "O",
    } });
    let signed = bson!({ "$map": {
        "input": "$@ask.found", "as": "this", "in": { "$mergeObjects": ["$$this", { "sign": sign }] },
    } });
    let with_sign = bson!({ "$filter": { "input": signed, "as": "this", "cond": { "$ne": ["$$this.sign", ""] } } });
    let own = bson!({ "$filter": { "input": "$@held", "as": "this", "cond": is_own } });
    let missed = bson!({ "$in": [outcome::ABSENT, "$@ask.found.did"] });
    bson!({ "$concat": [
        letters(&with_sign, "$$this.sign"), { "$cond": [missed, letters(&own, "S"), ""] },
    ] })
}

/// A ticket that joins goes to the back of the line, and is served at once if no ticket waits and
/// it fits. A ticket that is in the line already gets `outcome::KNOWN`, and its client renews it.
pub(crate) fn join(place: &FieldPrefix) -> [Document; 2] {
    let joined = bson!({ "$reduce": {
        "input": "$@ask.join",
        "initialValue": {
            "n": { "$add": [{ "$size": "$@held" }, { "$size": "$@waiting" }] },
            "sum": { "$add": [{ "$sum": "$@held.take" }, { "$sum": "$@waiting.take" }] },
            "of": { "$ifNull": ["$@of", 0_i64] },
            "last": { "$ifNull": ["$@last", 0_i64] },
            "held": [], "waiting": [], "did": [],
        },
        "in": join_one(place),
    } });
    let unless_fresh = |it: &str, fresh: Bson| match is_fresh(place) {
        None => bson!(it),
        Some(is_fresh) => bson!({ "$cond": [is_fresh, fresh, it] }),
    };
    [
        doc! { "$set": { "@ask.joined": joined } },
        doc! { "$set": {
            "@held": { "$concatArrays": ["$@held", "$@ask.joined.held"] },
            "@waiting": { "$concatArrays": ["$@waiting", "$@ask.joined.waiting"] },
            "@did": { "$concatArrays": ["$@did", "$@ask.joined.did"] },
            "@last": unless_fresh("$@ask.joined.last", bson!("$$REMOVE")),
            "@made": unless_fresh("$$REMOVE", bson!({ "$ifNull": ["$@made", "$@ask.made"] })),
            "@of": "$@ask.joined.of",
            "@key": { "$ifNull": ["$@key", "$@ask.key"] },
            "@next_expiry": { "$min": [
                "$@next_expiry", { "$min": "$@ask.joined.held.ends" }, { "$min": "$@ask.joined.waiting.ends" },
            ] },
        } },
    ]
}

/// One more ticket, `$$this`, behind those that joined before it in this step, `$$value`.
fn join_one(place: &FieldPrefix) -> Bson {
    let low = if place.field_name().is_some() { bson!("$$this.low") } else { bson!(0_i64) };
    let clock = bson!({ "$add": [{ "$multiply": ["$@at", 1000_i64] }, low] });
    let seat = seat();
    let also = |all: &str, did: i64| bson!({ "$concatArrays": [all, { "$cond": [{ "$eq": ["$$did", did] }, &seat, []] }] });
    let did = bson!({ "$concatArrays": ["$$value.did", ["$$did"]] });
    let joined = bson!({
        "n": { "$add": ["$$value.n", 1_i64] }, "sum": "$$sum", "of": "$$this.of", "last": "$$next",
        "held": also("$$value.held", outcome::SERVED),
        "waiting": also("$$value.waiting", outcome::QUEUED),
        "did": &did,
    });
    let mut vars = places();
    vars.extend(doc! {
        "next": { "$max": [{ "$add": ["$$value.last", 1_i64] }, clock, "$$this.floor"] },
        "sum": { "$add": ["$$value.sum", "$$this.take"] },
    });
    bson!({ "$let": { "vars": vars, "in": { "$let": {
        "vars": { "did": verdict(place) },
        "in": { "$cond": [
            { "$in": ["$$did", [outcome::SERVED, outcome::QUEUED]] },
            joined,
            { "$mergeObjects": ["$$value", { "did": did }] },
        ] },
    } } } })
}

/// The seat of the ticket `$$this` with the number `$$next`, in an array.
pub(crate) fn seat() -> Bson {
    bson!([{
        "id": "$$this.id", "n": "$$next", "ends": { "$add": ["$@at", "$$this.ttl"] },
        "take": "$$this.take", "told": false, "inbox": "$@ask.inbox",
        "ttl_us": "$$this.ttl_us", "owner": "$$this.owner", "note": "$$this.note",
    }])
}

/// The outcome of the join of this ticket.
fn verdict(place: &FieldPrefix) -> Bson {
    let case = |case: Bson, then: i64| bson!({ "case": case, "then": then });
    let known = |owners: &str, at: &str| {
        let is_own = bson!({ "$eq": [{ "$arrayElemAt": [owners, at] }, "$$this.owner"] });
        let then = bson!({ "$cond": [is_own, outcome::KNOWN, outcome::OF_ANOTHER] });
        bson!({ "case": { "$gte": [at, 0_i64] }, "then": then })
    };
    let is_mixed = bson!({ "$and": [{ "$gt": ["$$value.n", 0_i64] }, { "$ne": ["$$value.of", "$$this.of"] }] });
    // The tickets ahead of it in the line fit as well then.
    let fits = bson!({ "$lte": ["$$sum", "$$this.of"] });
    let nobody_waits = bson!({ "$eq": [{ "$size": "$@waiting" }, 0_i64] });
    let most = i64::try_from(LINE_TICKETS_MAX).unwrap_or(ALL);
    let refusals = place.refusals.iter().zip(outcome::REFUSED..);
    let mut cases: Vec<Bson> =
        refusals.map(|(refusal, did)| case(refusal.when.clone(), did)).collect();
    cases.extend(is_fresh(place).map(|is_fresh| case(is_fresh, outcome::FRESH)));
    cases.extend([
        known("$@held.owner", "$$h"),
        known("$@waiting.owner", "$$w"),
        case(is_mixed, outcome::MIXED),
        case(bson!({ "$and": ["$$this.hurry", { "$not": [&fits] }] }), outcome::BUSY),
        case(bson!({ "$gte": ["$$value.n", most] }), outcome::FULL),
        case(bson!({ "$gte": ["$@bytes", place.limits.tickets] }), outcome::TOO_LONG),
        case(bson!({ "$gt": ["$$next", number_max()] }), outcome::NO_NUMBERS_LEFT),
        case(bson!({ "$and": [fits, nobody_waits] }), outcome::SERVED),
    ]);
    bson!({ "$switch": { "branches": cases, "default": outcome::QUEUED } })
}

/// Whether the record has no last number, and is not the fresh record that the client has seen. In
/// a program's document this is not checked: its first number goes by the clock alone.
fn is_fresh(place: &FieldPrefix) -> Option<Bson> {
    let is_fresh =
        bson!({ "$and": [{ "$not": [has_last()] }, { "$ne": ["$@made", "$@ask.seen"] }] });
    place.field_name().is_none().then_some(is_fresh)
}

/// Whether a number was given in the line.
fn has_last() -> Bson {
    bson!({ "$gt": ["$@last", null] })
}
