//! A change that a holder asks for: it is adapted to the locked part, and never touches the lock's
//! own field.

use mongodb::bson::{Bson, Document, bson, doc};
use mongodb::options::UpdateModifications;
use tenure_core::{Error, Result};
use tenure_mongodb::extension::scratch;

use crate::path::{Path, PathStep};
use crate::request::Update;
use crate::text;

/// A change as it is sent to the server.
pub(crate) struct DocumentChange {
    pub(crate) update: Bson,
    /// The array filters.
    pub(crate) elements: Vec<Document>,
}

/// The part that is changed, and the number of this write among those of its holder.
pub(crate) struct ChangeTarget<'a> {
    pub(crate) field: &'a str,
    pub(crate) path: &'a Path,
    pub(crate) ticket: &'a str,
    pub(crate) write: i64,
}

impl ChangeTarget<'_> {
    /// Returns the change, with the mark that it was made.
    pub(crate) fn change(&self, update: Update) -> Result<DocumentChange> {
        let filters = update.array_filters;
        match update.by {
            UpdateModifications::Document(operators) => self.operators(&operators, filters),
            UpdateModifications::Pipeline(_) if !filters.is_empty() => {
                Err(Error::invalid("a pipeline takes no array filters: say them in its stages"))
            }
            UpdateModifications::Pipeline(stages) => {
                Ok(DocumentChange { update: self.pipeline(&stages)?.into(), elements: Vec::new() })
            }
            _ => Err(Error::invalid("an update is a document of operators, or a pipeline")),
        }
    }

    /// Returns the stages after which the document or the part is this one.
    pub(crate) fn replacement(&self, document: &Document) -> Result<Vec<Document>> {
        let mut new = document.clone();
        new.remove(self.field);
        let mut kept = self.kept();
        // The server refuses another `_id`.
        kept.remove("_id");
        for (name, value) in self.finds_by() {
            match at(&new, name) {
                Some(it) if is_same(it, value) => drop(kept.remove(first(name))),
                None if !new.contains_key(first(name)) => {}
                _ => return Err(self.is_found_by(name)),
            }
        }
        let id = if self.path.is_whole() {
            doc! { "_id": "$_id" }
        } else {
            doc! {}
        };
        let new = doc! { "$replaceWith": { "$mergeObjects": [id, { "$literal": new }, kept] } };
        Ok(self.around(vec![new]))
    }

    fn operators(&self, update: &Document, filters: Vec<Document>) -> Result<DocumentChange> {
        let mut operators = Document::new();
        let (before, mut elements) = self.place();
        filters.iter().try_for_each(is_of_the_user)?;
        elements.extend(filters);
        for (operator, fields) in update {
            let fields = fields.as_document().filter(|_| operator.starts_with('$'));
            let fields = fields.ok_or_else(|| {
                Error::invalid(format!(
                    "`{operator}` is no operator of an update: to put another document in its place, say `replace`"
                ))
            })?;
            let mut moved = Document::new();
            for (name, value) in fields {
                if operator == "$set" {
                    self.may_set(name, value)?;
                } else {
                    self.may_change(name)?;
                }
                let value = match value {
                    Bson::String(to) if operator == "$rename" => {
                        self.may_change(to)?;
                        Bson::String(format!("{before}{to}"))
                    }
                    value => value.clone(),
                };
                moved.insert(format!("{before}{name}"), value);
            }
            operators.insert(operator, moved);
        }
        let mark = format!("{before}{}.held.$[tenure].w", self.field);
        match operators.get_document_mut("$set") {
            Ok(set) => drop(set.insert(mark, self.write)),
            Err(_) => drop(operators.insert("$set", doc! { mark: self.write })),
        }
        Ok(DocumentChange { update: Bson::Document(operators), elements })
    }

    /// Returns the change by operators with which the ticket leaves, if no other ticket stands in
    /// the line of the whole document.
    pub(crate) fn leave_alone(
        &self,
        operators: &Document,
        filters: &[Document],
    ) -> Result<DocumentChange> {
        let changed = self.operators(operators, filters.to_vec())?;
        let DocumentChange { update: Bson::Document(mut update), .. } = changed else {
            return Err(Error::invalid("an update is a document of operators"));
        };
        let of = |name: &str| format!("{}.{name}", self.field);
        if let Ok(set) = update.get_document_mut("$set") {
            set.remove(of("held.$[tenure].w"));
            set.extend(
                doc! { of("held"): [], of("notices"): "", of("did"): [2_i64], of("by"): self.ticket },
            );
        }
        match update.get_document_mut("$inc") {
            Ok(inc) => drop(inc.insert(of("step"), 1_i64)),
            Err(_) => drop(update.insert("$inc", doc! { of("step"): 1_i64 })),
        }
        // The seat is gone with this, so that no filter has to find it.
        Ok(DocumentChange { update: update.into(), elements: filters.to_vec() })
    }

    /// Returns the stages that put the document off: no queue claims it for `millis` milliseconds.
    /// They do not count as a change of the user's.
    pub(crate) fn put_off(&self, millis: i64, name: &str) -> Vec<Document> {
        let mut set = Document::new();
        let then = bson!({ "$add": [{ "$toLong": "$$NOW" }, millis] });
        set.insert(format!("{}.{name}", self.field), then);
        vec![doc! { "$set": set }]
    }

    /// Returns the prefix of the names of the part's fields, and the filters of the array elements
    /// that lead there. The path names those elements, and this ticket stands in the part.
    fn place(&self) -> (String, Vec<Document>) {
        let (mut before, mut elements) = (String::new(), vec![doc! { "tenure.id": self.ticket }]);
        let steps = self.path.steps();
        for (at, step) in steps.iter().enumerate() {
            match step {
                PathStep::Field(name) => before.push_str(name),
                PathStep::Element(fields) => {
                    let element = format!("tenure{at}");
                    before.extend(["$[", &element, "]"]);
                    let mut which: Document = fields
                        .iter()
                        .map(|(name, value)| (format!("{element}.{name}"), is_exactly(value)))
                        .collect();
                    let rest = steps[at + 1..].iter().filter_map(|step| match step {
                        PathStep::Field(name) => Some(format!(".{name}")),
                        PathStep::Element(_) => None,
                    });
                    let rest: String = rest.collect();
                    which.insert(format!("{element}{rest}.{}.held.id", self.field), self.ticket);
                    elements.push(which);
                }
            }
            before.push('.');
        }
        (before, elements)
    }

    /// The fields that stay when all else is replaced: the lock, and those by which the document or
    /// the part is found.
    pub(crate) fn kept(&self) -> Document {
        let mut names = vec![self.field.to_owned()];
        if self.path.is_whole() {
            names.push("_id".to_owned());
        } else {
            names.push(scratch(self.field));
        }
        names.extend(self.finds_by().map(|(name, _)| first(name).to_owned()));
        names.into_iter().map(|name| (name.clone(), Bson::String(format!("${name}")))).collect()
    }

    /// Returns the fields by which the path finds the part in its array.
    fn finds_by(&self) -> impl Iterator<Item = (&String, &Bson)> {
        let last = match self.path.steps().last() {
            Some(PathStep::Element(fields)) => Some(fields),
            _ => None,
        };
        last.into_iter().flatten()
    }

    /// As [`may_change`](Self::may_change), for a field that becomes this value.
    pub(crate) fn may_set(&self, name: &str, value: &Bson) -> Result<()> {
        let stays = |(other, it): (&String, &Bson)| other == name && is_same(it, value);
        if self.finds_by().any(stays) { Ok(()) } else { self.may_change(name) }
    }

    /// Refuses a change of the lock's field, of Tenure's fields beside it while a pipeline runs,
    /// and of the fields by which the path finds the part. After such a change the path would not
    /// find the part and its lock any more.
    pub(crate) fn may_change(&self, name: &str) -> Result<()> {
        let is_lock = name.split('.').any(|step| step == self.field);
        if is_lock || first(name) == scratch(self.field) {
            return Err(Error::invalid(format!(
                "`{name}` cannot be changed: the field `{}` has the lock itself",
                self.field
            )));
        }
        let meets = |other: &str| {
            let is_in = |one: &str, other: &str| {
                one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            is_in(name, other) || is_in(other, name)
        };
        match self.finds_by().find(|(other, _)| meets(other)) {
            Some((other, _)) => Err(self.is_found_by(other)),
            None => Ok(()),
        }
    }

    fn is_found_by(&self, name: &str) -> Error {
        Error::invalid(format!(
            "`{name}` cannot be changed under the lock of `{}`, because the path finds the part by it: lock the document or part around it, and update that",
            self.path
        ))
    }
}

/// Refuses an array filter whose name may be one of those that find the part and its holder.
fn is_of_the_user(filter: &Document) -> Result<()> {
    for (name, value) in filter {
        match value {
            Bson::Array(all) if name.starts_with('$') => {
                all.iter().filter_map(Bson::as_document).try_for_each(is_of_the_user)?;
            }
            _ if name.starts_with("tenure") => {
                return Err(Error::invalid(format!(
                    "`{name}` cannot be the name of an array filter: those that begin with `tenure` find the lock"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn first(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

/// Returns the value at a name with dots.
fn at<'a>(document: &'a Document, name: &str) -> Option<&'a Bson> {
    match name.split_once('.') {
        None => document.get(name),
        Some((first, rest)) => at(document.get_document(first).ok()?, rest),
    }
}

fn is_same(one: &Bson, other: &Bson) -> bool {
    text::comparable(one) == text::comparable(other)
}

/// Returns the condition that a field has this value, as an expression compares it: an array does
/// not have the value of its elements, and a missing field is not null.
fn is_exactly(value: &Bson) -> Bson {
    let mut exactly = doc! { "$eq": value.clone(), "$exists": true };
    if !matches!(value, Bson::Array(_)) {
        exactly.insert("$not", doc! { "$type": "array" });
    }
    exactly.into()
}
