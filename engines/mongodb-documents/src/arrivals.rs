//! Arrivals: notifies waiting workers when a document may have come in, was changed, or was
//! released.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use mongodb::bson::{Bson, Document, RawDocumentBuf, bson, doc};
use tenure_core::{Error, Runtime};
use tenure_mongodb::extension::{Consumer, Feed, Hears, Listening, Wants};
use tokio::sync::watch;

use crate::filter::FilterFields;
use crate::locations::NOT_BEFORE;
use crate::store::DocumentStore;

/// Longest time for which a worker waits for the stream to open before it looks for documents. Once
/// the stream opens, the worker is notified.
const OPENING_MAX: Duration = Duration::from_secs(1);

/// The notifications of one queue, while a worker listens.
pub(crate) struct Arrivals(ArrivalSource);

enum ArrivalSource {
    Stream { feed: Feed, handler: Arc<ArrivalHandler> },
    Memory(watch::Receiver<u64>),
}

/// A listening worker. Dropping this ends the listening.
pub(crate) struct Worker {
    rung: watch::Receiver<u64>,
    hears: Option<watch::Receiver<Hears>>,
    _listening: Option<Listening>,
}

impl Arrivals {
    /// Returns the notifications of changes of these fields.
    pub(crate) fn new(store: &DocumentStore, fields: FilterFields) -> Self {
        let field = store.locations.field.clone();
        let name = fields.name();
        let handler = ArrivalHandler {
            field,
            fields,
            name,
            hears: watch::Sender::default(),
            rings: watch::Sender::new(0),
        };
        Self(ArrivalSource::Stream {
            feed: store.engine.feed().clone(),
            handler: Arc::new(handler),
        })
    }

    /// Returns the notifications of another sender.
    pub(crate) fn of(rung: watch::Receiver<u64>) -> Self {
        Self(ArrivalSource::Memory(rung))
    }

    /// Listens. Returns once notifications are received, or after `OPENING_MAX`.
    pub(crate) async fn listen(&self, host: &dyn Runtime) -> Worker {
        match &self.0 {
            ArrivalSource::Stream { feed, handler } => {
                let listening = feed.listen(handler.clone(), || handler.wants());
                let (rung, mut hears) = (handler.rings.subscribe(), handler.hears.subscribe());
                {
                    let opens = pin!(hears.wait_for(|hears| *hears != Hears::Closed));
                    // If the stream is late, the worker looks now, and again when it opens.
                    drop(select(opens, host.sleep(OPENING_MAX)).await);
                }
                Worker { rung, hears: Some(hears), _listening: Some(listening) }
            }
            ArrivalSource::Memory(rung) => {
                Worker { rung: rung.clone(), hears: None, _listening: None }
            }
        }
    }
}

impl Worker {
    /// Marks all notifications up to now as seen.
    pub(crate) fn know(&mut self) {
        self.rung.mark_unchanged();
    }

    /// Returns once a document may have come in.
    pub(crate) async fn rung(&mut self) {
        if self.rung.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns whether a document may have come in.
    pub(crate) fn has_rung(&self) -> bool {
        self.rung.has_changed().unwrap_or(false)
    }

    /// Returns whether the server refuses the change stream, so the worker has to poll.
    pub(crate) fn is_refused(&self) -> bool {
        self.hears.as_ref().is_some_and(|hears| *hears.borrow() == Hears::Refused)
    }
}

/// Notifies the workers of each change that counts, and whenever it may have missed one.
struct ArrivalHandler {
    field: String,
    fields: FilterFields,
    /// Name of the field of a change that has whether it counts.
    name: String,
    hears: watch::Sender<Hears>,
    rings: watch::Sender<u64>,
}

impl ArrivalHandler {
    fn wants(&self) -> Wants {
        let mut computed = Document::new();
        computed.insert(&self.name, counts(&self.field, &self.fields));
        let mut sent = Document::new();
        sent.insert(&self.name, 1);
        let is_update = doc! { "operationType": "update", &self.name: true };
        Wants {
            computed,
            cases: vec![doc! { "operationType": { "$in": COMES_IN.to_vec() } }, is_update],
            sent,
        }
    }

    fn ring(&self) {
        self.rings.send_modify(|rings| *rings += 1);
    }
}

impl Consumer for ArrivalHandler {
    fn opened(&self, _goes_on: bool) {
        self.hears.send_replace(Hears::Open(0));
        self.ring();
    }

    fn take(&self, change: &RawDocumentBuf) {
        let kind = change.get_str("operationType").unwrap_or_default();
        if COMES_IN.contains(&kind) || change.get_bool(&self.name).unwrap_or(false) {
            self.ring();
        }
    }

    fn failed(&self, _error: &Error, is_refused: bool) {
        if is_refused {
            self.hears.send_replace(Hears::Refused);
            self.ring();
        }
    }

    fn closed(&self) {
        self.hears.send_replace(Hears::Closed);
        // A waiting worker looks again, and gets the error of closed locks.
        self.ring();
    }
}

/// Kinds of changes by which a document comes in.
const COMES_IN: [&str; 2] = ["insert", "replace"];

/// Whether an update changes a field that the filter names, or releases the document.
fn counts(field: &str, fields: &FilterFields) -> Bson {
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
    bson!({ "$or": [
        any(changed, bson!({ "$or": [is_free, is_named("$$this.k")] })),
        any(names("removedFields"), bson!({ "$or": [is_lock_gone, is_named("$$this")] })),
        any(names("truncatedArrays.field"), bson!({ "$or": [is_held("$$this"), is_named("$$this")] })),
    ] })
}
