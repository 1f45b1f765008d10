//! Readability: which lines this version can read. Another version of Tenure or a manual change may
//! have written something else. It is not known then which tickets hold. So the server refuses the
//! step by an error that contains this module's mark.

use mongodb::bson::{Bson, Document, bson, doc};

use crate::field_prefix::{FieldPrefix, scratch};
use crate::line::{ALL, Writer, number_max};

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
    let refusal = fail(MARK, &format!("${field}"));
    doc! { scratch(&scratch(field)): { "$cond": [may_have_line(field), "$$REMOVE", refusal] } }
}

/// Returns the condition that this field of a document has something that may be a line.
pub(crate) fn has_line(field: &str) -> Document {
    doc! { field: { "$type": "object", "$not": { "$type": "array" } } }
}

/// Returns the filter for an empty line in this field of a document, which this version can read.
pub fn has_empty_line(field: &str) -> Document {
    Writer(&FieldPrefix::field(field)).nobody_readable()
}

/// Returns the expression whether the line in this field of a document can be read, with the ends
/// of all lives in it.
pub fn has_readable_line(field: &str) -> Bson {
    let lens = FieldPrefix::field(field);
    let line = Writer(&lens);
    bson!({ "$and": [
        may_have_line(field), line.is_readable(), line.ends_readable(), line.has_numbers(),
    ] })
}

impl Writer<'_> {
    /// Whether the fields of the line can be read by this version. Those of the tickets are checked
    /// only where a ticket holds by them.
    pub(crate) fn is_readable(&self) -> Bson {
        let array = |name: &str| bson!({ "$in": [{ "$type": self.value(name) }, ["missing", "null", "array"]] });
        // Each expression is written once: the server parses a pipeline anew for each command.
        let numbers = ["last", "at", "next_expiry", "of", "step"].map(|name| self.value(name));
        let numbers =
            bson!({ "$map": { "input": numbers.to_vec(), "as": "n", "in": number("$$n") } });
        bson!({ "$and": [array("held"), array("waiting"), { "$allElementsTrue": [numbers] }] })
    }

    /// The same as a filter, for an empty line. It checks only the fields that a join needs, and is
    /// short for that reason: a missing field, or a double, takes the long verb.
    pub(crate) fn nobody_readable(&self) -> Document {
        let mut filter = doc! {};
        for name in ["held", "waiting"] {
            filter.insert(self.0.name(name), doc! { "$size": 0 });
        }
        for (name, limit) in limits() {
            // A filter would look into an array, and cannot check whether another kind of number is
            // whole.
            let others = doc! { "$type": ["array", "double", "decimal"] };
            let known = doc! { "$gte": 0, "$lt": limit, "$not": others };
            filter.insert(self.0.name(name), known);
        }
        let Some(field) = self.0.field_name() else { return filter };
        let nothing = doc! { field: Bson::Null };
        doc! { field: { "$not": { "$type": "array" } }, "$or": [nothing, filter] }
    }

    /// Whether a ticket that joins by a short verb gets a number. If not, the long verb reports it.
    pub(crate) fn has_numbers(&self) -> Bson {
        let below = |(name, limit): (&str, i64)| bson!({ "$lt": [{ "$ifNull": [self.value(name), 0_i64] }, limit] });
        bson!({ "$and": limits().map(below).to_vec() })
    }

    /// The served tickets, if the take of each and the end of its life can be read. Otherwise no
    /// ticket may be served beside them.
    pub(crate) fn held_by_readable(held: &Bson) -> Bson {
        let is_one = bson!({ "$and": [
            { "$gte": ["$$this.take", 1_i64] },
            { "$lte": ["$$this.take", ALL] },
            { "$eq": [{ "$mod": ["$$this.take", 1_i64] }, 0_i64] },
            end("$$this.ends"),
        ] });
        let strangers =
            bson!({ "$filter": { "input": "$$held", "as": "this", "cond": { "$not": [is_one] } } });
        bson!({ "$let": { "vars": { "held": held.clone() }, "in": {
            "$cond": [{ "$eq": [strangers, []] }, "$$held", fail(MARK, "$$held")],
        } } })
    }

    /// Whether the ends of all lives in the line can be read.
    fn ends_readable(&self) -> Bson {
        let all = |array: &str| {
            let array = bson!({ "$ifNull": [self.value(array), []] });
            let ends =
                bson!({ "$map": { "input": array, "as": "seat", "in": end("$$seat.ends") } });
            bson!({ "$allElementsTrue": [ends] })
        };
        bson!({ "$and": [all("held"), all("waiting")] })
    }

    /// An error of the server's, in the place of this field.
    pub(crate) fn refuse(&self, field: &str) -> Bson {
        fail(MARK, &self.0.value(field)).into()
    }
}

/// The fields that a join by a short verb needs, and their limits: the ticket's number is above the
/// last one, and above the clock in microseconds.
fn limits() -> [(&'static str, i64); 3] {
    [("last", number_max()), ("at", number_max() / 1000), ("step", number_max())]
}

/// Whether this value can be the end of a life. It refuses the double NaN, which is below all
/// numbers.
fn end(value: &str) -> Bson {
    bson!({ "$and": [{ "$isNumber": value }, { "$gte": [value, 0_i64] }] })
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

/// An error of the server's, about a number.
pub(crate) fn refuse_number(value: &str) -> Bson {
    fail(NO_NUMBER_MARK, value).into()
}

/// Fails with this mark. The value is needed, because the server computes constants at once.
fn fail(mark: &str, value: &str) -> Document {
    doc! { "$toLong": { "$concat": [mark, " ", { "$type": value }] } }
}
