//! A lens: where in a document a line lives, how it is read, and how it is put back.
//!
//! The stages of a verb know the fields of a line and nothing of the document around it. A line at
//! the root of a record of Tenure's own needs no way in or out, and neither does one in a field of
//! a program's document. The line of a part is taken out into a field of its own first, and put
//! back last.

use mongodb::bson::{Bson, Document};

/// Document lengths, in bytes, at which a line takes no more tickets and no more changed notes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) tickets: i64,
    pub(crate) notes: i64,
}

impl Limits {
    /// MongoDB's own limit is 16 MiB. Renewals must go on when no more tickets are taken.
    const OF_RECORDS: Self = Self { tickets: 12 << 20, notes: 14 << 20 };
    /// Most of a document is the program's own. The tickets of one command take less than half a
    /// MiB.
    const OF_DOCUMENTS: Self = Self { tickets: 31 << 19, notes: (31 << 19) + (1 << 18) };
}

/// How a part is found: the expression for the part, and the stages that take its line out and put
/// it back.
pub(crate) struct Way {
    /// Names of the fields that lead to it, each followed by a dot.
    pub(crate) place: String,
    pub(crate) part: Bson,
    pub(crate) out: Vec<Document>,
    pub(crate) back: Vec<Document>,
}

/// Where a line lives.
#[derive(Clone, Debug)]
pub(crate) struct Lens {
    /// Field of a program's document that has the line. `None` if the document is the line's own
    /// record.
    field: Option<String>,
    /// Prefix of the names of the line's fields while the stages run.
    prefix: String,
    /// Prefix of these names in a query. In a part it is without the filters of its path.
    pub(crate) place: String,
    /// The part in which the line lives after the stages.
    part: Option<Bson>,
    /// The stages that take the line out.
    pub(crate) out: Vec<Document>,
    /// The stages that put it back.
    pub(crate) back: Vec<Document>,
    pub(crate) limits: Limits,
}

impl Lens {
    /// A line whose fields are those of the document.
    pub(crate) fn root() -> Self {
        let (out, back) = (Vec::new(), Vec::new());
        let limits = Limits::OF_RECORDS;
        let (prefix, place) = (String::new(), String::new());
        Self { field: None, prefix, place, part: None, out, back, limits }
    }

    /// A line in this field of a program's document.
    pub(crate) fn field(name: &str) -> Self {
        let (field, prefix) = (Some(name.to_owned()), format!("{name}."));
        let (place, limits) = (prefix.clone(), Limits::OF_DOCUMENTS);
        Self { field, prefix, place, part: None, out: Vec::new(), back: Vec::new(), limits }
    }

    /// A line in this field of a part of the document.
    pub(crate) fn part(name: &str, way: Way) -> Self {
        let (prefix, place) = (format!("{}.", scratch(name)), format!("{}{name}.", way.place));
        let (part, out, back) = (Some(way.part), way.out, way.back);
        Self { prefix, place, part, out, back, ..Self::field(name) }
    }

    /// Returns the name of a field of the line, for a stage that sets it.
    pub(crate) fn name(&self, field: &str) -> String {
        [&self.prefix, field].concat()
    }

    /// Returns the value of a field of the line, for an expression.
    pub(crate) fn value(&self, field: &str) -> String {
        ["$", &self.prefix, field].concat()
    }

    /// Returns whether the line keeps a field. A record keeps its key, when it may be reaped, and
    /// whether it is fresh; a document does not.
    pub(crate) fn keeps(&self, field: &str) -> bool {
        self.field.is_none() || !matches!(field, "key" | "reap" | "made")
    }

    /// Returns the field of a program's document that has the line.
    pub(crate) fn field_name(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Returns the part in which the line lives. After the stages it is the variable `$$part`.
    pub(crate) fn part_found(&self) -> Option<&Bson> {
        self.part.as_ref()
    }

    /// Returns the value of a field of the line after the stages.
    pub(crate) fn seen(&self, field: &str) -> String {
        match (&self.field, &self.part) {
            (Some(name), Some(_)) => format!("$$part.{name}.{field}"),
            (Some(name), None) => format!("${name}.{field}"),
            (None, _) => format!("${field}"),
        }
    }

    /// Returns the value of a field that describes the last step, after the stages. It stands at
    /// the document's root, where a change stream finds it.
    pub(crate) fn said(&self, field: &str) -> String {
        match &self.field {
            Some(name) => format!("${name}.{field}"),
            None => format!("${field}"),
        }
    }
}

/// Returns the name of the field that has a line while its stages run, and an answer in flight. No
/// user's field has such a name.
pub(crate) fn scratch(name: &str) -> String {
    format!("{name}~")
}
