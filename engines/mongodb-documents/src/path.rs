//! A path to a part of a document: through fields, and through array elements that filters find.

use std::fmt;
use std::str::FromStr;

use mongodb::bson::{Bson, Document};
use tenure_core::{Error, Result};

use crate::text::{self, TextReader};

/// Maximum fields and filters in a path.
const STEPS_MAX: usize = 16;

/// Where in a document a part is: `address`, `lines.$[sku = 42]`,
/// `lines.$[sku = 42].parts.$[no = 7]`.
///
/// A part is a document: one in a field, or an element of an array. An element is found by the
/// values of its fields, wherever in the array it stands.
///
/// ```
/// use tenure_mongodb_documents::Path;
///
/// let path = Path::field("lines").element("sku", 42).then("parts").element("no", 7);
/// assert_eq!(path.to_string(), "lines.$[sku = 42].parts.$[no = 7]");
/// assert_eq!(path, "lines.$[sku = 42].parts.$[ no=7 ]".parse()?);
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Path(Vec<PathStep>);

/// One step into a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PathStep {
    Field(String),
    /// The array element whose fields have these values.
    Element(Document),
}

impl Path {
    /// Returns the path to the document in this field.
    pub fn field(name: impl Into<String>) -> Self {
        Self(Vec::new()).then(name)
    }

    /// Returns the path to the document in this field of the part. A dot leads on to the next
    /// field.
    pub fn then(mut self, name: impl Into<String>) -> Self {
        self.0.extend(name.into().split('.').map(|name| PathStep::Field(name.to_owned())));
        self
    }

    /// Returns the path to the array element in which this field has this value.
    pub fn element(self, field: impl Into<String>, value: impl Into<Bson>) -> Self {
        self.element_where(Document::from_iter([(field.into(), value.into())]))
    }

    /// Returns the path to the array element whose fields have these values.
    pub fn element_where(mut self, fields: Document) -> Self {
        self.0.push(PathStep::Element(fields));
        self
    }

    /// Returns whether the path is empty: it leads to the whole document.
    pub fn is_whole(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn steps(&self) -> &[PathStep] {
        &self.0
    }

    /// Returns the names of its fields, each followed by a dot.
    pub(crate) fn names(&self) -> String {
        let name = |step: &PathStep| match step {
            PathStep::Field(name) => format!("{name}."),
            PathStep::Element(_) => String::new(),
        };
        self.0.iter().map(name).collect()
    }

    /// Returns the parts around this part, from the outermost, without the whole document and
    /// itself.
    pub(crate) fn around(&self) -> impl Iterator<Item = Self> {
        let is_part = |end: &usize| !matches!(self.0.get(*end), Some(PathStep::Element(_)));
        let ends = (1..self.0.len()).filter(is_part);
        ends.map(|end| Self(self.0[..end].to_vec())).collect::<Vec<_>>().into_iter()
    }

    /// Returns whether the part of another path lies in this one, or in the whole document.
    pub(crate) fn is_around(&self, other: &Self) -> bool {
        self.0.len() < other.0.len() && other.0.starts_with(&self.0)
    }

    /// Refuses a path that leads to no part, or into the field that has the locks.
    pub(crate) fn check(&self, field: &str) -> Result<()> {
        let refused =
            |why: String| Err(Error::invalid(format!("the path `{self}` leads nowhere: {why}")));
        let is_name = |name: &str| !name.is_empty() && !name.contains(['$', '\0', '~']);
        let mut before: Option<&PathStep> = None;
        if self.0.len() > STEPS_MAX {
            return refused(format!("it has more than {STEPS_MAX} steps"));
        }
        for step in &self.0 {
            match step {
                PathStep::Field(name) if !is_name(name) || name.contains(['[', ']', ' ', '=']) => {
                    return refused(format!("`{name}` is no name of a field that a path can have"));
                }
                PathStep::Field(name) if name == field => {
                    return refused(format!("`{field}` has the locks themselves"));
                }
                PathStep::Element(fields) if fields.is_empty() => {
                    return refused("a filter names no field".to_owned());
                }
                PathStep::Element(_) if !matches!(before, Some(PathStep::Field(_))) => {
                    return refused("a filter stands behind the name of an array".to_owned());
                }
                PathStep::Element(fields) => {
                    // The text of a path must parse to the same path.
                    let is_said = |name: &str| name.trim() == name && !name.contains('=');
                    for (name, value) in fields {
                        if !name.split('.').all(is_name) || !is_said(name) {
                            return refused(format!(
                                "`{name}` is no name of a field that a filter can have"
                            ));
                        }
                        if text::write(value).is_none() {
                            return refused(format!(
                                "a filter cannot compare `{name}` with {value}"
                            ));
                        }
                    }
                }
                PathStep::Field(_) => {}
            }
            before = Some(step);
        }
        Ok(())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            f.write_str(if at > 0 { "." } else { "" })?;
            match step {
                PathStep::Field(name) => f.write_str(name)?,
                PathStep::Element(fields) => {
                    f.write_str("$[")?;
                    for (at, (name, value)) in fields.iter().enumerate() {
                        f.write_str(if at > 0 { ", " } else { "" })?;
                        write!(f, "{name} = {}", text::write(value).unwrap_or_default())?;
                    }
                    f.write_str("]")?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for Path {
    type Err = Error;

    fn from_str(path: &str) -> Result<Self> {
        let mut reader = TextReader { rest: path };
        let steps = steps(&mut reader).filter(|_| reader.rest.trim().is_empty());
        let steps = steps.ok_or_else(|| {
            Error::invalid(format!(
                "`{path}` is no path: write it like lines.$[sku = 42].parts.$[no = 7], with texts in quotes"
            ))
        })?;
        Ok(Self(steps))
    }
}

fn steps(reader: &mut TextReader<'_>) -> Option<Vec<PathStep>> {
    let mut steps = Vec::new();
    if reader.rest.is_empty() {
        return Some(steps);
    }
    loop {
        steps.push(step(reader)?);
        if reader.take(".").is_none() {
            return Some(steps);
        }
    }
}

fn step(reader: &mut TextReader<'_>) -> Option<PathStep> {
    if reader.take("$[").is_none() {
        let end = reader.rest.find('.').unwrap_or(reader.rest.len());
        let (name, rest) = reader.rest.split_at(end);
        reader.rest = rest;
        return (!name.is_empty()).then(|| PathStep::Field(name.to_owned()));
    }
    let mut fields = Document::new();
    while reader.take("]").is_none() {
        if !fields.is_empty() {
            reader.take(",")?;
        }
        let (name, rest) = reader.rest.split_once('=')?;
        reader.rest = rest;
        fields.insert(name.trim(), reader.value()?);
    }
    Some(PathStep::Element(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_as_it_is_written() {
        for path in [
            "",
            "address",
            "address.city",
            "lines.$[sku = 42]",
            "lines.$[sku = \"a.b]\", size = null].parts.$[a.b = 7L]",
        ] {
            let read: Path = path.parse().unwrap();
            assert_eq!(read.to_string(), path);
            read.check("_tenure").unwrap();
        }
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        for path in [".", "a.", "a..b", "a.$[", "a.$[b]", "a.$[b = ]", "a.$[b = 1", "a.$[b = 1]c"] {
            assert!(path.parse::<Path>().is_err(), "{path}");
        }
        for name in [" b", "b ", "b=c", "", "b.", "$b"] {
            assert!(Path::field("a").element(name, 1).check("_tenure").is_err(), "{name}");
        }
        for path in ["$[a = 1]", "a.$[]", "a.$[b = 1].$[c = 2]", "a.$b", "a._tenure", "a.$[$b = 1]"]
        {
            assert!(
                path.parse::<Path>().is_ok_and(|path| path.check("_tenure").is_err()),
                "{path}"
            );
        }
    }

    #[test]
    fn a_part_lies_in_those_around_it() {
        let path: Path = "lines.$[sku = 42].parts.$[no = 7].box".parse().unwrap();
        let around: Vec<String> = path.around().map(|path| path.to_string()).collect();
        assert_eq!(around, ["lines.$[sku = 42]", "lines.$[sku = 42].parts.$[no = 7]"]);
        assert_eq!(Path::field("a").then("b").around().next(), Some(Path::field("a")));
    }
}
