//! Documents in this process's memory: for unit tests of programs, without a server.

mod view;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, MutexGuard};

use futures_util::FutureExt as _;
use mongodb::bson::{Bson, Document};
use mongodb::options::UpdateModifications;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::layers::AnyEngine;
use tenure_core::sync::Mutex;
use tenure_core::{
    BackgroundRuntime, Engine as _, Error, Key, Memory, Reason, Result, Runtime, TicketId,
    TicketState,
};
use tenure_mongodb::extension::{Reads, other_id};
use tokio::sync::watch;

use crate::change::ChangeTarget;
use crate::collection_locks::CollectionLocks;
use crate::locations::Claiming;
use crate::lock::DocumentLocks;
use crate::name::Named;
use crate::request::{Act, Done, Holding};
use crate::settings::{Documents, FIELD_DEFAULT};
use crate::text::comparable;
use crate::typed::{read, written};
pub(crate) use view::MemoryView;

/// A collection in this process's memory, for unit tests. Clones share the documents.
///
/// It has locks on whole documents, `replace`, updates by `$set`, `$unset` and `$inc`, and queues
/// whose filters are values of fields. All else is refused as
/// [`Unsupported`](tenure_core::ErrorKind::Unsupported).
///
/// ```
/// use mongodb::bson::{Document, doc};
/// use tenure_mongodb_documents::{Documents, MemoryDocuments};
///
/// # tenure_core::blocking::block_on(async {
/// let collection = MemoryDocuments::new();
/// collection.insert(&doc! { "_id": 42, "state": "new" })?;
/// let orders = Documents::new().in_memory::<Document>(&collection);
/// let order = orders.document(42).lock().await?;
/// assert_eq!(order.document().get_str("state").unwrap(), "new");
/// order.release_with(doc! { "$set": { "state": "paid" } }).await?;
/// assert_eq!(collection.find::<Document>(42)?, Some(doc! { "_id": 42, "state": "paid" }));
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Default)]
pub struct MemoryDocuments(Arc<InMemoryCollection>);

/// State that all clients of a collection share.
#[derive(Default)]
struct InMemoryCollection {
    lines: Memory,
    state: Mutex<InMemoryState>,
    /// Changes when a document comes in, is changed or is released.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct InMemoryState {
    /// The documents, by the comparable text of their `_id`.
    documents: BTreeMap<String, Document>,
    /// The filters of the queues: a ticket that joins the line of such a key claims a document.
    queues: HashMap<Key, Claiming>,
    /// For each ticket that claimed a document: that document.
    claimed: HashMap<TicketId, Named>,
}

impl MemoryDocuments {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts a document, as a program without locks does. Its `_id` must be new.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the document has no `_id`, and
    /// [`Rejected`](tenure_core::ErrorKind::Rejected) if there is one with this `_id`.
    pub fn insert<T: Serialize>(&self, document: &T) -> Result<()> {
        let document = written(document)?;
        let id = document.get("_id");
        let id = id.ok_or_else(|| Error::invalid("a document in memory needs an _id"))?.clone();
        let mut state = self.state();
        if state.documents.contains_key(&comparable(&id)) {
            return Err(Error::rejected(format!("there is a document {id} already")));
        }
        state.documents.insert(comparable(&id), document);
        self.ring();
        Ok(())
    }

    /// Returns the document with this `_id`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the document cannot be read as `T`.
    pub fn find<T: DeserializeOwned>(&self, id: impl Into<Bson>) -> Result<Option<T>> {
        let id = id.into();
        let found = self.state().documents.get(&comparable(&id)).cloned();
        found.map(|document| read(document, &id, FIELD_DEFAULT)).transpose()
    }

    /// Returns the engine under the locks on these documents. Its keys are those of
    /// [`DocumentLock::key`](super::DocumentLock::key).
    pub fn engine(&self, documents: &Documents) -> AnyEngine {
        AnyEngine::new(self.view(documents, Arc::new(BackgroundRuntime::for_timers())))
    }

    pub(crate) fn view(&self, documents: &Documents, host: Arc<dyn Runtime>) -> MemoryView {
        MemoryView::new(self, documents.filling.clone(), host)
    }

    /// Reads the document for a holder. Returns `None` if it holds no more.
    pub(crate) fn read(&self, holding: &Holding, reads: &Reads) -> Option<Document> {
        let mut state = self.state();
        let document = self.held(&mut state, holding)?.clone();
        Some(match reads {
            Reads::Fields(names) => {
                document.into_iter().filter(|(name, _)| names.contains(name)).collect()
            }
            _ => document,
        })
    }

    /// Runs an act of a holder, and refuses the changes that a server refuses.
    pub(crate) fn act(&self, holding: &Holding, act: Act) -> Result<Done> {
        let mut state = self.state();
        let Some(document) = self.held(&mut state, holding) else { return Ok(Done::No) };
        let path = &holding.named.path;
        let mut new = match act {
            Act::Replace(new) => new,
            Act::Update(update) | Act::Leave(update) => {
                ChangeTarget { field: FIELD_DEFAULT, path, ticket: "", write: 0 }
                    .change(update.clone())?;
                let (UpdateModifications::Document(operators), []) =
                    (&update.by, &*update.array_filters)
                else {
                    return Err(refused("pipelines and array filters"));
                };
                changed(document, operators)?
            }
            Act::Delete => return Err(refused("`delete`")),
            Act::PutOff(_) => return Err(refused("`retry_later`")),
        };
        let id = document.get("_id").cloned().unwrap_or(Bson::Null);
        let other = new.entry("_id".to_owned()).or_insert_with(|| id.clone());
        if comparable(other) != comparable(&id) {
            return Err(other_id(""));
        }
        *document = new;
        self.ring();
        Ok(Done::Yes)
    }

    pub(crate) fn open_queue(&self, key: &Key, claiming: Claiming) {
        self.state().queues.insert(key.clone(), claiming);
    }

    pub(crate) fn close_queue(&self, key: &Key) {
        self.state().queues.remove(key);
    }

    pub(crate) fn claimed_by(&self, id: TicketId) -> Option<Named> {
        self.state().claimed.get(&id).cloned()
    }

    /// Returns whether a document matches that no ticket holds.
    pub(crate) fn has_free(&self, filter: &Document) -> Result<bool> {
        for document in self.state().documents.values() {
            let line = at_once(self.0.lines.line(&line_of(&named(document))?))?;
            if line.is_empty() && matches(document, filter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Returns the document, if this ticket holds it.
    fn held<'a>(
        &self,
        state: &'a mut InMemoryState,
        holding: &Holding,
    ) -> Option<&'a mut Document> {
        let line = at_once(self.0.lines.line(&line_of(&holding.named).ok()?)).ok()?;
        let is_held = line
            .iter()
            .any(|(ticket, place)| ticket.id == holding.id && place.state == TicketState::Holding);
        state.documents.get_mut(&holding.named.record()).filter(|_| is_held)
    }

    fn ring(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    fn state(&self) -> MutexGuard<'_, InMemoryState> {
        self.0.state.lock()
    }
}

impl Documents {
    /// Returns the locks on the documents of a collection in memory, for unit tests.
    pub fn in_memory<T>(self, collection: &MemoryDocuments) -> DocumentLocks<T> {
        DocumentLocks::new(CollectionLocks::in_memory(self, collection))
    }
}

fn named(document: &Document) -> Named {
    Named::whole(document.get("_id").cloned().unwrap_or(Bson::Null))
}

/// Returns the key of a document's line in the memory engine. A number is one key, whatever its
/// type.
fn line_of(named: &Named) -> Result<Key> {
    if !named.path.is_whole() || !named.route.is_empty() {
        return Err(refused("parts and shard keys"));
    }
    named.key()?;
    Key::new(named.record())
}

/// The error for all that documents in memory do not have.
fn refused(what: &str) -> Error {
    Error::unsupported(format!(
        "documents in memory have no {what}, only locks on whole documents, `replace`, $set, $unset, $inc, and queues of equal values: test this on a MongoDB"
    ))
}

fn no_document(key: &Key) -> Error {
    let why = "insert it first, or have it inserted by `or_insert`";
    Error::rejected(format!("there is no document {key} in memory: {why}"))
        .with_reason(Reason::DocumentNotFound)
}

/// The memory engine answers at once, so its step is part of a step of the collection.
fn at_once<T>(answer: impl Future<Output = Result<T>>) -> Result<T> {
    answer.now_or_never().expect("memory has nothing to wait for")
}

/// Returns whether all fields that the filter names have its values.
fn matches(document: &Document, filter: &Document) -> Result<bool> {
    let is_operator = |name: &String| name.starts_with('$');
    for (name, wanted) in filter {
        if is_operator(name) || wanted.as_document().is_some_and(|it| it.keys().any(is_operator)) {
            return Err(refused("operators in a filter"));
        }
        if comparable(value(document, name).unwrap_or(&Bson::Null)) != comparable(wanted) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the value of a field, by a name with dots.
fn value<'a>(document: &'a Document, name: &str) -> Option<&'a Bson> {
    match name.split_once('.') {
        None => document.get(name),
        Some((first, rest)) => value(document.get_document(first).ok()?, rest),
    }
}

/// Returns the document after these operators. Each has a document of fields.
fn changed(document: &Document, operators: &Document) -> Result<Document> {
    let mut new = document.clone();
    for (operator, fields) in operators {
        for (name, by) in fields.as_document().into_iter().flatten() {
            if operator == "$unset" && value(&new, name).is_none() {
                continue;
            }
            let (parent, last) = inside(&mut new, name)?;
            match operator.as_str() {
                "$set" => drop(parent.insert(last, by.clone())),
                "$unset" => drop(parent.remove(last)),
                "$inc" => {
                    let sum = sum(name, parent.get(last).unwrap_or(&Bson::Int32(0)), by)?;
                    parent.insert(last, sum);
                }
                _ => return Err(refused(operator)),
            }
        }
    }
    Ok(new)
}

/// Returns the document in which a field is, by a name with dots, and the field's own name.
fn inside<'a, 'b>(
    document: &'a mut Document,
    name: &'b str,
) -> Result<(&'a mut Document, &'b str)> {
    let Some((first, rest)) = name.split_once('.') else { return Ok((document, name)) };
    match document.entry(first.to_owned()).or_insert_with(|| Bson::Document(Document::new())) {
        Bson::Document(next) => inside(next, rest),
        _ => Err(Error::rejected(format!("`{first}` is no document: it has no field `{rest}`"))),
    }
}

fn sum(name: &str, before: &Bson, by: &Bson) -> Result<Bson> {
    let whole = |value: &Bson| value.as_i64().or_else(|| value.as_i32().map(i64::from));
    let real = |value: &Bson| value.as_f64().or_else(|| value.as_i32().map(f64::from));
    if let (Bson::Int32(one), Bson::Int32(other)) = (before, by)
        && let Some(sum) = one.checked_add(*other)
    {
        return Ok(sum.into());
    }
    if let (Some(one), Some(other)) = (whole(before), whole(by)) {
        let sum = one.checked_add(other).map(Bson::Int64);
        return sum.ok_or_else(|| Error::rejected(format!("the sum of `{name}` is too large")));
    }
    match (real(before), real(by)) {
        (Some(one), Some(other)) => Ok((one + other).into()),
        _ => Err(Error::rejected(format!("`{name}` is no number"))),
    }
}
