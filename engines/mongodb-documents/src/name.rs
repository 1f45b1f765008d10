//! The name of a document or of a part of one, as the key of a lock: `42`, or
//! `42 lines.$[sku = 42]`.

use mongodb::bson::{Bson, Document, bson, doc};
use tenure_core::{Error, KEY_BYTES_MAX, Key, Result};

use crate::path::Path;
use crate::text::{self, TextReader};

/// The name of a locked document, or of a part of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) id: Bson,
    /// Fields of the shard key, where the collection has one.
    pub(crate) route: Document,
    pub(crate) path: Path,
}

impl Named {
    /// The whole document with this `_id`.
    pub(crate) fn whole(id: Bson) -> Self {
        Self { id, route: Document::new(), path: Path::default() }
    }

    /// The same with the fields of the shard key, as the document has them.
    pub(crate) fn routed(self, mut route: Document) -> Result<Self> {
        if let Some(id) = route.remove("_id")
            && text::comparable(&id) != text::comparable(&self.id)
        {
            return Err(Error::invalid(format!(
                "the shard key has the _id {id}, and the document that is to be locked has {}",
                self.id
            )));
        }
        let is_odd =
            |name: &String| name.is_empty() || name.starts_with('$') || name.contains('\0');
        if let Some(name) = route.keys().find(|name| is_odd(name)) {
            return Err(Error::invalid(format!(
                "`{name}` is no field of a shard key: name its fields, each with the value that the document has"
            )));
        }
        Ok(Self { route, ..self })
    }

    /// Returns the names around it, from the whole document to the innermost part.
    pub(crate) fn around(&self) -> Vec<Self> {
        if self.path.is_whole() {
            return Vec::new();
        }
        let paths = [Path::default()].into_iter().chain(self.path.around());
        paths.map(|path| Self { path, ..self.clone() }).collect()
    }

    /// Returns the key of its lock.
    pub(crate) fn key(&self) -> Result<Key> {
        let unnamed = || {
            Error::invalid(format!(
                "a document with the _id {} cannot be locked: its _id is no number, text, ObjectId, date, timestamp, bytes, boolean, null or document of these",
                self.id
            ))
        };
        if matches!(self.id, Bson::Array(_)) {
            return Err(unnamed());
        }
        let mut key = text::write(&self.id).ok_or_else(unnamed)?;
        if !self.route.is_empty() {
            let route = text::write(&Bson::Document(self.route.clone())).ok_or_else(unnamed)?;
            key.push_str(" @ ");
            key.push_str(&route);
        }
        if !self.path.is_whole() {
            key.push(' ');
            key.push_str(&self.path.to_string());
        }
        Key::new(&key).map_err(|_| {
            Error::invalid(format!(
                "a document with so long an _id, shard key and path cannot be locked: together they have {} bytes, and at most {KEY_BYTES_MAX} are allowed",
                key.len()
            ))
        })
    }

    /// Returns the document or part that has this key.
    pub(crate) fn of(key: &Key) -> Result<Self> {
        Self::read(key.as_str()).ok_or_else(|| {
            Error::invalid(format!("{key:?} names no document: make locks by DocumentLocks"))
        })
    }

    fn read(key: &str) -> Option<Self> {
        let mut reader = TextReader { rest: key };
        let id = reader.value()?;
        let route = match reader.take("@") {
            Some(()) => reader.value()?.as_document()?.clone(),
            None => Document::new(),
        };
        let path = match reader.rest {
            "" => Path::default(),
            rest => rest.strip_prefix(' ')?.parse().ok()?,
        };
        Some(Self { id, route, path })
    }

    /// Returns the filter that finds the document.
    pub(crate) fn filter(&self) -> Document {
        let mut filter = doc! { "_id": { "$eq": self.id.clone() } };
        filter.extend(
            self.route.iter().map(|(name, value)| (name.clone(), bson!({ "$eq": value.clone() }))),
        );
        filter
    }

    /// Returns the document's name, as a change stream reports it.
    pub(crate) fn record(&self) -> String {
        text::comparable(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_from_its_key() {
        let path: Path = "lines.$[sku = \"a b\"]".parse().unwrap();
        for id in [bson!(42), bson!("a @ b c"), Bson::Null, bson!({ "a": 1, "b": "x" })] {
            for route in [doc! {}, doc! { "region": "eu" }] {
                for path in [Path::default(), path.clone()] {
                    let named = Named { id: id.clone(), route: route.clone(), path };
                    assert_eq!(Named::of(&named.key().unwrap()).unwrap(), named);
                }
            }
        }
    }

    #[test]
    fn a_shard_key_has_values_and_no_conditions() {
        let named =
            Named::whole(bson!(42)).routed(doc! { "_id": 42_i64, "a": { "$ne": 1 } }).unwrap();
        let wanted = doc! { "_id": { "$eq": 42 }, "a": { "$eq": { "$ne": 1 } } };
        assert_eq!(named.filter(), wanted);
    }

    #[test]
    fn what_cannot_be_named_is_refused() {
        let whole = |id: Bson| Named { id, route: doc! {}, path: Path::default() };
        for id in [Bson::MaxKey, bson!([1]), bson!("x".repeat(2000)), bson!({ "a": Bson::MinKey })]
        {
            assert!(whole(id).key().is_err());
        }
        for route in [doc! { "$where": "true" }, doc! { "_id": 7 }, doc! { "": 1 }] {
            assert!(whole(bson!(42)).routed(route).is_err());
        }
        for key in ["x", "42 ..", "42 @ 1", "42x"] {
            assert!(Named::of(&Key::new(key).unwrap()).is_err(), "{key}");
        }
    }
}
