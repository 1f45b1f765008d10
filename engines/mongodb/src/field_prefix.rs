//! A field prefix: where in a document a line lives, how it is read, and how it is put back.
//!
//! The stages of a verb know the fields of a line and nothing of the document around it. A line at
//! the root of a record of Tenure's own needs no way in or out, and neither does one in a field of
//! a program's document. The line of a part is taken out into a field of its own first, and put
//! back last.

use mongodb::bson::{Bson, Document};
use tenure_core::{Error, Key};

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
#[derive(Clone, Debug)]
pub struct PartStages {
    /// Names of the fields that lead to it, each followed by a dot.
    pub place: String,
    /// The expression for the part.
    pub part: Bson,
    /// The stages that take its line out into the field [`scratch`].
    pub out: Vec<Document>,
    /// The stages that put it back.
    pub back: Vec<Document>,
    /// Reasons for which no ticket joins its line.
    pub refusals: Vec<Refusal>,
}

/// A reason for which no ticket joins a line, besides those that all lines have.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The condition, after the line was taken out.
    pub when: Bson,
    /// The error of a join.
    pub error: fn(&Key) -> Error,
}

/// Where a line lives.
#[derive(Clone, Debug)]
pub struct FieldPrefix {
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
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) limits: Limits,
}

impl FieldPrefix {
    /// A line whose fields are those of the document.
    pub(crate) fn root() -> Self {
        Self {
            field: None,
            prefix: String::new(),
            place: String::new(),
            part: None,
            out: Vec::new(),
            back: Vec::new(),
            refusals: Vec::new(),
            limits: Limits::OF_RECORDS,
        }
    }

    /// A line in this field of a program's document.
    pub fn field(name: &str) -> Self {
        let (field, prefix) = (Some(name.to_owned()), format!("{name}."));
        let (place, limits) = (prefix.clone(), Limits::OF_DOCUMENTS);
        Self { field, prefix, place, limits, ..Self::root() }
    }

    /// A line in this field of a part of the document.
    pub fn part(name: &str, part: PartStages) -> Self {
        let (prefix, place) = (format!("{}.", scratch(name)), format!("{}{name}.", part.place));
        let PartStages { part, out, back, refusals, .. } = part;
        Self { prefix, place, part: Some(part), out, back, refusals, ..Self::field(name) }
    }

    /// Returns a stage that was written with `@held` for the name of the field `held`, and `$@held`
    /// for its value.
    pub(crate) fn stage(&self, written: &Document) -> Document {
        self.named(written, &self.prefix)
    }

    /// The same for an expression after the stages.
    pub(crate) fn expression(&self, written: &Document) -> Document {
        self.named(written, &self.prefix_after())
    }

    fn named(&self, written: &Document, prefix: &str) -> Document {
        let fields = written.iter().filter_map(|(name, value)| {
            let name = match name.strip_prefix('@') {
                None => name.to_owned(),
                Some(field) if self.keeps(field) => format!("{prefix}{field}"),
                Some(_) => return None,
            };
            Some((name, self.value(value, prefix)))
        });
        fields.collect()
    }

    fn value(&self, written: &Bson, prefix: &str) -> Bson {
        match written {
            Bson::String(text) => match text.strip_prefix("$@") {
                Some(field) => Bson::String(format!("${prefix}{field}")),
                None => written.clone(),
            },
            Bson::Array(all) => all.iter().map(|value| self.value(value, prefix)).collect(),
            Bson::Document(fields) => self.named(fields, prefix).into(),
            _ => written.clone(),
        }
    }

    /// Returns the name of a field of the line, for a stage that sets it.
    pub(crate) fn name(&self, field: &str) -> String {
        [&self.prefix, field].concat()
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
        format!("${}{field}", self.prefix_after())
    }

    fn prefix_after(&self) -> String {
        match (&self.field, &self.part) {
            (Some(name), Some(_)) => format!("$part.{name}."),
            (Some(name), None) => format!("{name}."),
            (None, _) => String::new(),
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
pub fn scratch(name: &str) -> String {
    format!("{name}~")
}
