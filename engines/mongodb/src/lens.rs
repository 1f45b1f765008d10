//! A lens says where in a document a line lives: how it is read, and how it is put back.
//!
//! The stages of a verb know the fields of a line and nothing of the document around it. A line
//! that lives at the root of a document of our own needs no way in or out, and neither does one in
//! a field of somebody else's document. The line of a part is taken out into a field of its own
//! first, and put back last.

use mongodb::bson::{Bson, Document};

/// How long a document may be before its line takes no more tickets, and no more changed notes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) tickets: i64,
    pub(crate) notes: i64,
}

impl Limits {
    /// MongoDB's own limit is 16 MiB. Renewals must go on when no more tickets are taken.
    const OF_RECORDS: Self = Self { tickets: 12 << 20, notes: 14 << 20 };
    /// Most of a document belongs to somebody else. Half a MiB is more than the tickets of one
    /// command take.
    const OF_DOCUMENTS: Self = Self { tickets: 31 << 19, notes: (31 << 19) + (1 << 18) };
}

/// How a part is found: the expression for the one that is meant, and how its line is taken out and
/// put back.
pub(crate) struct Way {
    /// The names of the fields that lead to it, each with a dot behind it.
    pub(crate) place: String,
    pub(crate) part: Bson,
    pub(crate) out: Vec<Document>,
    pub(crate) back: Vec<Document>,
}

/// Where a line lives.
#[derive(Clone, Debug)]
pub(crate) struct Lens {
    /// The field of somebody else's document that has the line; `None`: the document is the line's
    /// own.
    field: Option<String>,
    /// What stands before the names of the line's fields, while the stages run.
    prefix: String,
    /// What stands before them in a query: in a part, without the filters of its path.
    pub(crate) place: String,
    /// The part in which the line lives, once the stages are over.
    part: Option<Bson>,
    /// The stages that take the line out.
    pub(crate) out: Vec<Document>,
    /// The stages that put it back.
    pub(crate) back: Vec<Document>,
    pub(crate) limits: Limits,
}

impl Lens {
    /// The fields of the line are those of the document.
    pub(crate) fn root() -> Self {
        let (out, back) = (Vec::new(), Vec::new());
        let limits = Limits::OF_RECORDS;
        let (prefix, place) = (String::new(), String::new());
        Self { field: None, prefix, place, part: None, out, back, limits }
    }

    /// The line is in this field of somebody else's document.
    pub(crate) fn field(name: &str) -> Self {
        let (field, prefix) = (Some(name.to_owned()), format!("{name}."));
        let (place, limits) = (prefix.clone(), Limits::OF_DOCUMENTS);
        Self { field, prefix, place, part: None, out: Vec::new(), back: Vec::new(), limits }
    }

    /// The line is in this field of a part of the document.
    pub(crate) fn part(name: &str, way: Way) -> Self {
        let (prefix, place) = (format!("{}.", scratch(name)), format!("{}{name}.", way.place));
        let (part, out, back) = (Some(way.part), way.out, way.back);
        Self { prefix, place, part, out, back, ..Self::field(name) }
    }

    /// The name of a field of the line, for a stage that sets it.
    pub(crate) fn name(&self, field: &str) -> String {
        [&self.prefix, field].concat()
    }

    /// The value of a field of the line, for an expression.
    pub(crate) fn value(&self, field: &str) -> String {
        ["$", &self.prefix, field].concat()
    }

    /// Whether the line keeps a field. A record says whose line it is, when it may be reaped, and
    /// that it is fresh; a document does not.
    pub(crate) fn keeps(&self, field: &str) -> bool {
        self.field.is_none() || !matches!(field, "key" | "reap" | "made")
    }

    /// The field of somebody else's document that has the line.
    pub(crate) fn field_name(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// The part in which the line lives: after the stages it is the variable `$$part`.
    pub(crate) fn part_found(&self) -> Option<&Bson> {
        self.part.as_ref()
    }

    /// The value of a field of the line, once the stages are over.
    pub(crate) fn seen(&self, field: &str) -> String {
        match (&self.field, &self.part) {
            (Some(name), Some(_)) => format!("$$part.{name}.{field}"),
            (Some(name), None) => format!("${name}.{field}"),
            (None, _) => format!("${field}"),
        }
    }

    /// The value of what the last step says of itself, once the stages are over. It stands at the
    /// document's root, where the change stream finds it.
    pub(crate) fn said(&self, field: &str) -> String {
        match &self.field {
            Some(name) => format!("${name}.{field}"),
            None => format!("${field}"),
        }
    }
}

/// The field that has a line while its stages run, and an answer on its way. No user's field has
/// such a name.
pub(crate) fn scratch(name: &str) -> String {
    format!("{name}~")
}
