//! A warehouse: documents in memory. A locked document or part has a number in the lock's field,
//! which is the name of its lock. So two paths to one part are one lock, and a replacement has no
//! lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use mongodb::bson::{Bson, Document};
use mongodb::options::UpdateModifications;
use tenure_core::{Engine as _, Error, Key, Memory, Reason, Result, TicketId, TicketState, errors};
use tokio::sync::watch;

use super::change;
use super::filter::{equal, matches, sorted, value};
use crate::documents::change::Target;
use crate::documents::name::Named;
use crate::documents::path::Step;
use crate::documents::request::{Act, Done, Holding};
use crate::documents::settings::FIELD_DEFAULT;
use crate::documents::text::comparable;
use crate::spots::Claiming;
use crate::trouble;
use crate::wish::Reads;

/// A collection in memory, and the locks on it.
pub(in crate::documents) struct Warehouse {
    pub(super) memory: Memory,
    stock: Mutex<Stock>,
    rings: watch::Sender<u64>,
}

/// The documents of a warehouse, and the state of their locks.
pub(super) struct Stock {
    documents: BTreeMap<String, Document>,
    /// Name of the field that has the number of a lock.
    pub(super) field: String,
    last: i64,
    /// Keys that tickets joined by, and the names of the locks in whose lines they stand.
    pub(super) joined: HashMap<TicketId, (Key, Key)>,
    pub(super) read: HashMap<TicketId, Document>,
    claimed: HashMap<TicketId, Named>,
    queues: HashMap<Key, Arc<Claiming>>,
    /// Documents that no queue claims before these times.
    put_off: HashMap<String, Instant>,
}

impl Default for Warehouse {
    fn default() -> Self {
        let stock = Stock {
            documents: BTreeMap::new(),
            field: FIELD_DEFAULT.to_owned(),
            last: 0,
            joined: HashMap::new(),
            read: HashMap::new(),
            claimed: HashMap::new(),
            queues: HashMap::new(),
            put_off: HashMap::new(),
        };
        Self { memory: Memory::new(), stock: Mutex::new(stock), rings: watch::Sender::new(0) }
    }
}

impl Warehouse {
    /// Begins a step. All steps run one after the other, those of the locks too.
    pub(super) fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ring(&self) {
        self.rings.send_modify(|rings| *rings += 1);
    }

    pub(in crate::documents) fn insert(&self, id: &Bson, document: Document) -> Result<()> {
        let mut stock = self.stock();
        if stock.documents.contains_key(&comparable(id)) {
            return Err(Error::rejected(format!("there is a document {id} already")));
        }
        stock.documents.insert(comparable(id), document);
        drop(stock);
        self.ring();
        Ok(())
    }

    pub(in crate::documents) fn find(&self, id: &Bson) -> Option<(Document, String)> {
        let stock = self.stock();
        Some((stock.documents.get(&comparable(id))?.clone(), stock.field.clone()))
    }

    pub(in crate::documents) fn update(&self, id: &Bson, operators: &Document) -> Result<()> {
        let changed = match self.stock().documents.get_mut(&comparable(id)) {
            Some(document) => change::apply(document, operators),
            None => Ok(()),
        };
        self.ring();
        changed
    }

    pub(in crate::documents) fn delete(&self, id: &Bson) {
        self.stock().documents.remove(&comparable(id));
        self.ring();
    }

    pub(in crate::documents) fn was_read(&self, id: TicketId) -> Option<Document> {
        self.stock().read.remove(&id)
    }

    pub(in crate::documents) fn claimed_by(&self, id: TicketId) -> Option<Named> {
        self.stock().claimed.get(&id).cloned()
    }

    pub(in crate::documents) fn open_queue(&self, key: &Key, claiming: Claiming) {
        self.stock().queues.insert(key.clone(), Arc::new(claiming));
    }

    pub(in crate::documents) fn close_queue(&self, key: &Key) {
        self.stock().queues.remove(key);
    }

    pub(in crate::documents) fn arrivals(&self) -> watch::Receiver<u64> {
        self.rings.subscribe()
    }

    /// Returns the document that a holder reads, or `None` if it holds no more.
    pub(in crate::documents) fn read(&self, holding: &Holding, reads: &Reads) -> Option<Document> {
        let mut stock = self.stock();
        let holds = self.holds_all(&mut stock, holding);
        holds.then(|| stock.part(&holding.named).ok().map(|part| seen(part, reads))).flatten()
    }

    /// Carries out an act of a holder, if it and all locks around it are still held.
    pub(in crate::documents) fn act(&self, holding: &Holding, act: Act) -> Result<Done> {
        let mut stock = self.stock();
        if !self.holds_all(&mut stock, holding) {
            return Ok(Done::No);
        }
        let record = holding.named.record();
        let (field, path) = (stock.field.clone(), &holding.named.path);
        // Refuses the changes that a server would refuse.
        let target = Target { field: &field, path, ticket: "", write: 0 };
        match act {
            Act::Delete => drop(stock.documents.remove(&record)),
            Act::PutOff(time) => {
                let then = Instant::now().checked_add(time);
                stock.put_off.insert(record, then.unwrap_or_else(far_away));
            }
            Act::Replace(mut new) => {
                target.replacement(&new)?;
                stock.change(&holding.named, |part| {
                    let id = part.get("_id").filter(|_| path.is_whole());
                    if let (Some(id), Some(other)) = (id, new.get("_id"))
                        && !equal(id, other)
                    {
                        return Err(trouble::other_id(""));
                    }
                    for name in target.keeps(&new) {
                        part.get(&name).cloned().map(|value| new.insert(name, value));
                    }
                    *part = new;
                    Ok(())
                })?;
            }
            Act::Update(update) | Act::Leave(update) => {
                let (UpdateModifications::Document(operators), []) =
                    (&update.by, &*update.array_filters)
                else {
                    return Err(Error::unsupported(
                        "documents in memory are changed by operators, and know no pipelines and array filters",
                    ));
                };
                target.change(update.clone())?;
                stock.change(&holding.named, |part| change::apply(part, operators))?;
            }
        }
        drop(stock);
        self.ring();
        Ok(Done::Yes)
    }

    /// Returns the time until the first matching document may become free by itself.
    pub(in crate::documents) fn next_due(&self, filter: &Document) -> Option<Duration> {
        let mut stock = self.stock();
        let now = Instant::now();
        let found = stock.matching(&Claiming { filter: filter.clone(), ..Claiming::default() });
        let found: Vec<Named> = found.unwrap_or_default();
        let due = found.iter().filter_map(|named| {
            let put_off =
                stock.put_off.get(&named.record()).map(|then| then.saturating_duration_since(now));
            let key = stock.lock_of(named).ok()?;
            let line = self.memory.line(&key).now_or_never()?.ok()?;
            let lives = line.iter().filter_map(|(_, place)| place.life).max();
            put_off.into_iter().chain(lives).max()
        });
        due.min()
    }

    fn holds_all(&self, stock: &mut Stock, holding: &Holding) -> bool {
        let own = std::iter::once((&holding.named, holding.id));
        let around = holding.around.iter().map(|(named, id)| (named, *id));
        own.chain(around).all(|(named, id)| self.holds(stock, named, id))
    }

    /// Returns whether this ticket holds the named document or part, as it is now.
    fn holds(&self, stock: &mut Stock, named: &Named, id: TicketId) -> bool {
        let Some(key) = stock.lock_that_is_there(named, id) else { return false };
        let line = self.memory.line(&key).now_or_never().and_then(Result::ok).unwrap_or_default();
        line.iter().any(|(ticket, place)| ticket.id == id && place.state == TicketState::Holding)
    }
}

impl Stock {
    /// Returns the one part of this name.
    pub(super) fn part(&mut self, named: &Named) -> Result<&mut Document> {
        let key = named.key()?;
        let document = self.documents.get_mut(&named.record());
        let document = document.filter(|document| {
            named
                .route
                .iter()
                .all(|(name, value)| document.get(name).is_some_and(|it| equal(it, value)))
        });
        let document = document.ok_or_else(|| {
            Error::rejected(format!(
                "there is no document {key}: insert it first, or have it inserted by `or_insert`"
            ))
            .with_reason(Reason::DocumentNotFound)
        })?;
        let mut parts = Vec::new();
        collect(document, named.path.steps(), &mut parts);
        let count = parts.len();
        let part = parts.pop().filter(|_| count == 1);
        part.ok_or_else(|| {
            if count == 0 {
                let why = "is not there: the document has no such part";
                return Error::rejected(format!("{key:?} {why}")).with_reason(Reason::PartNotFound);
            }
            Error::rejected(format!("{key:?} is not one part: its filters match more than one"))
        })
    }

    /// Inserts a missing document.
    pub(super) fn fill(&mut self, named: &Named, filling: &Document) {
        let mut document = filling.clone();
        document.insert("_id", named.id.clone());
        document.extend(named.route.clone());
        self.documents.entry(named.record()).or_insert(document);
    }

    /// Returns the name of the lock on a document or part. One that was never locked gets a name
    /// now.
    pub(super) fn lock_of(&mut self, named: &Named) -> Result<Key> {
        let (field, next) = (self.field.clone(), self.last + 1);
        let part = self.part(named)?;
        let number = match part.get(&field) {
            Some(Bson::Int64(number)) => *number,
            line if has_nobody(line) => {
                part.insert(field, next);
                next
            }
            _ => {
                let place = format!("as the field `{field}` of that document in memory");
                return Err(errors::with_place(errors::unreadable_ticket(), &named.key()?, &place));
            }
        };
        self.last = self.last.max(number);
        Key::new(number.to_string())
    }

    /// Returns the name of the lock in whose line the ticket stands, if that is still the lock of
    /// the named document or part.
    pub(super) fn lock_that_is_there(&mut self, named: &Named, id: TicketId) -> Option<Key> {
        let (_, joined) = self.joined.get(&id)?.clone();
        let field = self.field.clone();
        let number = self.part(named).ok()?.get_i64(&field).ok()?;
        (number.to_string() == joined.as_str()).then_some(joined)
    }

    /// Returns the document or part for which a ticket stands in its line.
    pub(super) fn named(&self, id: TicketId, key: &Key) -> Result<Named> {
        self.claimed.get(&id).cloned().map_or_else(|| Named::of(key), Ok)
    }

    pub(super) fn queue(&self, key: &Key) -> Option<Arc<Claiming>> {
        self.queues.get(key).cloned()
    }

    pub(super) fn claim(&mut self, id: TicketId, named: Named) {
        self.put_off.remove(&named.record());
        self.claimed.insert(id, named);
    }

    pub(super) fn forget(&mut self, id: TicketId) {
        self.joined.remove(&id);
        self.read.remove(&id);
        self.claimed.remove(&id);
    }

    /// Returns the documents that match and are not put off, in the queue's order.
    pub(super) fn claimable(&mut self, claiming: &Claiming) -> Result<Vec<Named>> {
        let now = Instant::now();
        let mut found = self.matching(claiming)?;
        found.retain(|named| self.put_off.get(&named.record()).is_none_or(|then| *then <= now));
        Ok(found)
    }

    fn matching(&mut self, claiming: &Claiming) -> Result<Vec<Named>> {
        let mut found = Vec::new();
        for document in self.documents.values() {
            if matches(document, &claiming.filter)? {
                found.push(document);
            }
        }
        if let Some(order) = &claiming.order {
            found.sort_by(|one, other| sorted(one, other, order));
        }
        let id =
            |document: &&Document| Named::whole(document.get("_id").cloned().unwrap_or(Bson::Null));
        Ok(found.iter().map(id).collect())
    }

    fn change(
        &mut self,
        named: &Named,
        change: impl FnOnce(&mut Document) -> Result<()>,
    ) -> Result<()> {
        let field = self.field.clone();
        let part = self.part(named)?;
        let lock = part.get(&field).cloned();
        change(part)?;
        if let Some(lock) = lock {
            part.insert(field, lock);
        }
        Ok(())
    }
}

/// Returns whether the field is missing, null, or an empty line of a server: the document may come
/// from one.
fn has_nobody(line: Option<&Bson>) -> bool {
    let Some(Bson::Document(line)) = line else { return matches!(line, None | Some(Bson::Null)) };
    ["held", "waiting"].iter().all(|name| match line.get(name) {
        Some(Bson::Array(tickets)) => tickets.is_empty(),
        tickets => matches!(tickets, None | Some(Bson::Null)),
    })
}

/// Returns the fields of a part that a holder reads.
pub(super) fn seen(part: &Document, reads: &Reads) -> Document {
    match reads {
        Reads::Fields(names) => part
            .iter()
            .filter(|(name, _)| names.contains(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        _ => part.clone(),
    }
}

/// Collects all parts that these steps lead to.
fn collect<'a>(document: &'a mut Document, steps: &[Step], parts: &mut Vec<&'a mut Document>) {
    let [Step::Field(name), rest @ ..] = steps else {
        parts.push(document);
        return;
    };
    match (document.get_mut(name), rest) {
        (Some(Bson::Array(array)), [Step::Element(fields), rest @ ..]) => {
            for element in array {
                if let Bson::Document(element) = element
                    && fields.iter().all(|(name, wanted)| {
                        value(element, name).is_some_and(|it| equal(it, wanted))
                    })
                {
                    collect(element, rest, parts);
                }
            }
        }
        (Some(Bson::Document(inner)), rest) if !matches!(rest, [Step::Element(_), ..]) => {
            collect(inner, rest, parts);
        }
        _ => {}
    }
}

fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(1 << 32)
}
