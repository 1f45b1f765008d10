//! A shop: each name of the suite is a document of a collection, or an element of an array in one
//! document.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::{Client, Collection};
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::layers::AnyEngine;
use tenure_core::{
    BackgroundRuntime, CounterValue, Engine, Error, Guarantees, Key, LeaveMode, LeaveOutcome,
    Place, Result, Sampler, Ticket, TicketState, WaitMode, Wake, Window,
};
use tenure_mongodb_documents::{Documents, MemoryDocuments, Path};

/// State that all clients of a case share. Locks on documents list no names, and the cases about
/// these are not about documents.
#[derive(Clone, Default)]
pub(crate) struct Names {
    locked: Arc<Mutex<BTreeSet<Key>>>,
}

/// The kind of place that a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shelves {
    Wholes,
    Parts,
}

/// The engine under the locks on documents, for any names.
pub(crate) struct Shop {
    store: AnyEngine,
    shelves: Shelves,
    names: Names,
    sampler: Sampler,
    host: BackgroundRuntime,
    /// The documents. `None` if they are in memory, where no document has parts.
    documents: Option<Collection<Document>>,
    known: tokio::sync::Mutex<BTreeSet<Key>>,
}

impl Shop {
    pub(crate) async fn open(url: &str, shelves: Shelves, names: Names) -> Result<Self> {
        // The driver knows neither the collection nor what follows it.
        let (at, settings) = url.split_once("&collection=").expect("it names a collection");
        let name = settings.split('&').next().unwrap_or_default();
        let client = Client::with_uri_str(at).await.map_err(told)?;
        let goods = client.database("tenure").collection(name);
        let store = documents()?.engine(url).await?;
        Ok(Self::of(store, Some(goods), shelves, names))
    }

    /// The same with whole documents in memory.
    pub(crate) fn in_memory(memory: &MemoryDocuments, names: Names) -> Result<Self> {
        Ok(Self::of(memory.engine(&documents()?), None, Shelves::Wholes, names))
    }

    fn of(
        store: AnyEngine,
        documents: Option<Collection<Document>>,
        shelves: Shelves,
        names: Names,
    ) -> Self {
        let (sampler, host) =
            (Sampler::new(Duration::from_millis(20)), BackgroundRuntime::for_timers());
        let known = tokio::sync::Mutex::default();
        Self { store, shelves, names, sampler, host, documents, known }
    }

    /// Returns the key of the document or the part that this name stands for.
    fn key(&self, name: &Key) -> Key {
        let id = name.canonical("shop");
        let key = match self.shelves {
            Shelves::Wholes => format!("\"{id}\""),
            Shelves::Parts => {
                let array = Path::field("shelves").element("no", 7).then("goods");
                let path = array.element("name", id);
                format!("\"the shop\" {path}")
            }
        };
        Key::new(key).expect("it is short")
    }

    fn ticket(&self, ticket: &Ticket) -> Ticket {
        Ticket { key: self.key(&ticket.key), ..ticket.clone() }
    }

    /// Inserts the part if it is missing: a lock inserts documents, and no parts.
    async fn stock(&self, name: &Key) -> Result<()> {
        self.names.locked.lock().unwrap().insert(name.clone());
        let mut known = self.known.lock().await;
        if self.shelves == Shelves::Wholes || known.contains(name) {
            return Ok(());
        }
        let id = name.canonical("shop");
        if let Some(documents) = &self.documents {
            stock(documents, &id).await?;
        }
        known.insert(name.clone());
        Ok(())
    }
}

/// Inserts the goods if they are missing.
async fn stock(documents: &Collection<Document>, id: &str) -> Result<()> {
    let shop = doc! { "shelves": [{ "no": 6, "goods": [] }, { "no": 7, "goods": [] }] };
    let made = documents.update_one(doc! { "_id": "the shop" }, doc! { "$setOnInsert": shop });
    // Another client may insert it at the same moment.
    let _ = made.upsert(true).await;
    let missing = doc! { "_id": "the shop", "shelves.goods.name": { "$ne": id } };
    let push = doc! { "$push": { "shelves.1.goods": { "name": id, "price": 1 } } };
    documents.update_one(missing, push).await.map_err(told)?;
    Ok(())
}

fn documents() -> Result<Documents> {
    Documents::new().or_insert(&doc! { "state": "new" })
}

fn told(error: impl std::fmt::Display) -> Error {
    Error::rejected(error.to_string())
}

impl Engine for Shop {
    fn guarantees(&self) -> Guarantees {
        self.store.guarantees()
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        self.stock(&ticket.key).await?;
        self.store.join(&self.ticket(ticket), patience).await
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.store.renew(&self.ticket(ticket)).await
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        self.store.leave(&self.ticket(ticket), how).await
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        self.store.watch(&self.ticket(ticket), seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        self.sampler.events(self, &self.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let line = self.store.line(&self.key(key)).await?;
        let named = |(ticket, place)| (Ticket { key: key.clone(), ..ticket }, place);
        Ok(line.into_iter().map(named).collect())
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let names: Vec<Key> = self.names.locked.lock().unwrap().iter().cloned().collect();
        let mut keys = Vec::new();
        for name in names.into_iter().filter(|name| name.as_str().starts_with(prefix)) {
            if !self.line(&name).await?.is_empty() {
                keys.push(name);
            }
        }
        Ok(keys)
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        self.store.add(&self.key(key), by, window).await
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        self.store.swap(&self.key(key), seen, value).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
