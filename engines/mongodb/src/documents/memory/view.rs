//! The engine under the locks on documents in memory: the memory engine, whose lines are found
//! through the documents.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use mongodb::bson::Document;
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::{
    CounterValue, Engine, Error, EventDelivery, Guarantees, Key, LeaveMode, LeaveOutcome, Memory,
    Place, Result, Runtime, Sampler, Ticket, TicketState, WaitMode, Wake, Window,
};

use super::warehouse::{Stock, Warehouse, seen};
use crate::documents::settings::Documents;
use crate::spots::{Claiming, NO_LIST, NO_NUMBERS};
use crate::wish::Reads;

/// Pause between two looks of an onlooker.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A client of the warehouse.
pub(in crate::documents) struct MemoryView {
    warehouse: Arc<Warehouse>,
    reads: Reads,
    filling: Option<Document>,
    sampler: Sampler,
    host: Arc<dyn Runtime>,
}

impl MemoryView {
    pub(in crate::documents) fn new(
        warehouse: Arc<Warehouse>,
        documents: &Documents,
        host: Arc<dyn Runtime>,
    ) -> Self {
        warehouse.stock().field.clone_from(&documents.field);
        let (reads, filling) = (documents.reads.clone(), documents.filling.clone());
        Self { warehouse, reads, filling, sampler: Sampler::new(LOOK_PAUSE), host }
    }

    fn memory(&self) -> &Memory {
        &self.warehouse.memory
    }

    /// Claims the first matching document that is not held.
    fn claim(
        &self,
        stock: &mut Stock,
        ticket: &Ticket,
        claiming: &Claiming,
    ) -> Result<Option<Place>> {
        for named in stock.claimable(claiming)? {
            // A document that cannot be read is left out, as a server leaves it out.
            let Ok(key) = stock.lock_of(&named) else { continue };
            let inner = Ticket { key: key.clone(), ..ticket.clone() };
            if let Some(place) = at_once(self.memory().join(&inner, WaitMode::NoWait))? {
                stock.joined.insert(ticket.id, (ticket.key.clone(), key));
                let document = seen(stock.part(&named)?, &self.reads);
                stock.read.insert(ticket.id, document);
                stock.claim(ticket.id, named);
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn join_one(
        &self,
        stock: &mut Stock,
        ticket: &Ticket,
        patience: WaitMode,
    ) -> Result<Option<Place>> {
        let named = stock.named(ticket.id, &ticket.key)?;
        if let Some(filling) = self.filling.as_ref().filter(|_| named.path.is_whole()) {
            stock.fill(&named, filling);
        }
        let key = stock.lock_of(&named)?;
        let inner = Ticket { key: key.clone(), ..ticket.clone() };
        let place = at_once(self.memory().join(&inner, patience))?;
        if let Some(place) = &place {
            stock.joined.insert(ticket.id, (ticket.key.clone(), key));
            if place.state == TicketState::Holding {
                let document = seen(stock.part(&named)?, &self.reads);
                stock.read.insert(ticket.id, document);
            }
        }
        Ok(place)
    }

    /// Returns the ticket as the memory engine knows it, if its document or part still exists.
    fn inner(stock: &mut Stock, ticket: &Ticket) -> Option<Ticket> {
        let named = stock.named(ticket.id, &ticket.key).ok()?;
        let key = match stock.joined.get(&ticket.id) {
            Some((asked, joined)) if *asked == ticket.key => joined.clone(),
            _ => stock.lock_of(&named).ok()?,
        };
        Some(Ticket { key, ..ticket.clone() })
    }
}

impl Engine for MemoryView {
    fn guarantees(&self) -> Guarantees {
        let mut profile = self.memory().guarantees();
        profile.events = EventDelivery::Sampled;
        profile
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        let mut stock = self.warehouse.stock();
        match stock.queue(&ticket.key) {
            Some(claiming) => self.claim(&mut stock, ticket, &claiming),
            None => self.join_one(&mut stock, ticket, patience),
        }
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let mut stock = self.warehouse.stock();
        let Some(inner) = Self::inner(&mut stock, ticket) else { return Ok(None) };
        let named = stock.named(ticket.id, &ticket.key)?;
        if stock.joined.contains_key(&ticket.id)
            && stock.lock_that_is_there(&named, ticket.id).is_none()
        {
            // The document was replaced or deleted, and the lock with it.
            at_once(self.memory().leave(&inner, LeaveMode::Now))?;
            stock.forget(ticket.id);
            return Ok(None);
        }
        at_once(self.memory().renew(&inner))
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let left = {
            let mut stock = self.warehouse.stock();
            let Some(inner) = Self::inner(&mut stock, ticket) else {
                return Ok(LeaveOutcome::Absent);
            };
            let left = at_once(self.memory().leave(&inner, how))?;
            if left != LeaveOutcome::Requested {
                stock.forget(ticket.id);
            }
            left
        };
        self.warehouse.ring();
        Ok(left)
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        let mut bell = self.warehouse.arrivals();
        loop {
            let inner = {
                let mut stock = self.warehouse.stock();
                let named = stock.named(ticket.id, &ticket.key)?;
                let is_there = stock.lock_that_is_there(&named, ticket.id).is_some();
                Self::inner(&mut stock, ticket).filter(|_| is_there)
            };
            let Some(inner) = inner else { return Ok(Wake::Look) };
            let told = std::pin::pin!(self.memory().watch(&inner, seen));
            let changed = std::pin::pin!(bell.changed());
            match futures_util::future::select(told, changed).await {
                futures_util::future::Either::Left((wake, _)) => return wake,
                futures_util::future::Either::Right(_) => {}
            }
        }
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        self.sampler.events(self, &*self.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let mut stock = self.warehouse.stock();
        let named = stock.named(tenure_core::TicketId::fresh(), key)?;
        if stock.part(&named).is_err() {
            return Ok(Vec::new());
        }
        let inner = stock.lock_of(&named)?;
        let line = at_once(self.memory().line(&inner))?;
        Ok(line
            .into_iter()
            .map(|(ticket, place)| (Ticket { key: key.clone(), ..ticket }, place))
            .collect())
    }

    async fn keys(&self, _prefix: &str) -> Result<Vec<Key>> {
        Err(Error::unsupported(NO_LIST))
    }

    async fn add(&self, _key: &Key, _by: u64, _window: Option<Window>) -> Result<CounterValue> {
        Err(Error::unsupported(NO_NUMBERS))
    }

    async fn close(&self) {
        // A waiting worker looks again, and gets the error of closed locks.
        self.warehouse.ring();
    }
}

/// The memory engine answers at once, so its step is part of a step of the warehouse.
fn at_once<T>(answer: impl Future<Output = Result<T>>) -> Result<T> {
    answer.now_or_never().expect("memory has nothing to wait for")
}
