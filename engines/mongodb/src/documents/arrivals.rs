//! Arrivals: who waits for a document is woken when one may have come in, was changed, or was let go.

use std::pin::pin;

use futures_util::future::select;
use mongodb::bson::{Bson, Document, RawDocumentBuf, bson, doc};
use tenure_core::Result;
use tokio::sync::watch;

use super::filter::FilterFields;
use crate::alone::NOT_BEFORE;
use crate::follow::{Listener, follow};
use crate::store::MongoStore;

/// The bell of those who wait. The stream ends when nobody has it any more.
pub(super) struct Arrivals(watch::Receiver<u64>);

impl Arrivals {
    /// Listens, and returns once it hears.
    pub(super) async fn listen(store: &MongoStore, fields: FilterFields) -> Result<Self> {
        let (rings, rung) = watch::channel(0);
        let field = store.spots.in_documents()?.field.clone();
        let hears = follow(store.calls.clone(), Ear { field, fields, rings: rings.clone() });
        store.calls.home.spawn(async move {
            let _ended = select(pin!(hears), pin!(rings.closed())).await;
        });
        let mut arrivals = Self(rung);
        arrivals.rung().await;
        Ok(arrivals)
    }

    /// The bell that something else rings.
    pub(super) fn of(rung: watch::Receiver<u64>) -> Self {
        Self(rung)
    }

    /// Returns once something may have come in since this was asked last.
    pub(super) async fn rung(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether something may have come in since this was asked last.
    pub(super) fn has_rung(&self) -> bool {
        self.0.has_changed().unwrap_or(false)
    }

    /// The same bell for somebody else, who has heard it up to now.
    pub(super) fn again(&self) -> Self {
        let mut rung = self.0.clone();
        rung.mark_unchanged();
        Self(rung)
    }
}

/// Rings whenever anything counts, and whenever it may have missed something.
struct Ear {
    field: String,
    fields: FilterFields,
    rings: watch::Sender<u64>,
}

impl Ear {
    fn ring(&self) {
        self.rings.send_modify(|rings| *rings += 1);
    }
}

impl Listener for Ear {
    fn stages(&self) -> Vec<Document> {
        stages(&self.field, &self.fields)
    }

    async fn opened(&mut self, _goes_on: bool) -> Result<()> {
        self.ring();
        Ok(())
    }

    async fn take(&mut self, _event: &RawDocumentBuf) -> Result<()> {
        self.ring();
        Ok(())
    }

    fn failed(&mut self, error: &mongodb::error::Error) {
        tracing::debug!(%error, "the change stream of a queue does not open, or has ended");
    }
}

/// Documents that come in, those in which a field changes that the filter names, and those that are let go.
fn stages(field: &str, fields: &FilterFields) -> Vec<Document> {
    let changed =
        bson!({ "$objectToArray": { "$ifNull": ["$updateDescription.updatedFields", {}] } });
    let held = format!("{field}.held");
    let is_own = |name: &str| {
        let inside = bson!({ "$indexOfBytes": [name, { "$literal": format!("{field}.") }] });
        bson!({ "$or": [{ "$eq": [name, { "$literal": field }] }, { "$eq": [inside, 0] }] })
    };
    let is_named = |name: &str| bson!({ "$and": [{ "$not": [is_own(name)] }, fields.have(name)] });
    let any = |input: Bson, is_so: Bson| bson!({ "$anyElementTrue": [{ "$map": { "input": input, "as": "this", "in": is_so } }] });
    let names = |of: &str| bson!({ "$ifNull": [format!("$updateDescription.{of}"), []] });
    let is_held = |name: &str| bson!({ "$eq": [name, { "$literal": &held }] });
    let is_free = bson!({ "$and": [is_held("$$this.k"), { "$eq": ["$$this.v", []] }] });
    let is_put_off = bson!({ "$eq": ["$$this", { "$literal": format!("{field}.{NOT_BEFORE}") }] });
    let is_lock_gone = bson!({ "$and": [is_own("$$this"), { "$not": [is_put_off] }] });
    let counts = bson!({ "$or": [
        any(changed, bson!({ "$or": [is_free, is_named("$$this.k")] })),
        any(names("removedFields"), bson!({ "$or": [is_lock_gone, is_named("$$this")] })),
        any(names("truncatedArrays.field"), bson!({ "$or": [is_held("$$this"), is_named("$$this")] })),
    ] });
    vec![
        doc! { "$project": { "operationType": 1, "counts": counts } },
        doc! { "$match": { "$or": [
            { "operationType": { "$in": ["insert", "replace"] } },
            { "operationType": "update", "counts": true },
        ] } },
    ]
}
