//! A claim: one command that locks any one document that matches a filter and is not held, and
//! reads it.

use std::sync::Arc;
use std::time::Instant;

use mongodb::bson::{Bson, Document, cstr, doc, rawdoc};
use tenure_core::{Clock as _, Error, Place, Result, SystemClock, Ticket};
use tenure_mongodb::extension::{Reads, is_about_one, raw};

use crate::free_documents::Which;
use crate::locations::{Claiming, NOT_BEFORE};
use crate::name::Named;
use crate::passed_over::UNFIT_REST;
use crate::store::DocumentStore;

/// Maximum documents that one claim passes over. If more cannot be locked, the call fails, so that
/// an operator notices.
const UNFIT_MAX: u32 = 16;

/// Maximum attempts of a claim by name if other workers are quicker.
const RACES_MAX: u32 = 4;

/// The outcome of a claim.
enum Claimed {
    Yes(Place),
    Nothing,
    /// This document comes first and cannot be locked.
    Unfit(Bson, Error),
}

impl DocumentStore {
    /// Locks one document. Returns `None` if none matches and is free.
    pub(crate) async fn claim(
        &self,
        ticket: &Ticket,
        claiming: &Arc<Claiming>,
        reads: Reads,
    ) -> Result<Option<Place>> {
        if self.has_claimed(ticket).await? {
            return self.renew(ticket).await;
        }
        let claims = &self.locations.document_claims;
        let is_first = claims.begin(ticket.id, claiming, self.life(ticket))?;
        let claimed = self.claim_any(ticket, claiming, &reads).await;
        let has_none = match &claimed {
            Ok(place) => place.is_none(),
            Err(error) => !error.is_retryable(),
        };
        // An earlier claim without an answer may still find a document.
        if is_first && has_none {
            claims.forget(ticket.id);
        }
        claimed
    }

    /// Returns whether the ticket has claimed a document. If its claim was not answered, this looks
    /// for the ticket in all documents that match.
    pub(crate) async fn has_claimed(&self, ticket: &Ticket) -> Result<bool> {
        let documents = &self.locations;
        if documents.claimed_by(ticket.id).is_some() {
            return Ok(true);
        }
        let claims = &documents.document_claims;
        let doubtful = claims.doubtful(ticket.id, SystemClock.now());
        let Some(claiming) = doubtful else { return Ok(false) };
        let held = doc! { format!("{}.held.id", documents.field): ticket.id.to_string() };
        let query = doc! { "$and": [claiming.filter.clone(), held] };
        let answer = self.commands.write(self.touch(&query)).await?;
        let found = answer.get_document("value").ok().and_then(|found| found.get("_id"));
        let Some(id) = found else { return Ok(false) };
        let Ok(key) = Named::whole(id.clone()).key() else {
            self.give_back(ticket, id).await?;
            return Ok(false);
        };
        claims.made(ticket.id, &documents.of_key(&key)?, self.life(ticket));
        Ok(true)
    }

    /// Locks the first document that can be locked, and passes over those before it.
    async fn claim_any(
        &self,
        ticket: &Ticket,
        claiming: &Claiming,
        reads: &Reads,
    ) -> Result<Option<Place>> {
        let documents = &self.locations;
        let (mut unfit, began) = (0, Instant::now());
        loop {
            let (id, why) = match self.claim_one(ticket, claiming, reads).await? {
                Claimed::Yes(place) => return Ok(Some(place)),
                Claimed::Nothing => return Ok(None),
                Claimed::Unfit(id, why) => (id, why),
            };
            tracing::warn!(%why, "queues pass over the document {id} of {} for {UNFIT_REST:?}, because it cannot be locked", self.commands.collection);
            documents.passed_over.add(id);
            unfit += 1;
            if unfit == UNFIT_MAX || began.elapsed() > self.commands.timeout {
                return Err(why);
            }
        }
    }

    async fn claim_one(
        &self,
        ticket: &Ticket,
        claiming: &Claiming,
        reads: &Reads,
    ) -> Result<Claimed> {
        let passed_over = &self.locations.passed_over;
        let is_indexed = claiming.put_off.is_indexed.get_or_try_init(|| self.has_index()).await?;
        let order: &[Which] = match (is_indexed, claiming.put_off.is_due()) {
            (false, _) => &[Which::Any],
            (true, true) => &[Which::PutOff, Which::Fresh],
            (true, false) => &[Which::Fresh, Which::PutOff],
        };
        for &which in order {
            let filters = passed_over.left_out(&claiming.filter);
            match self.claim_first(ticket, claiming, filters, which, reads).await? {
                Claimed::Nothing => {}
                claimed => return Ok(claimed),
            }
            if which == Which::PutOff {
                claiming.put_off.looked();
            }
        }
        Ok(Claimed::Nothing)
    }

    /// Returns whether an index has `not_before`. If the user may not list indexes, it returns
    /// `false`.
    async fn has_index(&self) -> Result<bool> {
        let name = format!("{}.{NOT_BEFORE}", self.locations.field);
        let command = rawdoc! {
            "listIndexes": self.commands.collection.as_str(),
            "maxTimeMS": self.commands.server_ms(),
        };
        let indexes = match self.commands.list(command).await {
            Err(error) if !error.is_retryable() => return Ok(false),
            indexes => indexes?,
        };
        let has =
            |index: &Document| index.get_document("key").is_ok_and(|key| key.contains_key(&name));
        Ok(indexes.iter().any(has))
    }

    /// Locks the first document that matches all filters. The server may refuse without naming the
    /// document. Then the first one is read and claimed by its `_id`.
    async fn claim_first(
        &self,
        ticket: &Ticket,
        claiming: &Claiming,
        mut filters: Vec<Document>,
        which: Which,
        reads: &Reads,
    ) -> Result<Claimed> {
        let field = &self.locations.field;
        filters.extend(which.free(field));
        let query = doc! { "$and": filters };
        for _ in 0..RACES_MAX {
            match self.send_claim(ticket, claiming, &query, reads).await {
                Err(error) if is_about_one(&error) => {}
                claimed => return claimed,
            }
            let Some(id) = self.first(&query, claiming.order.as_ref()).await? else {
                return Ok(Claimed::Nothing);
            };
            let mut only = query.clone();
            only.insert("_id", doc! { "$eq": id.clone() });
            match self.send_claim(ticket, claiming, &only, reads).await {
                Err(error) if is_about_one(&error) => {
                    return Ok(Claimed::Unfit(id, error));
                }
                // Another worker was quicker.
                Ok(Claimed::Nothing) => {}
                claimed => return claimed,
            }
        }
        Ok(Claimed::Nothing)
    }

    /// Returns the `_id` of the first document that matches a filter.
    async fn first(&self, query: &Document, order: Option<&Document>) -> Result<Option<Bson>> {
        let mut command = rawdoc! {
            "find": self.commands.collection.as_str(),
            "filter": raw(query),
            "projection": { "_id": 1 },
            "limit": 1,
            "maxTimeMS": self.commands.server_ms(),
        };
        if let Some(order) = order {
            command.append(cstr!("sort"), raw(order));
        }
        let found = self.commands.list(command).await?;
        Ok(found.into_iter().next().and_then(|mut found| found.remove("_id")))
    }

    async fn send_claim(
        &self,
        ticket: &Ticket,
        claiming: &Claiming,
        query: &Document,
        reads: &Reads,
    ) -> Result<Claimed> {
        let mut put_off = Document::new();
        put_off.insert(format!("{}.{NOT_BEFORE}", self.locations.field), "$$REMOVE");
        let (any, last) = (self.locations.any(&ticket.key, query), raw(&doc! { "$set": put_off }));
        let order = claiming.order.as_ref();
        let joined = self.engine.join_any(&any, ticket, last, order, reads).await?;
        let Some((place, mut document)) = joined else { return Ok(Claimed::Nothing) };
        let id = document.get("_id").cloned().ok_or_else(|| self.commands.strange())?;
        if matches!(reads, Reads::Fields(names) if !names.iter().any(|name| name == "_id")) {
            document.remove("_id");
        }
        let key = match Named::whole(id.clone()).key() {
            Ok(key) => key,
            Err(unnamed) => {
                self.give_back(ticket, &id).await?;
                return Ok(Claimed::Unfit(id, unnamed));
            }
        };
        let location = self.locations.of_key(&key)?;
        self.locations.document_claims.made(ticket.id, &location, self.life(ticket));
        self.engine.has_joined(&location, ticket, &place);
        if *reads != Reads::Nothing {
            self.locations.read_results.put(ticket.id, document);
        }
        Ok(Claimed::Yes(place))
    }

    /// Empties the line of a document that no lock can name: no other ticket can have joined it.
    async fn give_back(&self, ticket: &Ticket, id: &Bson) -> Result<()> {
        let field = &self.locations.field;
        let mut query = doc! { "_id": { "$eq": id } };
        query.insert(format!("{field}.held.id"), ticket.id.to_string());
        let empty = doc! { "$set": { format!("{field}.held"): [] }, "$inc": { format!("{field}.step"): 1_i64 } };
        self.commands.write(self.change_by(&query, &empty)).await.map(drop)
    }
}
