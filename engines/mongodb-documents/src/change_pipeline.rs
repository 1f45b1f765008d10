//! A change by a pipeline: the user's stages, adapted to the locked part.

use mongodb::bson::{Bson, Document, bson, doc};
use tenure_core::{Error, Result};
use tenure_mongodb::extension::scratch;

use crate::change::{ChangeTarget, first};
use crate::way::{self, with_part};

impl ChangeTarget<'_> {
    /// Returns the user's stages, after which the lock's field is what it was before.
    pub(crate) fn pipeline(&self, stages: &[Document]) -> Result<Vec<Document>> {
        let stages = stages.iter().map(|stage| self.stage(stage)).collect::<Result<_>>()?;
        Ok(self.around(stages))
    }

    fn stage(&self, stage: &Document) -> Result<Document> {
        let odd = || Error::invalid("a stage of an update pipeline has one name and what it does");
        let (name, what) = stage.iter().next().filter(|_| stage.len() == 1).ok_or_else(odd)?;
        let kept = self.kept();
        let merged = |what: &Bson| doc! { "$replaceWith": { "$mergeObjects": [self.without_lock(what), kept.clone()] } };
        Ok(match (name.as_str(), what) {
            ("$set" | "$addFields", Bson::Document(fields)) => {
                fields.iter().try_for_each(|(name, value)| self.may_set(name, value))?;
                doc! { name: self.without_lock(what) }
            }
            ("$unset", Bson::String(name)) => {
                self.may_change(name)?;
                stage.clone()
            }
            ("$unset", Bson::Array(names)) => {
                names.iter().filter_map(Bson::as_str).try_for_each(|name| self.may_change(name))?;
                stage.clone()
            }
            ("$replaceWith", what) => merged(what),
            ("$replaceRoot", Bson::Document(what)) => merged(what.get("newRoot").ok_or_else(odd)?),
            ("$project", Bson::Document(fields)) => {
                doc! { "$project": self.without_lock(&self.projected(fields)?.into()) }
            }
            _ => {
                return Err(Error::invalid(format!(
                    "`{name}` is no stage of an update pipeline: there are $set, $addFields, $unset, $project, $replaceRoot and $replaceWith"
                )));
            }
        })
    }

    /// Returns the stages, adapted to the part, and then the mark that they were carried out.
    pub(crate) fn around(&self, stages: Vec<Document>) -> Vec<Document> {
        let mut all = Vec::new();
        let work = scratch(self.field);
        if !self.path.is_whole() {
            let mut saved = Document::new();
            saved.insert(&work, doc! { "root": "$$ROOT" });
            let part = way::part(self.path);
            all.push(doc! { "$replaceWith": { "$mergeObjects": [part, saved] } });
        }
        all.extend(stages);
        all.push(self.mark());
        if !self.path.is_whole() {
            let is_own = bson!({ "$ne": ["$$this.k", { "$literal": &work }] });
            let part = bson!({ "$arrayToObject": { "$filter": {
                "input": { "$objectToArray": "$$ROOT" }, "as": "this", "cond": is_own,
            } } });
            let root = format!("${work}.root");
            all.push(doc! { "$replaceWith": with_part(&root, self.path, &part) });
        }
        all
    }

    /// The holder's seat counts its writes: so a write that is sent again is not made twice.
    fn mark(&self) -> Document {
        let held = format!("{}.held", self.field);
        let is_it = bson!({ "$eq": ["$$this.id", self.ticket] });
        let marked = bson!({ "$mergeObjects": ["$$this", { "w": self.write }] });
        let held_now = bson!({ "$map": {
            "input": format!("${held}"), "as": "this", "in": { "$cond": [is_it, marked, "$$this"] },
        } });
        let mut set = Document::new();
        set.insert(held, held_now);
        doc! { "$set": set }
    }

    /// Returns a projection that keeps the lock and the fields by which the part is found.
    fn projected(&self, fields: &Document) -> Result<Document> {
        for (name, value) in fields {
            self.may_change(name).or_else(|error| {
                let is_kept =
                    !is_nothing(value) && !matches!(value, Bson::String(_) | Bson::Document(_));
                if is_kept && first(name) != self.field { Ok(()) } else { Err(error) }
            })?;
        }
        let mut fields = fields.clone();
        if !leaves_out(&fields) {
            for name in self.kept().keys() {
                if name == "_id" || !fields.keys().any(|other| first(other) == name) {
                    fields.insert(name, 1);
                }
            }
        }
        Ok(fields)
    }

    /// Returns an expression of the user's that does not see the lock where it names the whole
    /// document.
    fn without_lock(&self, expression: &Bson) -> Bson {
        match expression {
            Bson::String(name) if name == "$$ROOT" || name == "$$CURRENT" => {
                let own = bson!([{ "$literal": self.field }, { "$literal": scratch(self.field) }]);
                bson!({ "$arrayToObject": { "$filter": {
                    "input": { "$objectToArray": "$$ROOT" },
                    "as": "tenure",
                    "cond": { "$not": [{ "$in": ["$$tenure.k", own] }] },
                } } })
            }
            Bson::Document(document) if !document.contains_key("$literal") => {
                let each =
                    |(name, value): (&String, &Bson)| (name.clone(), self.without_lock(value));
                Bson::Document(document.iter().map(each).collect())
            }
            Bson::Array(array) => array.iter().map(|value| self.without_lock(value)).collect(),
            other => other.clone(),
        }
    }
}

/// Returns whether a projection names the fields to remove, and not those to keep.
fn leaves_out(fields: &Document) -> bool {
    let is_id = |name: &str| name == "_id";
    let is_out = |value: &Bson| match value {
        Bson::Document(inner) if !inner.keys().any(|name| name.starts_with('$')) => {
            leaves_out(inner)
        }
        value => is_nothing(value),
    };
    let only_id = fields.iter().all(|(name, value)| is_id(name) && is_nothing(value));
    only_id || fields.iter().any(|(name, value)| !is_id(name) && is_out(value))
}

fn is_nothing(value: &Bson) -> bool {
    match value {
        Bson::Int32(0) | Bson::Int64(0) | Bson::Boolean(false) => true,
        Bson::Double(number) => *number == 0.0,
        _ => false,
    }
}
