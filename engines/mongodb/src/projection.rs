//! A projection: the answer to a step. Of a line of thousands of tickets only what the caller needs
//! is sent, and of a program's document only the fields that were asked for.

use mongodb::bson::raw::CString;
use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, bson, cstr, doc, rawdoc};
use tenure_core::Ticket;

use crate::field_prefix::{FieldPrefix, scratch};
use crate::line::{VerbSet, c_string, outcome, raw};
use crate::readable::{has_line, unless_foreign};
use crate::request::Reads;

/// Number of waiting tickets, from the front, whose answers have the end of the first holder's
/// life. All others would look at once, and their heartbeats find out as well.
const NEAR: i64 = 3;

/// The projections. Their longer part is built once.
pub struct Projections {
    prefix: FieldPrefix,
    place: RawDocumentBuf,
    /// Name of the field that the first stage sets.
    ask: CString,
    /// Other fields that the first stage sets.
    guard: RawDocumentBuf,
    /// Condition on a document in which a ticket stands.
    stands: RawDocumentBuf,
    /// Name of the field that has the answer, so that no name meets a field of the document.
    answer: CString,
}

/// An answer in two parts: what the step reports, and what was read of a program's document.
pub struct Reply {
    /// The report of the step.
    pub said: Document,
    /// The fields of the document that were read.
    pub document: Option<Document>,
}

impl Projections {
    pub(crate) fn new(prefix: &FieldPrefix) -> Self {
        let guard = prefix.field_name().map(unless_foreign).unwrap_or_default();
        let whole = prefix.field_name().filter(|_| prefix.part_found().is_none());
        let stands = whole.map(has_line).unwrap_or_default();
        let answer = scratch(prefix.field_name().unwrap_or_default());
        Self {
            prefix: prefix.clone(),
            place: raw(&prefix.expression(&place(&prefix.said("did")))),
            ask: c_string(prefix.name("ask")),
            guard: raw(&guard),
            stands: raw(&stands),
            answer: c_string(answer),
        }
    }

    /// Returns the first stage of a step, with the requests of its callers. It first checks the
    /// line's field, because it would make a line of any other value there.
    pub(crate) fn asks(&self, ask: RawDocumentBuf) -> RawDocumentBuf {
        let mut fields = self.guard.clone();
        fields.append(&self.ask, rawdoc! { "$literal": ask });
        rawdoc! { "$set": fields }
    }

    /// Returns the condition on a document in which a ticket stands. After another value was
    /// written over its line, the ticket stands there no more, and nothing is written.
    pub(crate) fn stands(&self) -> RawDocumentBuf {
        self.stands.clone()
    }

    /// Returns the projection for the places of these tickets, in their order, and the outcomes of
    /// leaves and joins.
    pub(crate) fn of<'a>(
        &self,
        tickets: impl Iterator<Item = &'a Ticket>,
        verbs: VerbSet,
        reads: &Reads,
    ) -> RawDocumentBuf {
        let prefix = &self.prefix;
        let mut ids = RawArrayBuf::new();
        for ticket in tickets {
            ids.push(ticket.id.to_string());
        }
        let mut said = rawdoc! { "at": prefix.seen("at") };
        if !ids.is_empty() {
            let map = rawdoc! { "input": ids, "as": "id", "in": self.place.clone() };
            said.append(cstr!("places"), rawdoc! { "$map": map });
        }
        if verbs.leaves {
            said.append(cstr!("notices"), prefix.said("notices"));
        }
        if verbs.leaves || verbs.joins {
            said.append(cstr!("did"), prefix.said("did"));
        }
        if verbs.joins {
            said.append(cstr!("of"), prefix.seen("of"));
            said.append(cstr!("last"), prefix.seen("last"));
            if prefix.keeps("made") {
                said.append(cstr!("made"), prefix.seen("made"));
            }
        }
        if *reads != Reads::Nothing {
            let dids = bson!({ "$ifNull": [prefix.said("did"), []] });
            let is_served = bson!({ "$in": [outcome::SERVED, dids] });
            let read = doc! { "$cond": [is_served, self.read(reads), null] };
            said.append(cstr!("document"), raw(&read));
        }
        self.in_one(said)
    }

    /// Returns the projection for a whole line.
    pub(crate) fn line(&self) -> RawDocumentBuf {
        let line = doc! { "held": "$@held", "waiting": "$@waiting", "at": "$@at", "of": "$@of" };
        self.said(&self.prefix.expression(&line))
    }

    /// Returns the projection if only the document is read.
    pub fn document(&self, reads: &Reads) -> RawDocumentBuf {
        self.said(&doc! { "document": self.read(reads) })
    }

    /// Returns the projection for this report of a step.
    pub(crate) fn said(&self, said: &Document) -> RawDocumentBuf {
        self.in_one(raw(said))
    }

    /// Puts the answer into one field.
    fn in_one(&self, said: RawDocumentBuf) -> RawDocumentBuf {
        let said = match self.prefix.part_found() {
            None => said,
            Some(part) => {
                rawdoc! { "$let": { "vars": raw(&doc! { "part": part }), "in": said } }
            }
        };
        let mut fields = rawdoc! { "_id": 0 };
        fields.append(&self.answer, said);
        fields
    }

    /// Returns the expression for the document or the part without the line.
    fn read(&self, reads: &Reads) -> Bson {
        let whole = if self.prefix.part_found().is_some() { "$$part" } else { "$$ROOT" };
        let is_read = match reads {
            Reads::Fields(fields) => bson!({ "$in": ["$$this.k", fields.to_vec()] }),
            _ => bson!({ "$ne": ["$$this.k", { "$literal": self.field_name() }] }),
        };
        let read = bson!({ "$arrayToObject": { "$filter": {
            "input": { "$objectToArray": whole }, "as": "this", "cond": is_read,
        } } });
        bson!({ "$cond": [{ "$eq": [{ "$type": whole }, "object"] }, read, null] })
    }

    /// Splits an answer into its two parts.
    pub fn open(&self, mut answer: Document) -> Reply {
        let mut said = document(answer.remove(self.answer.as_str())).unwrap_or_default();
        let document = document(said.remove("document"));
        Reply { said, document }
    }

    /// Returns the field of a program's document that has the line.
    pub(crate) fn field_name(&self) -> Option<&str> {
        self.prefix.field_name()
    }
}

fn document(value: Option<Bson>) -> Option<Document> {
    match value {
        Some(Bson::Document(document)) => Some(document),
        _ => None,
    }
}

/// Returns the expression for the place of the ticket with the id `$$id`, or an empty document.
/// `did` is the value of that field.
fn place(did: &str) -> Document {
    let of = |values: &str, at: &str| bson!({ "$arrayElemAt": [values, at] });
    let ahead = |takes: &str, at: &str| bson!({ "$sum": { "$slice": [takes, at] } });
    let is_other = bson!({ "$in": [outcome::OF_ANOTHER, did] });
    let held = bson!({
        "n": of("$@held.n", "$$h"), "ends": of("$@held.ends", "$$h"), "told": of("$@held.told", "$$h"),
        "owner": { "$cond": [&is_other, of("$@held.owner", "$$h"), "$$REMOVE"] },
        "ahead": ahead("$@held.take", "$$h"),
    });
    let waiting = bson!({
        "n": of("$@waiting.n", "$$w"), "ends": of("$@waiting.ends", "$$w"), "told": of("$@waiting.told", "$$w"),
        "owner": { "$cond": [&is_other, of("$@waiting.owner", "$$w"), "$$REMOVE"] },
        "ahead": { "$add": [{ "$sum": "$@held.take" }, ahead("$@waiting.take", "$$w")] },
        "look": { "$cond": [{ "$lt": ["$$w", NEAR] }, { "$min": "$@held.ends" }, -1_i64] },
    });
    doc! { "$let": {
        "vars": {
            "h": { "$indexOfArray": ["$@held.id", "$$id"] },
            "w": { "$indexOfArray": ["$@waiting.id", "$$id"] },
        },
        "in": { "$switch": {
            "branches": [
                { "case": { "$gte": ["$$h", 0] }, "then": held },
                { "case": { "$gte": ["$$w", 0] }, "then": waiting },
            ],
            "default": {},
        } },
    } }
}
