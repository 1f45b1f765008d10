//! Writes of a holder: each is one command that is carried out only while the holder's ticket
//! holds, by the server's clock.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, bson, cstr, doc, rawdoc};
use mongodb::options::UpdateModifications;
use tenure_core::{Backoff, Error, Result};
use tenure_mongodb::extension::{Reads, raw, unless_foreign};
use tokio::time::sleep;

use crate::change::{ChangeTarget, DocumentChange};
use crate::holder_query::is_before;
use crate::locations::NOT_BEFORE;
use crate::request::{Act, Done, Holding, Update};
use crate::store::DocumentStore;

/// Maximum retries of a write whose answer was lost.
const RETRIES: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// One write.
struct HolderWrite {
    holding: Holding,
    /// The number of this write of its holder, from 1.
    count: i64,
    what: WriteKind,
}

enum WriteKind {
    Change(DocumentChange),
    Delete,
    /// A change with which the ticket leaves, even if other tickets stand in the line.
    Leave(Vec<Document>),
    /// The same by operators, which applies only if no other ticket stands in the line.
    LeaveAlone(DocumentChange),
}

impl DocumentStore {
    /// Runs an act of a holder. `count` is the number of the write, from 1.
    pub(crate) async fn act(
        self: Arc<Self>,
        holding: Holding,
        count: i64,
        act: Act,
    ) -> Result<Done> {
        let (documents, id) = (&self.locations, holding.id);
        if !matches!(act, Act::Update(_) | Act::Replace(_)) {
            documents.begins_to_leave(id);
        }
        let done = self.clone().carry_out(holding, count, act).await;
        documents.stays(id);
        done
    }

    async fn carry_out(self: Arc<Self>, holding: Holding, count: i64, act: Act) -> Result<Done> {
        let ticket = holding.id.to_string();
        let field = self.field().to_owned();
        let target = ChangeTarget {
            field: &field,
            path: &holding.named.path,
            ticket: &ticket,
            write: count,
        };
        let (what, instead) = match act {
            Act::Replace(document) => {
                let update = target.replacement(&document)?.into();
                (WriteKind::Change(DocumentChange { update, elements: Vec::new() }), None)
            }
            Act::Delete => (WriteKind::Delete, None),
            Act::PutOff(time) => {
                let most = i64::MAX >> 8;
                let millis = i64::try_from(time.as_millis()).unwrap_or(most).min(most);
                (WriteKind::Leave(target.put_off(millis, NOT_BEFORE)), None)
            }
            Act::Leave(Update { by: UpdateModifications::Pipeline(stages), array_filters })
                if array_filters.is_empty() =>
            {
                (WriteKind::Leave(target.pipeline(&stages)?), None)
            }
            Act::Leave(Update { by: UpdateModifications::Document(operators), array_filters })
                if holding.named.path.is_whole() =>
            {
                let alone = WriteKind::LeaveAlone(target.leave_alone(&operators, &array_filters)?);
                let change = Update::new(operators).array_filters(array_filters);
                (alone, Some(target.change(change)?))
            }
            // The ticket of a part leaves after the change.
            Act::Update(update) | Act::Leave(update) => {
                (WriteKind::Change(target.change(update)?), None)
            }
        };
        let write = HolderWrite { holding, count, what };
        let done = self.clone().write(&write).await?;
        match instead {
            // Another ticket waits: the change is made first, and then the release serves it.
            Some(change) if done == Done::No => {
                self.write(&HolderWrite { what: WriteKind::Change(change), ..write }).await
            }
            _ => Ok(done),
        }
    }

    /// Makes a write, and retries it if its answer was lost. The counter in the ticket shows
    /// whether it was made.
    async fn write(self: Arc<Self>, write: &HolderWrite) -> Result<Done> {
        let location = self.locations.of_key(&write.holding.named.key()?)?;
        let (mut tries, mut backoff) = (0, Backoff::new(RETRY_PAUSE, Duration::MAX));
        let _turn = self.engine.turn(&location).await;
        loop {
            let unknown = match self.commands.write(self.command(write)?).await {
                Ok(answer) if is_found(&answer) => return self.is_made(write, &answer),
                Ok(_) if tries == 0 => return Ok(Done::No),
                Ok(_) => return self.was_made(write).await,
                Err(error) if error.is_retryable() && tries < RETRIES => error,
                Err(error) => {
                    let key = write.holding.named.key()?;
                    return Err(self.commands.in_line(error, &location, &key));
                }
            };
            tracing::debug!(%unknown, "a write under a lock is sent again");
            sleep(backoff.pause()).await;
            tries += 1;
        }
    }

    /// Reads the document for its holder. It is a write, too: only the primary can confirm one, so
    /// no older document is read.
    pub(crate) async fn read(
        self: Arc<Self>,
        holding: Holding,
        reads: Reads,
    ) -> Result<Option<Document>> {
        let field = self.field();
        let location = self.locations.of_key(&holding.named.key()?)?;
        let step = format!("{field}.step");
        let mut command = self.under(&holding, Vec::new(), Document::new());
        // A part may be locked in a document whose lock field has another value at the root.
        let mut sets = unless_foreign(field);
        sets.insert(&step, doc! { "$add": [{ "$ifNull": [format!("${step}"), 0_i64] }, 1_i64] });
        let stage = doc! { "$set": sets };
        command.append(cstr!("update"), raw_array(&[stage]));
        command.append(cstr!("new"), true);
        command.append(cstr!("fields"), location.pipelines().answers().document(&reads));
        let answer = self.commands.write(command).await;
        let key = holding.named.key()?;
        let mut answer = answer.map_err(|error| self.commands.in_line(error, &location, &key))?;
        let Some(Bson::Document(found)) = answer.remove("value") else { return Ok(None) };
        Ok(location.pipelines().answers().open(found).document)
    }

    /// Returns the condition that no other ticket stands in the line of a whole document.
    fn nobody_else(&self) -> Document {
        let field = self.field();
        let absent = || doc! { "$exists": false };
        doc! { format!("{field}.held.1"): absent(), format!("{field}.waiting.0"): absent() }
    }

    pub(crate) fn field(&self) -> &str {
        &self.locations.field
    }

    fn command(&self, write: &HolderWrite) -> Result<RawDocumentBuf> {
        let only = match write.what {
            WriteKind::LeaveAlone(_) => self.nobody_else(),
            _ => Document::new(),
        };
        let mut command = self.under(&write.holding, vec![is_before(write.count)], only);
        match &write.what {
            WriteKind::Delete => command.append(cstr!("remove"), true),
            WriteKind::Leave(stages) => {
                command.append(cstr!("update"), self.stages_of_leave(&write.holding, stages)?);
            }
            WriteKind::Change(change) | WriteKind::LeaveAlone(change) => {
                let update = raw(&doc! { "update": change.update.clone() });
                if let Ok(Some(update)) = update.get("update") {
                    command.append(cstr!("update"), update);
                }
                if !change.elements.is_empty() {
                    command.append(cstr!("arrayFilters"), raw_array(&change.elements));
                }
            }
        }
        let mut said = doc! { "_id": 1 };
        if let WriteKind::Leave(_) = write.what {
            said.insert(format!("{}.notices", self.field()), 1);
        }
        command.append(cstr!("fields"), raw(&said));
        command.append(cstr!("new"), !matches!(write.what, WriteKind::Delete));
        Ok(command)
    }

    /// Returns the stages of the holder's change, followed by the verb with which its ticket
    /// leaves.
    fn stages_of_leave(&self, holding: &Holding, change: &[Document]) -> Result<RawArrayBuf> {
        let mut stages = raw_array(change);
        let location = self.locations.of_key(&holding.named.key()?)?;
        let leave = self.engine.leave_stages(&location, holding.id);
        for stage in leave {
            stages.push(stage);
        }
        let mut by = Document::new();
        by.insert(format!("{}.by", self.field()), holding.id.to_string());
        stages.push(raw(&doc! { "$set": by }));
        Ok(stages)
    }

    /// Records that the write was made. If the ticket left with it, it needs no other leave.
    fn is_made(&self, write: &HolderWrite, answer: &Document) -> Result<Done> {
        let id = write.holding.id;
        if !matches!(write.what, WriteKind::Change(_)) {
            let found = answer.get_document("value").ok();
            let said = found.and_then(|found| found.get_document(&self.locations.field).ok());
            self.locations.has_left(id);
            let location = self.locations.of_key(&write.holding.named.key()?)?;
            self.engine.has_left(&location, id, said);
            self.locations.forget(id);
        }
        Ok(Done::Yes)
    }

    /// Returns whether an earlier attempt was carried out: the seat has its mark, or the document
    /// is gone.
    async fn was_made(&self, write: &HolderWrite) -> Result<Done> {
        let made = bson!({ "$gte": ["$$held.w", write.count] });
        let step = format!("{}.step", self.field());
        let mut command = self.under(&write.holding, vec![made], Document::new());
        let mut next = Document::new();
        next.insert(step, 1_i64);
        command.append(cstr!("update"), raw(&doc! { "$inc": next }));
        command.append(cstr!("fields"), rawdoc! { "_id": 1 });
        let made = match write.what {
            WriteKind::Change(_) => self.commands.write(command).await?,
            WriteKind::Delete if !self.is_there(write).await? => {
                return self.is_made(write, &Document::new());
            }
            // Another ticket has come, so this one cannot leave alone any more.
            WriteKind::LeaveAlone(_) if self.is_unmade(write).await? => return Ok(Done::No),
            WriteKind::Leave(_) | WriteKind::LeaveAlone(_) | WriteKind::Delete => {
                self.last_left(write).await?
            }
        };
        if is_found(&made) {
            return self.is_made(write, &made);
        }
        Err(Error::unavailable(
            "the answer to a write under a lock was lost, and meanwhile the lock, too: it may be made, or not",
        ))
    }

    /// Returns whether the ticket still holds, and has no mark of this write.
    async fn is_unmade(&self, write: &HolderWrite) -> Result<bool> {
        let unmade = is_before(write.count);
        let mut command = self.under(&write.holding, vec![unmade], Document::new());
        let mut next = Document::new();
        next.insert(format!("{}.step", self.field()), 1_i64);
        command.append(cstr!("update"), raw(&doc! { "$inc": next }));
        Ok(is_found(&self.commands.write(command).await?))
    }

    /// Returns whether the document exists. It is checked by a write, which only the primary can
    /// confirm.
    async fn is_there(&self, write: &HolderWrite) -> Result<bool> {
        let named = write.holding.named.filter();
        Ok(is_found(&self.commands.write(self.touch(&named)).await?))
    }

    /// Returns the document, if this ticket was the last one that left it with a change.
    async fn last_left(&self, write: &HolderWrite) -> Result<Document> {
        let field = self.field();
        let mut query = write.holding.named.filter();
        query.insert(format!("{field}.by"), write.holding.id.to_string());
        self.commands.write(self.touch(&query)).await
    }
}

fn is_found(answer: &Document) -> bool {
    matches!(answer.get("value"), Some(Bson::Document(_)))
}

pub(crate) fn raw_array(documents: &[Document]) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    for document in documents {
        array.push(raw(document));
    }
    array
}
