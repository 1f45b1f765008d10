//! One attempt: a majority serves the ticket at once, or it leaves all stores. Also the renewal and
//! the release of an attempt that holds.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{join, try_join};
use futures_util::stream::FuturesUnordered;
use tenure_core::layers::AnyEngine;
use tenure_core::toolbox::jitter;
use tenure_core::{
    Backoff, Engine as _, LeaveMode, LeaveOutcome, Place, Result, Ticket, TicketState, WaitMode,
};

use crate::owed_ticket::QuorumAttempt;
use crate::poll::Poll;
use crate::stores::QuorumNode;
use crate::tokens::{now_us, numbers};
use crate::wait_queue::{QueueTurn, SlotRenewal, WaitSlot};
use crate::{Quorum, Stage, TicketRecord};

/// First pause of a waiter between two tries. It grows by half with each try, up to the time limit
/// of a store.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const TRIES_GROWING: u32 = 16;

/// The place of an attempt that a majority serves. Dropping it removes the attempt from all stores.
type Won = (Place, QuorumAttempt);

impl Quorum {
    /// The first attempt of a ticket, beside its join of the wait queue.
    pub(crate) async fn first_attempt(&self, ticket: &Ticket, mode: WaitMode) -> Result<Place> {
        let queued = async { Ok(self.stand_in_queue(ticket, mode).await) };
        let queued = async { Ok(self.stragglers.in_time(queued).await.unwrap_or_default()) };
        if self.contended.has(&ticket.key) {
            return self.try_in_turn(ticket, queued.await?).await;
        }
        let (turn, won) = try_join(queued, self.attempt(ticket, 0)).await?;
        // If other tickets are ahead, the attempt leaves the stores again.
        Ok(self.settle(ticket, turn, won.filter(|_| !turn.waits)))
    }

    /// Tries again, unless other tickets are ahead.
    async fn try_in_turn(&self, ticket: &Ticket, turn: QueueTurn) -> Result<Place> {
        // The number that inspection showed while it waited must not be above its token.
        let floor = turn.place.map_or(0, |place| place.number);
        if turn.waits {
            return Ok(self.settle(ticket, turn, None));
        }
        match self.attempt(ticket, floor).await {
            Ok(won) => Ok(self.settle(ticket, turn, won)),
            // A client that reaches no majority must not keep others waiting.
            Err(error) => {
                self.set_slot(ticket.id, None);
                Err(error)
            }
        }
    }

    /// Records the outcome of an attempt, if there was one.
    fn settle(&self, ticket: &Ticket, turn: QueueTurn, won: Option<Won>) -> Place {
        let mut tickets = self.tickets.lock();
        let stage = tickets.by_id.get_mut(&ticket.id).map(|record| &mut record.stage);
        match (stage, won) {
            (Some(stage @ Stage::Trying(_)), Some((place, attempt))) => {
                *stage = Stage::Holding { number: place.number, attempt };
                return place;
            }
            (Some(Stage::Trying(failed)), None) => *failed += u32::from(!turn.waits),
            // Its owner has left meanwhile, or another attempt was served: this one leaves, after
            // the lock is released, because stores may be called at once.
            (_, won) => {
                drop(tickets);
                drop(won);
            }
        }
        waiting(turn.place)
    }

    /// One attempt: a majority serves the ticket at once, or it leaves all stores. `None`: busy.
    async fn attempt(&self, ticket: &Ticket, floor: u64) -> Result<Option<Won>> {
        let (id, host) = (self.next_attempt(ticket.id), &*self.stragglers.host);
        let sent = now_us(host);
        let floor = ticket.floor.max(floor).max(self.proposals.next(sent));
        let asked = Ticket { id, floor, ..ticket.clone() };
        let attempt: QuorumAttempt = self.stores.owe(&asked);
        let majority = self.stores.majority();
        let decided = |poll: &Poll<Option<Place>>| {
            let granted = poll.answers().flatten().count();
            let busy = poll.answers().count() - granted;
            granted >= majority || busy > attempt.len() - majority
        };
        let joins = attempt.iter().map(|owed| owed.clone().join(WaitMode::NoWait));
        let poll = self.stores.ask_each(decided, joins).await;
        let heard = now_us(host);
        let granted: Vec<&Place> = poll.answers().flatten().collect();
        if granted.len() < majority {
            return poll.enough_answers(majority).map(|_| None);
        }
        self.stores.health.compare(&numbers(&poll));
        let number = granted.iter().map(|place| place.number).max().unwrap_or(0);
        if granted.iter().filter(|place| place.number == number).count() < majority {
            // A majority knows the number before it is used. A store in which the ticket is leaving
            // does not change it any more.
            let poll = self.renew_everywhere(Ticket { floor: number, ..asked }).await;
            if poll.kept().count() < majority {
                return Err(poll.too_few("took down the number", majority));
            }
        }
        self.proposals.learn((sent, heard), floor, number);
        let life = granted.iter().filter_map(|place| place.life).min();
        Ok(Some((held(number, life), attempt)))
    }

    /// Renews a holder, and its place in the wait queue.
    pub(crate) async fn renew_held(
        &self,
        ticket: &Ticket,
        number: u64,
        attempt: &QuorumAttempt,
        slot: Option<&WaitSlot>,
    ) -> Result<Option<Place>> {
        let asked = Ticket { id: attempt[0].ticket.id, ..ticket.clone() };
        let renew_slot = async {
            match slot {
                Some(slot) => self.renew_slot(ticket, slot).await,
                None => SlotRenewal::Lost,
            }
        };
        let (poll, renewed) = join(self.renew_everywhere(asked), renew_slot).await;
        if let SlotRenewal::Lost = renewed {
            // The next waiter tries after pauses.
            self.set_slot(ticket.id, None);
        }
        let (kept, majority) = (poll.kept().count(), self.stores.majority());
        if kept >= majority {
            let life = poll.kept().filter_map(|place| place.life).min();
            // The ticket may have been broken while it waited, and served at the same moment.
            let leaving = matches!(renewed, SlotRenewal::Broken);
            return Ok(Some(Place { leaving, ..held(number, life) }));
        }
        if kept + poll.silent() >= majority {
            return Err(poll.too_few("renewed", majority));
        }
        // No majority has it any more. Its owner releases the rest when it has stopped.
        let is_asked_to_leave = poll.answers().flatten().count() > kept;
        Ok(is_asked_to_leave.then(|| Place { leaving: true, ..held(number, None) }))
    }

    /// Renews a place in the wait queue, and tries when its turn has come.
    pub(crate) async fn renew_waiting(
        &self,
        ticket: &Ticket,
        record: TicketRecord,
    ) -> Result<Option<Place>> {
        let turn = match (record.slot, record.stage) {
            // A push said so, and this is the first attempt since.
            (Some(slot), Stage::Trying(0)) if slot.is_served() => slot.place.into(),
            (Some(slot), _) => match self.renew_slot(ticket, &slot).await {
                SlotRenewal::Kept(place) => place.into(),
                SlotRenewal::Lost | SlotRenewal::Silent => {
                    self.stand_in_queue(ticket, WaitMode::Wait).await
                }
                SlotRenewal::Broken => {
                    self.forget(ticket);
                    return Ok(None);
                }
            },
            (None, _) => self.stand_in_queue(ticket, WaitMode::Wait).await,
        };
        self.try_in_turn(ticket, turn).await.map(Some)
    }

    /// Renews one attempt in every store.
    async fn renew_everywhere(&self, ticket: Ticket) -> Poll<Option<Place>> {
        let majority = self.stores.majority();
        let renew = |engine: AnyEngine| {
            let ticket = ticket.clone();
            async move { engine.renew(&ticket).await }
        };
        self.stores.ask(|poll| poll.kept().count() >= majority, renew).await
    }

    /// Removes one attempt from every store.
    pub(crate) async fn leave_everywhere(
        &self,
        attempt: &Ticket,
        how: LeaveMode,
    ) -> Result<LeaveOutcome> {
        let leave = |engine: AnyEngine| {
            let attempt = attempt.clone();
            async move { engine.leave(&attempt, how).await }
        };
        self.stores.ask(|poll| self.is_out(poll), leave).await.left(self.stores.majority())
    }

    /// Removes the attempt that holds.
    pub(crate) async fn give_up(&self, attempt: QuorumAttempt) -> Result<LeaveOutcome> {
        let leaves = attempt.iter().map(|owed| owed.clone().leave());
        let poll = self.stores.ask_each(|poll| self.is_out(poll), leaves).await;
        poll.left(self.stores.majority())
    }

    fn is_out(&self, poll: &Poll<LeaveOutcome>) -> bool {
        poll.count(LeaveOutcome::Holding) >= self.stores.majority()
    }

    /// Waits until a majority reports a change of a holder: usually that it was asked to leave.
    pub(crate) async fn await_break(&self, attempt: &Ticket) {
        let watch = |node: &Arc<QuorumNode>| {
            let (node, attempt) = (node.clone(), attempt.clone());
            async move {
                let host = &*self.stragglers.host;
                let mut backoff = Backoff::new(self.patience, self.patience * 16);
                while node.engine.watch(&attempt, TicketState::Holding).await.is_err() {
                    host.sleep(backoff.next(host.random())).await;
                }
            }
        };
        let mut watches: FuturesUnordered<_> = self.stores.nodes.iter().map(watch).collect();
        let mut rung = 0;
        while watches.next().await.is_some() {
            rung += 1;
            if rung >= self.stores.majority() {
                return;
            }
        }
        // The next renewal finds the change.
        std::future::pending::<()>().await;
    }

    /// The pause after this many attempts that failed.
    pub(crate) fn pause(&self, failed: u32) -> Duration {
        let grown = failed.saturating_sub(1).min(TRIES_GROWING);
        let pause = PAUSE_FIRST * 3u32.pow(grown) / 2u32.pow(grown);
        // From 3/4 to 3/2 of the pause: the average is the pause itself.
        jitter(pause.min(self.patience) * 3 / 2, self.stragglers.host.random())
    }
}

fn held(number: u64, life: Option<Duration>) -> Place {
    Place { number, state: TicketState::Holding, ahead: 0, life, look: None, leaving: false }
}

/// The place of a ticket that no majority serves. `place` is its place in the wait queue.
fn waiting(place: Option<Place>) -> Place {
    Place {
        number: place.map_or(0, |place| place.number),
        state: TicketState::Waiting,
        ahead: place.map_or(1, |place| place.ahead.max(1)),
        life: None,
        look: place.and_then(|place| place.look),
        leaving: false,
    }
}
