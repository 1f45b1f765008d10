//! A claim: one command that locks any one document which matches a filter, skips what is held, and reads it.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, bson, doc, rawdoc};
use tenure_core::{Engine, Error, Place, Result, Ticket};

use super::name::Named;
use crate::alone::NOT_BEFORE;
use crate::answer::{self, Came, whole};
use crate::call::Update;
use crate::lens::Lens;
use crate::line::{Writer, raw};
use crate::readable::{may_have_line, number};
use crate::spots::Claiming;
use crate::store::MongoStore;
use crate::trouble;
use crate::wish::{Reads, Verb, Wish};

impl MongoStore {
    /// Locks one document; `None` if there is none that matches and is free.
    pub(super) async fn claim(
        &self,
        ticket: &Ticket,
        claiming: &Arc<Claiming>,
        reads: Reads,
    ) -> Result<Option<Place>> {
        if self.has_claimed(ticket).await? {
            return Engine::renew(self, ticket).await;
        }
        let claimed = self.claim_any(ticket, claiming, reads).await;
        if claimed.as_ref().is_err_and(Error::is_unknown) {
            self.spots.in_documents()?.doubt(ticket.id, claiming);
        }
        claimed
    }

    /// Whether the ticket has claimed a document. One whose claim was not answered is looked for among all that match.
    pub(super) async fn has_claimed(&self, ticket: &Ticket) -> Result<bool> {
        let documents = self.spots.in_documents()?;
        if documents.claimed_by(ticket.id).is_some() {
            return Ok(true);
        }
        let Some(claiming) = documents.doubtful_claim(ticket.id) else { return Ok(false) };
        let held = doc! { format!("{}.held.id", documents.field): ticket.id.to_string() };
        let query = doc! { "$and": [claiming.filter.clone(), held] };
        let answer = self.calls.write(self.touch(&query)?).await?;
        let found = answer.get_document("value").ok().and_then(|found| found.get("_id"));
        let Some(id) = found else { return Ok(false) };
        let spot = self.spots.of_key(&Named::whole(id.clone()).key()?)?;
        documents.claim(ticket.id, &spot);
        Ok(true)
    }

    async fn claim_any(
        &self,
        ticket: &Ticket,
        claiming: &Claiming,
        reads: Reads,
    ) -> Result<Option<Place>> {
        let documents = self.spots.in_documents()?;
        let field = &documents.field;
        let filter = doc! { "$and": [claiming.filter.clone(), free(field)] };
        let any = documents.any(&ticket.key, &filter);
        let alone = any.kit.alone.as_ref().ok_or_else(|| trouble::strange(&self.calls.name))?;
        let wish =
            Wish { reads: reads.clone(), ..Wish::new(ticket.clone(), Verb::Join { hurry: true }) };
        let claim = alone.claim(ticket, self.lanes.inbox());
        let update = Update {
            filter: &any.filter,
            filling: None,
            first: claim.first,
            is_plain: false,
            stages: [claim.stages, &[], &[]],
            fields: with_id(any.kit.answers.of_alone(&reads)),
            makes: false,
            expects: RawDocumentBuf::new(),
            sort: claiming.order.as_ref(),
        };
        let Some(mut answer) = self.calls.update(&update).await? else { return Ok(None) };
        let strange = || trouble::strange(&self.calls.name);
        let id = answer.get("_id").cloned().ok_or_else(strange)?;
        if matches!(&reads, Reads::Fields(names) if !names.iter().any(|name| name == "_id")) {
            answer.remove("_id");
        }
        let key = Named::whole(id).key()?;
        let spot = self.spots.of_key(&key)?;
        let opened = spot.kit.answers.open_alone(answer);
        let came = answer::alone(&opened.said, wish.verb).ok_or_else(strange)?;
        let Came::In(place) = came else { return Err(strange()) };
        documents.claim(ticket.id, &spot);
        self.mail.expect(ticket.id, ticket.ttl);
        self.roll.enter(&spot.record, ticket.id, self.stream.is_open(), &self.mail);
        self.roll.came_alone(&spot.record, ticket.id);
        self.mail.learn(ticket.id, &place);
        if let Some(document) = opened.document {
            self.tray.put(&wish, &document);
        }
        Ok(Some(place))
    }

    /// How long it is until a document that matches may be free, if nobody lets it go before: its holder may be dead, or
    /// somebody wants it tried again later. `None`: no document matches.
    pub(super) async fn next_due(&self, filter: Document) -> Result<Option<Duration>> {
        let field = &self.spots.in_documents()?.field;
        let pipeline = [
            doc! { "$match": { "$and": [filter, { "$expr": readable(field) }] } },
            doc! { "$group": { "_id": null, "due": { "$min": { "$subtract": [due(field), now(field)] } } } },
        ];
        let mut stages = RawArrayBuf::new();
        for stage in &pipeline {
            stages.push(raw(stage));
        }
        let command = rawdoc! {
            "aggregate": self.calls.collection.as_str(),
            "pipeline": stages,
            "cursor": {},
            "maxTimeMS": self.calls.server_ms(),
        };
        let answer = self.calls.ask(&self.calls.database, command).await?;
        let batch = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let batch =
            batch.map_err(|_| Error::rejected("an aggregation was answered without a batch"))?;
        let first = batch.first().and_then(Bson::as_document);
        let due = first.and_then(|first| whole(first, "due"));
        Ok(due.map(|due| Duration::from_millis(u64::try_from(due).unwrap_or(0))))
    }
}

/// Nobody is there, or nobody who lives. The first can be told without an expression, which is slow.
fn free(field: &str) -> Document {
    let mut nobody = Writer(&Lens::field(field)).nobody_readable();
    nobody.insert(format!("{field}.{NOT_BEFORE}"), doc! { "$exists": false });
    let is_over = bson!({ "$lte": [due(field), now(field)] });
    doc! { "$or": [nobody, { "$expr": { "$and": [is_over, readable(field)] } }] }
}

/// Who may hold by what cannot be read is not known, and how long a document is put off neither.
fn readable(field: &str) -> Bson {
    let (lens, then) = (Lens::field(field), format!("${field}.{NOT_BEFORE}"));
    let writer = Writer(&lens);
    bson!({ "$and": [
        may_have_line(field), writer.is_readable(), writer.ends_readable(), writer.has_numbers(), number(&then),
    ] })
}

/// When a document is free: nobody lives in its line, and it is not put off. Zero if nobody ever was there.
fn due(field: &str) -> Bson {
    let ends = |array: &str| bson!({ "$max": format!("${field}.{array}.ends") });
    let latest =
        bson!({ "$max": [ends("held"), ends("waiting"), format!("${field}.{NOT_BEFORE}")] });
    bson!({ "$ifNull": [latest, 0_i64] })
}

fn now(field: &str) -> Bson {
    bson!({ "$max": [format!("${field}.at"), { "$toLong": "$$NOW" }] })
}

/// The same fields and the `_id`, by which the document is known from now on.
fn with_id(fields: RawDocumentBuf) -> RawDocumentBuf {
    if fields.is_empty() {
        return fields;
    }
    let mut fields = Document::try_from(fields).unwrap_or_default();
    fields.insert("_id", 1);
    raw(&fields)
}
