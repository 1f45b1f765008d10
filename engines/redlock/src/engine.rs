//! The engine: the ten verbs over a quorum.

use futures_util::future::{join, join_all};
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::{
    CounterValue, Engine, Error, FaultTolerance, Guarantees, Key, LeaveMode, LeaveOutcome,
    Liveness, Loss, Place, Result, SHARE_OF_MAX, Ticket, TicketState, TokenDurability, WaitMode,
    Wake, Window,
};

use crate::{Quorum, Stage, TicketRecord};

/// Any two majorities share a store, but three of them need not share one: three holders of "2 of
/// 2" could each have two of three stores. Only mutexes, writers and readers are supported.
fn refuse_unsafe(ticket: &Ticket) -> Result<()> {
    let (take, of) = (ticket.share.take(), ticket.share.of());
    if of == SHARE_OF_MAX && (take == 1 || take == of) {
        return Ok(());
    }
    let key = &ticket.key;
    let kind = if of == SHARE_OF_MAX {
        format!("{take} shares of the reader-writer lock {key:?}")
    } else {
        format!("{key:?} as a semaphore of {of}")
    };
    Err(Error::unsupported(format!(
        "a quorum cannot keep {kind}: it keeps mutexes, readers and writers; take one store for anything else"
    )))
}

impl Engine for Quorum {
    fn guarantees(&self) -> Guarantees {
        let nodes: Vec<Guarantees> =
            self.stores.nodes.iter().map(|node| node.engine.guarantees()).collect();
        let all =
            |holds: fn(&FaultTolerance) -> bool| nodes.iter().all(|node| holds(&node.survives));
        let mut guarantees = Guarantees::new(self.name, Liveness::Lease);
        guarantees.store = self.stores.health.names();
        guarantees.fencing =
            nodes.iter().map(|node| node.fencing).min().unwrap_or(TokenDurability::None);
        guarantees.survives.holder_crash = true;
        guarantees.survives.holder_pause = true;
        guarantees.survives.store_crash = all(|node| node.store_crash);
        guarantees.survives.clock_step = all(|node| node.clock_step);
        guarantees.survives.full_memory = all(|node| node.full_memory);
        let of_stores = nodes.iter().flat_map(|node| node.warnings.clone());
        guarantees.warnings = of_stores.chain(self.stores.health.warnings()).collect();
        guarantees.rounding = nodes.iter().map(|node| node.rounding).max().unwrap_or_default();
        // The steps: renew the place in the queue, check for a break, join another queue, try,
        // write the number.
        guarantees.answers_within =
            self.patience * u32::try_from(self.queues.nodes.len() + 4).unwrap_or(u32::MAX);
        guarantees
    }

    async fn join(&self, ticket: &Ticket, mode: WaitMode) -> Result<Option<Place>> {
        refuse_unsafe(ticket)?;
        let joined = match self.record(ticket.id) {
            None | Some(TicketRecord { stage: Stage::Trying(_), slot: None, .. }) => {
                let ended = self.tickets.lock().add(ticket, self.stragglers.host.now());
                drop(ended);
                self.first_attempt(ticket, mode).await
            }
            // An earlier join put it in, and its answer was lost. A ticket that is gone stays out.
            Some(_) => match self.renew(ticket).await {
                Ok(None) if self.was_broken(ticket.id).await => Err(Error::lost(Loss::Broken)),
                renewed => {
                    renewed.and_then(|place| place.ok_or_else(|| Error::lost(Loss::Expired)))
                }
            },
        };
        let may_stay =
            |place: &Place| mode == WaitMode::Wait || place.state == TicketState::Holding;
        let joined = joined.map(|place| Some(place).filter(may_stay));
        // If it is in, or may be in, its owner continues with it or releases it.
        if !matches!(&joined, Ok(Some(_))) && !joined.as_ref().is_err_and(Error::is_retryable) {
            self.forget(ticket);
        }
        joined
    }

    /// Renews a holder. A waiter waits for its turn, or tries again.
    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        refuse_unsafe(ticket)?;
        let record = self.tickets.lock().renew(ticket, self.stragglers.host.now());
        let Some(record) = record else { return Ok(None) };
        match &record.stage {
            Stage::Trying(_) => self.renew_waiting(ticket, record).await,
            Stage::Holding { number, attempt } => {
                self.renew_held(ticket, *number, attempt, record.slot.as_ref()).await
            }
        }
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let Some(record) = self.record(ticket.id) else { return self.take_out(ticket, how).await };
        if let (Stage::Holding { attempt, .. }, LeaveMode::Graceful) = (&record.stage, how) {
            let attempt = Ticket { id: attempt[0].ticket.id, ..ticket.clone() };
            return self.leave_everywhere(&attempt, how).await;
        }
        self.forget(ticket);
        match record.stage {
            // Each of its tries has left all stores.
            Stage::Trying(_) => {
                self.leave_queue(record.slot).await;
                Ok(LeaveOutcome::Waiting)
            }
            Stage::Holding { attempt, .. } => {
                join(self.give_up(attempt), self.leave_queue(record.slot)).await.0
            }
        }
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        let Some(TicketRecord { stage, slot, .. }) = self.record(ticket.id) else {
            return Ok(Wake::Look);
        };
        match (stage, seen, slot) {
            // Its ttl runs from the successful try, which only a renewal can report.
            (Stage::Holding { .. }, TicketState::Waiting, _)
            | (Stage::Trying(_), TicketState::Holding, _) => {}
            (Stage::Holding { attempt, .. }, TicketState::Holding, slot) => {
                let attempt_id = attempt[0].ticket.id;
                // A waiting task must not keep the other tickets of this client alive.
                drop((attempt, slot));
                self.await_break(&Ticket { id: attempt_id, ..ticket.clone() }).await;
            }
            (Stage::Trying(_), TicketState::Waiting, Some(slot)) if !slot.is_served() => {
                self.await_turn(ticket, slot).await;
            }
            (Stage::Trying(failed), TicketState::Waiting, slot) => {
                drop(slot);
                self.stragglers.host.sleep(self.pause(failed)).await;
            }
        }
        Ok(Wake::Look)
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        self.sampler.events(self, &*self.stragglers.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.line_of_majority(key).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.keys_of_majority(prefix).await
    }

    async fn add(&self, _: &Key, _: u64, _: Option<Window>) -> Result<CounterValue> {
        Err(Error::unsupported(
            "a quorum keeps no counters and no sequences: use one store for them, because the counts of several cannot be made one",
        ))
    }

    async fn swap(&self, _: &Key, _: &str, _: &str) -> Result<String> {
        Err(Error::unsupported(
            "a quorum keeps no values, and so no slots of `once`: use one store for them, because the values of several cannot be replaced in one step",
        ))
    }

    async fn close(&self) {
        self.stragglers.flush().await;
        let nodes = self.stores.nodes.iter().chain(&self.queues.nodes);
        join_all(nodes.map(|node| async {
            node.releaser.flush().await;
            node.engine.close().await;
        }))
        .await;
    }
}
