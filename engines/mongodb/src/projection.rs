//! A projection: what is answered of a document after a step, so that of a line of thousands only
//! what the caller needs travels, and of somebody else's document only what was asked for.

use mongodb::bson::raw::CString;
use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, bson, cstr, doc, rawdoc};
use tenure_core::Ticket;

use crate::lens::{Lens, scratch};
use crate::line::{Mixture, c_string, did, raw};
use crate::readable::{has_line, unless_foreign};
use crate::wish::Reads;

/// So many waiting tickets are told when the first holder's life ends: the others would all come at
/// once, and their heartbeats find out as well.
const NEAR: i64 = 3;

/// The projections, whose longer part is made once.
pub(crate) struct Answers {
    lens: Lens,
    place: RawDocumentBuf,
    /// The name of the first stage's field.
    ask: CString,
    /// What it sets besides.
    guard: RawDocumentBuf,
    /// What a document has in which a ticket stands.
    stands: RawDocumentBuf,
}

/// An answer: what the step says, and what of somebody else's document was read with it.
pub(crate) struct Opened {
    pub(crate) said: Document,
    pub(crate) document: Option<Document>,
}

impl Answers {
    pub(crate) fn new(lens: &Lens) -> Self {
        let guard = lens.field_name().map(unless_foreign).unwrap_or_default();
        let whole = lens.field_name().filter(|_| lens.part_found().is_none());
        let stands = whole.map(has_line).unwrap_or_default();
        let (lens, place, ask) = (lens.clone(), raw(&place(lens)), c_string(lens.name("ask")));
        Self { lens, place, ask, guard: raw(&guard), stands: raw(&stands) }
    }

    /// The first stage of a step, which has what its callers ask for. It would make a line of
    /// whatever a document has in the line's place, so it looks at that first.
    pub(crate) fn asks(&self, ask: RawDocumentBuf) -> RawDocumentBuf {
        let mut fields = self.guard.clone();
        fields.append(&self.ask, rawdoc! { "$literal": ask });
        rawdoc! { "$set": fields }
    }

    /// What a document has in which a ticket stands: where somebody wrote something else over its
    /// line, it stands no more, and nothing is written.
    pub(crate) fn stands(&self) -> RawDocumentBuf {
        self.stands.clone()
    }

    /// Where these tickets stand, in their order, and what leaves and joins came to.
    pub(crate) fn of<'a>(
        &self,
        tickets: impl Iterator<Item = &'a Ticket>,
        mixture: Mixture,
        reads: &Reads,
    ) -> RawDocumentBuf {
        let mut ids = RawArrayBuf::new();
        for ticket in tickets {
            ids.push(ticket.id.to_string());
        }
        let map = (!ids.is_empty())
            .then(|| rawdoc! { "input": ids, "as": "id", "in": self.place.clone() });
        let what = [
            ("bell", mixture.leaves),
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
                "bell" => fields.append(cstr!("bell"), 1),
                "did" => fields.append(cstr!("did"), 1),
                "of" => fields.append(cstr!("of"), 1),
                "made" => fields.append(cstr!("made"), 1),
                _ => fields.append(cstr!("last"), 1),
            }
        }
        fields
    }

    /// The same for a line in somebody else's document: all of it in one field.
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
            let at_root = matches!(field, "bell" | "did");
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

    /// What is answered of a whole line.
    pub(crate) fn line(&self) -> RawDocumentBuf {
        let fields = ["held", "waiting", "at", "of"];
        if self.lens.field_name().is_none() {
            return rawdoc! { "_id": 0, "held": 1, "waiting": 1, "at": 1, "of": 1 };
        }
        let said = fields.map(|field| (field.to_owned(), Bson::String(self.lens.seen(field))));
        raw(&self.in_one(said.into_iter().collect()))
    }

    /// What is answered when only the document is read.
    pub(crate) fn document(&self, reads: &Reads) -> RawDocumentBuf {
        raw(&self.in_one(doc! { "document": self.read(reads) }))
    }

    /// Puts what is said into one field, where it meets no field of the document.
    fn in_one(&self, said: Document) -> Document {
        let said = match self.lens.part_found() {
            None => said,
            Some(part) => doc! { "$let": { "vars": { "part": part.clone() }, "in": said } },
        };
        doc! { "_id": 0, scratch(self.field()): said }
    }

    /// The document or the part without the line.
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

    /// What is answered of a ticket that is the only one served. A document in which nobody else
    /// stands is answered as it is.
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

    /// Takes an answer apart.
    pub(crate) fn open(&self, mut answer: Document) -> Opened {
        if self.lens.field_name().is_none() {
            return Opened { said: answer, document: None };
        }
        let mut said = document(answer.remove(scratch(self.field()))).unwrap_or_default();
        let document = document(said.remove("document"));
        Opened { said, document }
    }

    /// The same for an answer to a short verb.
    pub(crate) fn open_alone(&self, mut answer: Document) -> Opened {
        let Some(field) = self.lens.field_name() else {
            return Opened { said: answer, document: None };
        };
        let said = document(answer.remove(field)).unwrap_or_default();
        Opened { said, document: Some(answer) }
    }

    /// The field of somebody else's document that has the line.
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

/// The expression for where the ticket stands whose id is `$$id`; an empty document if it does not.
fn place(lens: &Lens) -> Document {
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
