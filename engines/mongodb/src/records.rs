//! Commands about records as a whole: reading one line, listing all keys, and the index that reaps
//! idle records.

use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, bson, doc, rawdoc};
use tenure_core::Result;

use crate::call::{Calls, Update};
use crate::facts::Topology;
use crate::line::raw;
use crate::trouble;

/// Keys in one part of a listing.
const BATCH: i32 = 1000;

impl Calls {
    /// A step that only removes tickets whose life has ended, and serves the next ones.
    ///
    /// A former primary of a set that does not know yet that it is one must not answer. Only a
    /// write detects that at once: a linearizable read waits for the next flush of the journal, 100
    /// ms by default.
    pub(crate) async fn look(
        &self,
        update: &Update<'_>,
        topology: Topology,
    ) -> Result<Option<Document>> {
        if topology != Topology::Alone {
            return self.update(update).await;
        }
        let mut pipeline = RawArrayBuf::new();
        pipeline.push(rawdoc! { "$match": update.query() });
        for stage in update.pipeline() {
            pipeline.push(stage.clone());
        }
        pipeline.push(rawdoc! { "$project": update.fields.clone() });
        let command = rawdoc! {
            "aggregate": self.collection.as_str(),
            "pipeline": pipeline,
            "cursor": {},
            "maxTimeMS": self.server_ms(),
        };
        let answer = self.ask(&self.database, command).await?;
        let (mut batch, _) = self.batch(answer, "firstBatch")?;
        Ok(batch.pop())
    }

    /// Returns the keys with this prefix in whose lines tickets stand.
    pub(crate) async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let command = rawdoc! {
            "find": self.collection.as_str(),
            "filter": matching(prefix),
            "projection": { "_id": 0, "key": 1 },
            "batchSize": BATCH,
            "readConcern": { "level": "majority" },
            "maxTimeMS": self.server_ms(),
        };
        let records = self.list(command).await?;
        let key = |record: &Document| record.get_str("key").ok().map(str::to_owned);
        Ok(records.iter().filter_map(key).collect())
    }

    /// Reads these fields of some records, as a majority has them, with all that happened before
    /// this call.
    pub(crate) async fn read(&self, some: &Document, fields: &[&str]) -> Result<Vec<Document>> {
        let hello = self.ask(&self.database, rawdoc! { "hello": 1 }).await?;
        let mut concern = doc! { "level": "majority" };
        if let Some(time) = hello.get("operationTime") {
            concern.insert("afterClusterTime", time.clone());
        }
        let projection: Document =
            fields.iter().map(|field| ((*field).to_owned(), Bson::Int32(1))).collect();
        let raw = |part: &Document| RawDocumentBuf::try_from(part).expect("it is a document");
        let command = rawdoc! {
            "find": self.collection.as_str(),
            "filter": raw(some),
            "projection": raw(&projection),
            "batchSize": BATCH,
            "readConcern": raw(&concern),
            "maxTimeMS": self.server_ms(),
        };
        self.list(command).await
    }

    /// Returns the ids of some records, as the primary has them now: a hint, which a fail-over may
    /// undo.
    pub(crate) async fn ids(&self, some: &Document) -> Result<Vec<Bson>> {
        let command = rawdoc! {
            "find": self.collection.as_str(),
            "filter": raw(some),
            "projection": { "_id": 1 },
            "batchSize": BATCH,
            "readConcern": { "level": "local" },
            "maxTimeMS": self.server_ms(),
        };
        let found = self.list(command).await?;
        Ok(found.into_iter().filter_map(|mut record| record.remove("_id")).collect())
    }

    /// Returns all documents that a command finds, part by part.
    async fn list(&self, command: RawDocumentBuf) -> Result<Vec<Document>> {
        let (mut found, mut part) = (Vec::new(), "firstBatch");
        let mut answer = self.ask(&self.database, command).await?;
        loop {
            let (batch, cursor) = self.batch(answer, part)?;
            found.extend(batch);
            if cursor == 0 {
                return Ok(found);
            }
            let more = rawdoc! { "getMore": cursor, "collection": self.collection.as_str(), "batchSize": BATCH };
            answer = self.ask(&self.database, more).await?;
            part = "nextBatch";
        }
    }

    /// Has the servers delete idle records some time after they became idle. The index also finds
    /// records that are not idle.
    pub(crate) async fn reap(&self) -> Result<()> {
        let command = rawdoc! {
            "createIndexes": self.collection.as_str(),
            "indexes": [{ "key": { "reap": 1 }, "name": "reap", "expireAfterSeconds": 0 }],
        };
        self.ask(&self.database, command).await.map(drop)
    }

    fn batch(&self, mut answer: Document, part: &str) -> Result<(Vec<Document>, i64)> {
        let strange = || trouble::strange(&self.name);
        let Some(Bson::Document(mut cursor)) = answer.remove("cursor") else {
            return Err(strange());
        };
        let id = cursor.get_i64("id").map_err(|_| strange())?;
        let Some(Bson::Array(batch)) = cursor.remove(part) else { return Err(strange()) };
        let batch = batch.into_iter().filter_map(|record| match record {
            Bson::Document(record) => Some(record),
            _ => None,
        });
        Ok((batch.collect(), id))
    }
}

/// Returns the filter for lines that are marked for the index and in which a ticket lives. The
/// prefix is text, and no pattern.
fn matching(prefix: &str) -> RawDocumentBuf {
    let now = bson!({ "$max": ["$at", { "$toLong": "$$NOW" }] });
    let lives = |array: &str| bson!({ "$gt": [{ "$max": format!("${array}.ends") }, now.clone()] });
    let has_tickets = bson!({ "$or": [lives("held"), lives("waiting")] });
    let mut filter = doc! { "reap": true, "$expr": has_tickets };
    if !prefix.is_empty() {
        let mut key = doc! { "$gte": prefix };
        if let Some(end) = after(prefix) {
            key.insert("$lt", end);
        }
        filter.insert("key", key);
    }
    raw(&filter)
}

/// Returns the first text after all that begin with this one, or `None` if there is none. Texts are
/// in the order of their bytes, which is that of their letters.
fn after(prefix: &str) -> Option<String> {
    let mut letters: Vec<char> = prefix.chars().collect();
    while let Some(letter) = letters.pop() {
        if let Some(next) = next_letter(letter) {
            letters.push(next);
            return Some(letters.into_iter().collect());
        }
    }
    None
}

fn next_letter(letter: char) -> Option<char> {
    let mut code = u32::from(letter) + 1;
    // No letters lie between these.
    if code == 0xd800 {
        code = 0xe000;
    }
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_begins_with_a_prefix_is_before_what_comes_after_it() {
        for (prefix, end) in [
            ("a", Some("b")),
            ("a\u{d7ff}", Some("a\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
        ] {
            assert_eq!(after(prefix).as_deref(), end);
        }
    }
}
