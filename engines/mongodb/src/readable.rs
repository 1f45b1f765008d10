//! What of a line can be read. Another version of Tenure, or somebody's hand, may have written
//! something else there; as nobody knows who holds then, a step is refused by an error of the
//! server's, which names this module's mark.

use mongodb::bson::{Bson, Document, bson, doc};

use crate::lens::scratch;
use crate::line::{ALL, Writer, number_max};

/// The server repeats what it cannot convert, and so this, in its refusal.
pub(crate) const MARK: &str = "tenure-unreadable";
/// The same for a number that was kept.
pub(crate) const NO_NUMBER_MARK: &str = "tenure-no-number";

/// Whether there is nothing yet in the field of a document that has its line, or a line. Anything
/// else there is somebody else's, or is what somebody has made of a line.
pub(crate) fn may_have_line(field: &str) -> Document {
    doc! { "$in": [{ "$type": format!("${field}") }, ["missing", "null", "object"]] }
}

/// What a stage that sets something in the line sets besides: it is nothing, or an error of the
/// server's if the field may have no line. It stands beside the line, because nothing is computed
/// in a field that is an empty array.
pub(crate) fn unless_foreign(field: &str) -> Document {
    let refusal = fail(MARK, &format!("${field}"));
    doc! { scratch(&scratch(field)): { "$cond": [may_have_line(field), "$$REMOVE", refusal] } }
}

/// There is something in this field of a document that may be a line.
pub(crate) fn has_line(field: &str) -> Document {
    doc! { field: { "$type": "object", "$not": { "$type": "array" } } }
}

impl Writer<'_> {
    /// The fields of the line are what a step of this version makes of them. What the tickets say
    /// is looked at where somebody holds by it.
    pub(crate) fn is_readable(&self) -> Bson {
        let array = |name: &str| bson!({ "$in": [{ "$type": self.value(name) }, ["missing", "null", "array"]] });
        // Each is written once: the server reads a pipeline anew for each command.
        let numbers = ["last", "at", "quiet", "of", "step"].map(|name| self.value(name));
        let numbers =
            bson!({ "$map": { "input": numbers.to_vec(), "as": "n", "in": number("$$n") } });
        bson!({ "$and": [array("held"), array("waiting"), { "$allElementsTrue": [numbers] }] })
    }

    /// The same as a filter, for a line in which nobody stands: only the fields that a ticket which
    /// comes into it goes by. It is the shorter for what it leaves out: a field that is missing, or
    /// a double, takes the long way.
    pub(crate) fn nobody_readable(&self) -> Document {
        let mut filter = doc! {};
        for name in ["held", "waiting"] {
            filter.insert(self.0.name(name), doc! { "$size": 0 });
        }
        for (name, limit) in limits() {
            // A filter would look into an array, and cannot tell whether another kind of number is
            // whole.
            let others = doc! { "$type": ["array", "double", "decimal"] };
            let known = doc! { "$gte": 0, "$lt": limit, "$not": others };
            filter.insert(self.0.name(name), known);
        }
        let Some(field) = self.0.field_name() else { return filter };
        let nothing = doc! { field: Bson::Null };
        doc! { field: { "$not": { "$type": "array" } }, "$or": [nothing, filter] }
    }

    /// Whether a ticket that comes in by a short verb gets a number; whoever gets none is told by
    /// the long one.
    pub(crate) fn has_numbers(&self) -> Bson {
        let below = |(name, limit): (&str, i64)| bson!({ "$lt": [{ "$ifNull": [self.value(name), 0_i64] }, limit] });
        bson!({ "$and": limits().map(below).to_vec() })
    }

    /// The tickets that are served, if what each takes and when its life ends can be read: nobody
    /// may be let in beside others.
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

    /// The ends of all lives in the line can be read.
    pub(crate) fn ends_readable(&self) -> Bson {
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

/// What a ticket that comes in by a short verb goes by, and what that must be below: its number is
/// above the last one, and above the clock in microseconds.
fn limits() -> [(&'static str, i64); 3] {
    [("last", number_max()), ("at", number_max() / 1000), ("step", number_max())]
}

/// When a life ends. The double that is no number is below all numbers.
fn end(value: &str) -> Bson {
    bson!({ "$and": [{ "$isNumber": value }, { "$gte": [value, 0_i64] }] })
}

/// A whole number that is not negative, or none yet.
pub(crate) fn number(value: &str) -> Bson {
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

/// The value is needed, for the server computes at once what depends on none.
fn fail(mark: &str, value: &str) -> Document {
    doc! { "$toLong": { "$concat": [mark, " ", { "$type": value }] } }
}
