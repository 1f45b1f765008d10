//! Free documents: the filters that find them, and when the next one may be free.

use std::time::Duration;

use mongodb::bson::{Bson, Document, bson, doc};
use tenure_core::Result;
use tenure_mongodb::extension::{millis, number, takes_tickets, whole};

use crate::locations::NOT_BEFORE;
use crate::store::DocumentStore;
use crate::write::raw_array;

/// The documents that a claim looks for. An index that has `not_before` finds both kinds apart, and
/// passes over all that are put off for longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Any,
    /// Documents that are not put off.
    Fresh,
    /// Documents that were put off until now.
    PutOff,
}

impl DocumentStore {
    /// Returns the time until a matching document may be free without a release: the lease of its
    /// holder ends, or it is not put off any more. Returns `None` if there is none within this
    /// time.
    pub(crate) async fn next_due(
        &self,
        filter: Document,
        within: Duration,
    ) -> Result<Option<Duration>> {
        let documents = &self.locations;
        let field = &documents.field;
        let mut filters = documents.passed_over.left_out(&filter);
        let then = bson!({ "$add": [{ "$toLong": "$$NOW" }, millis(within)] });
        filters.push(is_put_off_until(field, &then));
        filters.push(doc! { "$expr": readable(field) });
        let first = doc! { "$min": { "$subtract": [due(field), now(field)] } };
        let stages = [
            doc! { "$match": { "$and": filters } },
            doc! { "$group": { "_id": null, "due": first } },
        ];
        let found = self.commands.aggregate(raw_array(&stages)).await?;
        let due = found.first().and_then(|first| whole(first, "due"));
        Ok(due.map(|due| Duration::from_millis(u64::try_from(due).unwrap_or(0))))
    }
}

impl Which {
    /// Returns the filters for a line that is empty, or whose leases have all ended.
    pub(crate) fn free(self, field: &str) -> Vec<Document> {
        let not_before = format!("{field}.{NOT_BEFORE}");
        let is_over = bson!({ "$lte": [due(field), now(field)] });
        let is_free = doc! { "$expr": { "$and": [is_over, readable(field)] } };
        match self {
            Self::Any => vec![is_free],
            Self::Fresh => vec![doc! { not_before: Bson::Null }, is_free],
            Self::PutOff => {
                let until = is_put_off_until(field, &bson!({ "$toLong": "$$NOW" }));
                vec![doc! { not_before: { "$gt": 0_i64 } }, until, is_free]
            }
        }
    }
}

/// Returns the condition that a document is put off until then at the latest, or not at all. An
/// index supports it.
fn is_put_off_until(field: &str, then: &Bson) -> Document {
    doc! { "$expr": { "$lte": [format!("${field}.{NOT_BEFORE}"), then.clone()] } }
}

/// Returns the condition that the line and `not_before` can be read: otherwise the document may be
/// held or put off.
fn readable(field: &str) -> Bson {
    let then = format!("${field}.{NOT_BEFORE}");
    bson!({ "$and": [takes_tickets(field), number(&then)] })
}

/// Returns the time at which a document is free: all leases have ended, and it is not put off. Zero
/// without a line.
fn due(field: &str) -> Bson {
    let ends = |array: &str| bson!({ "$max": format!("${field}.{array}.ends") });
    let latest =
        bson!({ "$max": [ends("held"), ends("waiting"), format!("${field}.{NOT_BEFORE}")] });
    bson!({ "$ifNull": [latest, 0_i64] })
}

fn now(field: &str) -> Bson {
    bson!({ "$max": [format!("${field}.at"), { "$toLong": "$$NOW" }] })
}
