//! A queue's filter: the fields that it names, so that only their changes wake a worker, and the
//! operators that a queue refuses.

use std::hash::{DefaultHasher, Hash, Hasher};

use mongodb::bson::{Bson, Document, bson};
use tenure_core::{Error, Result};

/// Operators that an aggregation refuses. A queue asks by an aggregation how long it has to wait.
const REFUSED: [&str; 3] = ["$where", "$near", "$nearSphere"];

/// Longest regular expression for the fields of a filter, in bytes. The server takes twice that.
const PATTERN_BYTES_MAX: usize = 16_000;

/// The fields that a filter names.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) enum FilterFields {
    /// A part of it is not parsed here, such as `$expr`: a change of any field may make a document
    /// match.
    Any,
    /// These, by names with dots.
    Named(Vec<String>),
}

impl FilterFields {
    pub(crate) fn of(filter: &Document) -> Self {
        let mut names = Vec::new();
        match collect(filter, &mut names) {
            Some(()) => Self::Named(names),
            None => Self::Any,
        }
    }

    /// Returns a name for this set of fields. Two sets in one process have the same name only if
    /// they are equal.
    pub(crate) fn name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        format!("queue-{:x}", hasher.finish())
    }

    /// Returns an expression: whether a change of the field of this name may make a document match.
    /// It may be a field that the filter names, one around it, or one inside it.
    pub(crate) fn have(&self, name: &str) -> Bson {
        match self {
            Self::Any => true.into(),
            Self::Named(names) if names.is_empty() => false.into(),
            Self::Named(names) => {
                let names: Vec<String> = names.iter().map(|name| pattern(name)).collect();
                let regex = format!("^(?:{})", names.join("|"));
                match regex.len() {
                    0..=PATTERN_BYTES_MAX => {
                        bson!({ "$regexMatch": { "input": name, "regex": regex } })
                    }
                    _ => true.into(),
                }
            }
        }
    }
}

/// Refuses operators that only a `find` supports.
pub(crate) fn check(filter: &Document) -> Result<()> {
    match refused(filter) {
        None => Ok(()),
        Some(operator) => Err(Error::invalid(format!(
            "a queue cannot ask for `{operator}`: its filter takes what `$match` takes, which is all but $where, $near and $nearSphere"
        ))),
    }
}

fn refused(filter: &Document) -> Option<&str> {
    filter.iter().find_map(|(name, value)| match (name.as_str(), value) {
        (name, _) if REFUSED.contains(&name) => Some(name),
        ("$and" | "$or" | "$nor", Bson::Array(all)) => {
            all.iter().filter_map(Bson::as_document).find_map(refused)
        }
        ("$elemMatch" | "$not", Bson::Document(inner)) => refused(inner),
        (name, Bson::Document(operators)) if !name.starts_with('$') && has_operators(operators) => {
            refused(operators)
        }
        _ => None,
    })
}

fn has_operators(value: &Document) -> bool {
    value.keys().next().is_some_and(|name| name.starts_with('$'))
}

/// Collects the names. Returns `None` if the filter has more than names.
fn collect(filter: &Document, names: &mut Vec<String>) -> Option<()> {
    for (name, value) in filter {
        match (name.as_str(), value) {
            ("$and" | "$or" | "$nor", Bson::Array(all)) => {
                all.iter().try_for_each(|one| collect(one.as_document()?, names))?;
            }
            ("$comment", _) => {}
            (name, _) if name.starts_with('$') => return None,
            (name, _) => names.push(name.to_owned()),
        }
    }
    Some(())
}

/// Returns a regular expression for the names of a field, of those around it, and of those inside
/// it. A change stream has the positions of elements in its names, and a filter may leave them out,
/// so they are optional.
fn pattern(name: &str) -> String {
    let is_place = |step: &&str| step.bytes().all(|byte| byte.is_ascii_digit());
    let steps = name.split('.').filter(|step| !is_place(step)).map(escaped);
    let inside = steps.rev().fold(String::new(), |inside, step| match inside.as_str() {
        "" => format!(r"{step}(?:$|\.)"),
        inside => format!(r"{step}(?:\.\d+)*(?:$|\.{inside})"),
    });
    // A name that is only numbers matches any field.
    inside
}

fn escaped(step: &str) -> String {
    step.chars().fold(String::new(), |mut text, letter| {
        if letter.is_ascii() && !letter.is_ascii_alphanumeric() {
            text.push('\\');
        }
        text.push(letter);
        text
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn a_filter_names_its_fields_at_any_depth_of_and_or_nor() {
        let fields = |filter: Document| FilterFields::of(&filter);
        let names = |names: &[&str]| {
            FilterFields::Named(names.iter().map(|&name| name.to_owned()).collect())
        };
        assert_eq!(fields(doc! {}), names(&[]));
        let nested = doc! { "a": 1, "$and": [{ "b.c": { "$gt": 1 } }, { "$or": [{ "d": 1 }, { "$nor": [{ "e": 1 }] }] }] };
        assert_eq!(fields(nested), names(&["a", "b.c", "d", "e"]));
        for any in [doc! { "$expr": true }, doc! { "$or": [{ "a": 1 }, { "$text": {} }] }] {
            assert_eq!(fields(any), FilterFields::Any);
        }
    }

    #[test]
    fn places_of_elements_count_for_nothing_and_letters_stand_for_themselves() {
        assert_eq!(pattern("a"), r"a(?:$|\.)");
        assert_eq!(pattern("a.3.b"), r"a(?:\.\d+)*(?:$|\.b(?:$|\.))");
        assert_eq!(pattern("a-b"), r"a\-b(?:$|\.)");
    }

    #[test]
    fn what_only_a_find_can_answer_is_refused_and_values_are_not() {
        for refused in [
            doc! { "$where": "true" },
            doc! { "$nor": [{ "a": { "$near": [1, 2] } }] },
            doc! { "a": { "$elemMatch": { "b": { "$nearSphere": [1, 2] } } } },
        ] {
            assert!(check(&refused).is_err(), "{refused}");
        }
        for allowed in [
            doc! { "a": { "$eq": { "$where": 1 } } },
            doc! { "a": { "b": { "$near": 1 } } },
            doc! { "$expr": { "$eq": ["$a", { "$literal": { "$near": 1 } }] } },
        ] {
            assert!(check(&allowed).is_ok(), "{allowed}");
        }
    }
}
