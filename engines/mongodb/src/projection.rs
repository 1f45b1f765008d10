//! A projection: the answer to a step. Of a line of thousands of tickets only what the caller needs
//! is sent, and of a program's document only the fields that were asked for.

use mongodb::bson::raw::CString;
use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, bson, cstr, doc, rawdoc};
use tenure_core::Ticket;

use crate::field_prefix::{FieldPrefix, scratch};
use crate::line::{VerbSet, c_string, did, raw};
use crate::readable::{has_line, unless_foreign};
use crate::request::Reads;

/// Number of waiting tickets, from the front, whose answers have the end of the first holder's
/// life. All others would look at once, and their heartbeats find out as well.
const NEAR: i64 = 3;

/// The projections. Their longer part is built once.
pub struct Projections {
    lens: FieldPrefix,
    place: RawDocumentBuf,
    /// Name of the field that the first stage sets.
    ask: CString,
    /// Other fields that the first stage sets.
    guard: RawDocumentBuf,
    /// Condition on a document in which a ticket stands.
    stands: RawDocumentBuf,
}

/// An answer in two parts: what the step reports, and what was read of a program's document.
pub struct Reply {
    /// The report of the step.
    pub said: Document,
    /// The fields of the document that were read.
    pub document: Option<Document>,
}

impl Projections {
    pub(crate) fn new(lens: &FieldPrefix) -> Self {
        let guard = lens.field_name().map(unless_foreign).unwrap_or_default();
        let whole = lens.field_name().filter(|_| lens.part_found().is_none());
        let stands = whole.map(has_line).unwrap_or_default();
        let (lens, place, ask) = (lens.clone(), raw(&place(lens)), c_string(lens.name("ask")));
        Self { lens, place, ask, guard: raw(&guard), stands: raw(&stands) }
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
        mixture: VerbSet,
        reads: &Reads,
    ) -> RawDocumentBuf {
        let mut ids = RawArrayBuf::new();
        for ticket in tickets {
            ids.push(ticket.id.to_string());
        }
        let map = (!ids.is_empty())
            .then(|| rawdoc! { "input": ids, "as": "id", "in": self.place.clone() });
        let what = [
            ("notices", mixture.leaves),
            ("did", mixture.leaves || mixture.joins),
            ("of", mixture.joins),
            ("last", mixture.joins),
            ("made", mixture.joins && self.lens.keeps("made")),
        ];
        let what = what.into_iter().filter(|(_, is_asked)| *is_asked).map(|(field, _)| field);
        if self.lens.field_name().is_some() {
            let map = map.and_then(|map| Document::try_from(map).ok());
            return self.of_document(map, what, reads);
        }
        let mut fields = rawdoc! { "_id": 0, "at": 1 };
        if let Some(map) = map {
            fields.append(cstr!("places"), rawdoc! { "$map": map });
        }
        for field in what {
            match field {
                "notices" => fields.append(cstr!("notices"), 1),
                "did" => fields.append(cstr!("did"), 1),
                "of" => fields.append(cstr!("of"), 1),
                "made" => fields.append(cstr!("made"), 1),
                _ => fields.append(cstr!("last"), 1),
            }
        }
        fields
    }

    /// The same for a line in a program's document: all of it in one field.
    fn of_document<'a>(
        &self,
        map: Option<Document>,
        what: impl Iterator<Item = &'a str>,
        reads: &Reads,
    ) -> RawDocumentBuf {
        let mut said = doc! { "at": self.lens.seen("at") };
        if let Some(map) = map {
            said.insert("places", doc! { "$map": map });
        }
        for field in what {
            let at_root = matches!(field, "notices" | "did");
            let value = if at_root { self.lens.said(field) } else { self.lens.seen(field) };
            said.insert(field, value);
        }
        if *reads != Reads::Nothing {
            let is_served =
                bson!({ "$in": [did::SERVED, { "$ifNull": [self.lens.said("did"), []] }] });
            said.insert("document", bson!({ "$cond": [is_served, self.read(reads), Bson::Null] }));
        }
        raw(&self.in_one(said))
    }

    /// Returns the projection for a whole line.
    pub(crate) fn line(&self) -> RawDocumentBuf {
        let fields = ["held", "waiting", "at", "of"];
        if self.lens.field_name().is_none() {
            return rawdoc! { "_id": 0, "held": 1, "waiting": 1, "at": 1, "of": 1 };
        }
        let said = fields.map(|field| (field.to_owned(), Bson::String(self.lens.seen(field))));
        raw(&self.in_one(said.into_iter().collect()))
    }

    /// Returns the projection if only the document is read.
    pub fn document(&self, reads: &Reads) -> RawDocumentBuf {
        raw(&self.in_one(doc! { "document": self.read(reads) }))
    }

    /// Puts the answer into one field, so that no name meets a field of the document.
    fn in_one(&self, said: Document) -> Document {
        let said = match self.lens.part_found() {
            None => said,
            Some(part) => doc! { "$let": { "vars": { "part": part.clone() }, "in": said } },
        };
        doc! { "_id": 0, scratch(self.field()): said }
    }

    /// Returns the expression for the document or the part without the line.
    fn read(&self, reads: &Reads) -> Bson {
        let whole = if self.lens.part_found().is_some() { "$$part" } else { "$$ROOT" };
        let is_read = match reads {
            Reads::Fields(fields) => bson!({ "$in": ["$$this.k", fields.to_vec()] }),
            _ => bson!({ "$ne": ["$$this.k", { "$literal": self.field() }] }),
        };
        let read = bson!({ "$arrayToObject": { "$filter": {
            "input": { "$objectToArray": whole }, "as": "this", "cond": is_read,
        } } });
        bson!({ "$cond": [{ "$eq": [{ "$type": whole }, "object"] }, read, Bson::Null] })
    }

    /// Returns the projection for a ticket that is the only one served. A program's document with
    /// only this ticket is answered as it is.
    pub(crate) fn of_alone(&self, reads: &Reads) -> RawDocumentBuf {
        let Some(field) = self.lens.field_name() else {
            return rawdoc! { "_id": 0, "at": 1, "held.n": 1, "held.ends": 1, "made": 1 };
        };
        let mut fields = doc! { format!("{field}.at"): 1, format!("{field}.held"): 1 };
        match reads {
            Reads::Everything => return RawDocumentBuf::new(),
            Reads::Nothing => drop(fields.insert("_id", 0)),
            Reads::Fields(names) => {
                if !names.iter().any(|name| name == "_id") {
                    fields.insert("_id", 0);
                }
                fields.extend(names.iter().map(|name| (name.clone(), Bson::Int32(1))));
            }
        }
        raw(&fields)
    }

    /// Returns the projection for the only ticket served, which leaves: the letters to the next
    /// ones.
    pub(crate) fn of_leave_alone(&self) -> RawDocumentBuf {
        raw(&doc! { "_id": 0, self.lens.name("notices"): 1 })
    }

    /// Splits an answer into its two parts.
    pub fn open(&self, mut answer: Document) -> Reply {
        if self.lens.field_name().is_none() {
            return Reply { said: answer, document: None };
        }
        let mut said = document(answer.remove(scratch(self.field()))).unwrap_or_default();
        let document = document(said.remove("document"));
        Reply { said, document }
    }

    /// The same for the answer to a short verb.
    pub(crate) fn open_alone(&self, mut answer: Document) -> Reply {
        let Some(field) = self.lens.field_name() else {
            return Reply { said: answer, document: None };
        };
        let said = document(answer.remove(field)).unwrap_or_default();
        Reply { said, document: Some(answer) }
    }

    /// Returns the field of a program's document that has the line.
    pub(crate) fn field_name(&self) -> Option<&str> {
        self.lens.field_name()
    }

    fn field(&self) -> &str {
        self.field_name().unwrap_or_default()
    }
}

fn document(value: Option<Bson>) -> Option<Document> {
    match value {
        Some(Bson::Document(document)) => Some(document),
        _ => None,
    }
}

/// Returns the expression for the place of the ticket with the id `$$id`, or an empty document.
fn place(lens: &FieldPrefix) -> Document {
    let value = |field: &str| Bson::String(lens.seen(field));
    let index = |array: &str| bson!({ "$indexOfArray": [value(&format!("{array}.id")), "$$id"] });
    let of = |array: &str, at: &str, field: &str| bson!({ "$arrayElemAt": [value(&format!("{array}.{field}")), at] });
    let ahead = |array: &str, at: &str| bson!({ "$sum": { "$slice": [value(&format!("{array}.take")), at] } });
    let is_other = bson!({ "$in": [did::OF_ANOTHER, lens.said("did")] });
    let seat = |array: &str, at: &str| {
        doc! {
            "n": of(array, at, "n"), "ends": of(array, at, "ends"), "told": of(array, at, "told"),
            "owner": { "$cond": [is_other.clone(), of(array, at, "owner"), "$$REMOVE"] },
        }
    };
    let mut held = seat("held", "$$h");
    held.insert("ahead", ahead("held", "$$h"));
    let mut waiting = seat("waiting", "$$w");
    waiting.insert(
        "ahead",
        bson!({ "$add": [{ "$sum": value("held.take") }, ahead("waiting", "$$w")] }),
    );
    let is_near = bson!({ "$lt": ["$$w", NEAR] });
    waiting.insert("look", bson!({ "$cond": [is_near, { "$min": value("held.ends") }, -1_i64] }));
    doc! { "$let": {
        "vars": { "h": index("held"), "w": index("waiting") },
        "in": { "$switch": {
            "branches": [
                { "case": { "$gte": ["$$h", 0] }, "then": held },
                { "case": { "$gte": ["$$w", 0] }, "then": waiting },
            ],
            "default": {},
        } },
    } }
}
