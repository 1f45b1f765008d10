//! A lens says where in a document a line lives: how it is read, and how it is put back.
//!
//! The stages of a verb know the fields of a line and nothing of the document around it. A line that lives at the
//! root of a document of our own needs no way in or out; a line that lives elsewhere is taken out into a field of its
//! own first, and put back last.

use mongodb::bson::Document;

/// Where a line lives.
#[derive(Clone, Debug)]
pub(crate) struct Lens {
    /// What stands before the names of the line's fields.
    prefix: String,
    /// The stages that take the line out.
    pub(crate) out: Vec<Document>,
    /// The stages that put it back.
    pub(crate) back: Vec<Document>,
}

impl Lens {
    /// The fields of the line are those of the document.
    pub(crate) fn root() -> Self {
        Self { prefix: String::new(), out: Vec::new(), back: Vec::new() }
    }

    /// The name of a field of the line, for a stage that sets it.
    pub(crate) fn name(&self, field: &str) -> String {
        [&self.prefix, field].concat()
    }

    /// The value of a field of the line, for an expression.
    pub(crate) fn value(&self, field: &str) -> String {
        ["$", &self.prefix, field].concat()
    }
}
