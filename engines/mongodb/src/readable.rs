//! Readability: which lines this version can read. Another version of Tenure or a manual change may
//! have written something else. It is not known then which tickets hold. So the server refuses the
//! step by an error that contains this module's mark.

use mongodb::bson::{Bson, Document, bson, doc};

use crate::field_prefix::{FieldPrefix, scratch};
use crate::line::{ALL, number_max};

/// The server repeats a value that it cannot convert, and so this mark, in its refusal.
pub(crate) const MARK: &str = "tenure-unreadable";
/// The mark of a number that was kept.
pub(crate) const NO_NUMBER_MARK: &str = "tenure-no-number";

/// Returns the expression whether the field of a document is missing, null or a line. Any other
/// value is the program's own, or was written over a line.
pub fn may_have_line(field: &str) -> Document {
    doc! { "$in": [{ "$type": format!("${field}") }, ["missing", "null", "object"]] }
}

/// Returns the field that a stage sets beside the line. It is removed, or is an error of the
/// server's if the field cannot have a line. It stands beside the line, because nothing is computed
/// in a field that is an empty array.
pub fn unless_foreign(field: &str) -> Document {
    let refusal = unreadable(&format!("${field}"));
    doc! { scratch(&scratch(field)): { "$cond": [may_have_line(field), "$$REMOVE", refusal] } }
}

/// Returns the condition that this field of a document has something that may be a line.
pub(crate) fn has_line(field: &str) -> Document {
    doc! { field: { "$type": "object", "$not": { "$type": "array" } } }
}

/// Returns the expression whether a ticket can join the line in this field of a document: the line
/// can be read, with the ends of all lives in it, and has numbers left.
pub fn takes_tickets(field: &str) -> Bson {
    // The double NaN is below all numbers.
    let end =
        bson!({ "$and": [{ "$isNumber": "$$seat.ends" }, { "$gte": ["$$seat.ends", 0_i64] }] });
    let ends = |array: &str| {
        let seats = bson!({ "$ifNull": [array, []] });
        bson!({ "$allElementsTrue": [{ "$map": { "input": seats, "as": "seat", "in": &end } }] })
    };
    let below = |value: &str, limit: i64| bson!({ "$lt": [{ "$ifNull": [value, 0_i64] }, limit] });
    let takes = doc! { "$and": [
        may_have_line(field), is_readable(), ends("$@held"), ends("$@waiting"),
        below("$@last", number_max()), below("$@at", number_max() / 1000), below("$@step", number_max()),
    ] };
    FieldPrefix::field(field).stage(&takes).into()
}

/// Whether the fields of the line can be read by this version. Those of the tickets are checked
/// only where a ticket holds by them.
pub(crate) fn is_readable() -> Bson {
    // Each expression is written once: the server parses a pipeline anew for each command.
    bson!({ "$and": [
        { "$in": [{ "$type": "$@held" }, ["missing", "null", "array"]] },
        { "$in": [{ "$type": "$@waiting" }, ["missing", "null", "array"]] },
        { "$allElementsTrue": [{ "$map": {
            "input": ["$@last", "$@at", "$@next_expiry", "$@of", "$@step"],
            "as": "n",
            "in": number("$$n"),
        } }] },
    ] })
}

/// The served tickets, if the take of each and the end of its life can be read. Otherwise no ticket
/// may be served beside them.
pub(crate) fn held_by_readable(held: &Bson) -> Bson {
    let is_one = bson!({ "$and": [
        { "$gte": ["$$this.take", 1_i64] },
        { "$lte": ["$$this.take", ALL] },
        { "$eq": [{ "$mod": ["$$this.take", 1_i64] }, 0_i64] },
        { "$isNumber": "$$this.ends" },
        { "$gte": ["$$this.ends", 0_i64] },
    ] });
    let strangers =
        bson!({ "$filter": { "input": "$$held", "as": "this", "cond": { "$not": [is_one] } } });
    bson!({ "$let": { "vars": { "held": held }, "in": {
        "$cond": [{ "$eq": [strangers, []] }, "$$held", unreadable("$$held")],
    } } })
}

/// Whether the value is a whole number that is not negative, or is missing.
pub fn number(value: &str) -> Bson {
    bson!({ "$or": [
        { "$in": [{ "$type": value }, ["missing", "null"]] },
        { "$and": [
            { "$isNumber": value },
            { "$gte": [value, 0_i64] },
            { "$lte": [value, number_max()] },
            { "$eq": [{ "$mod": [value, 1_i64] }, 0_i64] },
        ] },
    ] })
}

/// An error of the server's, about a line.
pub(crate) fn unreadable(value: &str) -> Document {
    fail(MARK, value)
}

/// An error of the server's, about a number.
pub(crate) fn refuse_number(value: &str) -> Document {
    fail(NO_NUMBER_MARK, value)
}

/// Fails with this mark. The message mentions a value: the server would compute a constant at once,
/// and fail.
fn fail(mark: &str, value: &str) -> Document {
    doc! { "$toLong": { "$concat": [mark, " ", { "$type": value }] } }
}
