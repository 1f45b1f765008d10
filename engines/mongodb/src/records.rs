//! Commands about records as a whole: reading one line, listing all keys, and the index that reaps
//! idle records.

use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, bson, doc, rawdoc};
use tenure_core::Result;

use crate::command::{CommandSender, RecordUpdate};
use crate::facts::Topology;
use crate::line::raw;

/// Keys in one part of a listing.
const BATCH: i32 = 1000;

impl CommandSender {
    /// A step that only removes tickets whose life has ended, and serves the next ones.
    ///
    /// A former primary of a set that does not know yet that it is one must not answer. Only a
    /// write detects that at once: a linearizable read waits for the next flush of the journal, 100
    /// ms by default.
    pub(crate) async fn look(
        &self,
        update: &RecordUpdate<'_>,
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
        Ok(self.aggregate(pipeline).await?.pop())
    }

    /// Returns the documents of a pipeline on the collection.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub async fn aggregate(&self, pipeline: RawArrayBuf) -> Result<Vec<Document>> {
        let command = rawdoc! {
            "aggregate": self.collection.as_str(),
            "pipeline": pipeline,
            "cursor": {},
            "maxTimeMS": self.server_ms(),
        };
        self.list(command).await
    }

    /// Returns the keys with this prefix in whose lines tickets stand.
    pub(crate) async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let majority = rawdoc! { "level": "majority" };
        let records =
            self.find(&matching(prefix), rawdoc! { "_id": 0, "key": 1 }, majority).await?;
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
        let fields: Document =
            fields.iter().map(|field| ((*field).to_owned(), Bson::Int32(1))).collect();
        self.find(some, raw(&fields), raw(&concern)).await
    }

    /// Returns the ids of some records, as the primary has them now: a hint, which a fail-over may
    /// undo.
    pub(crate) async fn ids(&self, some: &Document) -> Result<Vec<Bson>> {
        let found = self.find(some, rawdoc! { "_id": 1 }, rawdoc! { "level": "local" }).await?;
        Ok(found.into_iter().filter_map(|mut record| record.remove("_id")).collect())
    }

    async fn find(
        &self,
        some: &Document,
        fields: RawDocumentBuf,
        read_concern: RawDocumentBuf,
    ) -> Result<Vec<Document>> {
        let command = rawdoc! {
            "find": self.collection.as_str(),
            "filter": raw(some),
            "projection": fields,
            "batchSize": BATCH,
            "readConcern": read_concern,
            "maxTimeMS": self.server_ms(),
        };
        self.list(command).await
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
}

/// Returns the filter for lines that are marked for the index and in which a ticket lives. The
/// prefix is text, and no pattern.
fn matching(prefix: &str) -> Document {
    let now = bson!({ "$max": ["$at", { "$toLong": "$$NOW" }] });
    let lives = |ends: &str| bson!({ "$gt": [{ "$max": ends }, &now] });
    let has_tickets = bson!({ "$or": [lives("$held.ends"), lives("$waiting.ends")] });
    let mut filter = doc! { "reap": true, "$expr": has_tickets };
    if !prefix.is_empty() {
        let mut key = doc! { "$gte": prefix };
        if let Some(end) = after(prefix) {
            key.insert("$lt", end);
        }
        filter.insert("key", key);
    }
    filter
}

/// Returns the first text after all that begin with this one, or `None` if there is none. Texts are
/// in the order of their bytes, which is that of their letters.
fn after(prefix: &str) -> Option<String> {
    let mut letters: Vec<char> = prefix.chars().collect();
    while let Some(letter) = letters.pop() {
        // The range leaves out the codes that are no letters.
        if let Some(next) = (letter..=char::MAX).nth(1) {
            letters.push(next);
            return Some(letters.into_iter().collect());
        }
    }
    None
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
