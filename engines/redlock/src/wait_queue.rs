//! The wait queue: a line of all tickets of a key, in one of the stores. It orders them, and the
//! majority decides which of them hold.
//!
//! A ticket joins the queue at the same time as the stores, so a free lock costs one round trip.
//! It tries to hold only while the queue serves it. A holder keeps its place, so its release wakes
//! the next waiter by a push. If no store with a queue answers, tickets try after pauses.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::layers::AnyEngine;
use tenure_core::sync::Mutex;
use tenure_core::{
    CounterValue, Engine as _, Key, Place, Result, Ticket, TicketId, TicketState, WaitMode, Wake,
    Window,
};

use crate::Quorum;
use crate::owed_ticket::OwedTicket;
use crate::poll::Poll;
use crate::stores::QuorumNode;
use crate::tokens::now_us;

/// Above this number of keys the set is cleared, and each key costs its next waiter one pause.
const KEYS_MAX: usize = 1024;

/// Pause between two looks at this client's own record of a waiting ticket. No request is sent.
const MOVED_LOOK: Duration = Duration::from_secs(1);

/// A place in the wait queue. Dropping it lets the next waiter try.
#[derive(Clone)]
pub(crate) struct WaitSlot {
    /// Each place has its own id: a late removal of an old place must not remove the next.
    owed: Arc<OwedTicket>,
    /// The last known place.
    pub(crate) place: Place,
}

impl WaitSlot {
    /// Whether the queue serves it.
    pub(crate) fn is_served(&self) -> bool {
        self.place.state == TicketState::Holding
    }

    /// Its ticket in the queue's store.
    fn ticket(&self, ticket: &Ticket) -> Ticket {
        Ticket { id: self.owed.ticket.id, floor: 0, ..ticket.clone() }
    }
}

/// The position of a ticket in the wait queue. The default: no store with a queue answers.
#[derive(Clone, Copy, Default)]
pub(crate) struct QueueTurn {
    /// Whether other tickets are ahead.
    pub(crate) waits: bool,
    /// Its place, if it stands in the queue.
    pub(crate) place: Option<Place>,
}

impl From<Place> for QueueTurn {
    fn from(place: Place) -> Self {
        Self { waits: place.state == TicketState::Waiting, place: Some(place) }
    }
}

/// The result of a renewal of a place.
pub(crate) enum SlotRenewal {
    Kept(Place),
    /// The store has lost the place.
    Lost,
    /// The store did not answer.
    Silent,
    /// The ticket was broken.
    Broken,
}

/// The keys with waiters, as far as this client has seen. The next ticket asks the queue before it
/// tries. Otherwise the attempt of a client that locks again would disturb the attempt of the
/// waiter that its own release has woken.
#[derive(Default)]
pub(crate) struct Contended(Mutex<HashSet<Key>>);

impl Contended {
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.0.lock().contains(key)
    }

    fn set(&self, key: &Key, is_contended: bool) {
        let mut keys = self.0.lock();
        if !is_contended {
            keys.remove(key);
        } else if !keys.contains(key) {
            if keys.len() >= KEYS_MAX {
                keys.clear();
            }
            keys.insert(key.clone());
        }
    }
}

impl Quorum {
    /// Joins the queue in the first store that answers.
    pub(crate) async fn stand_in_queue(&self, ticket: &Ticket, mode: WaitMode) -> QueueTurn {
        for node in self.queues_of(&ticket.key) {
            let id = self.next_attempt(ticket.id);
            let floor = self.proposals.next(now_us(&*self.stragglers.host));
            let owed = OwedTicket::new(node, Ticket { id, floor, ..ticket.clone() }, None);
            let Ok(joined) = self.stragglers.in_time(owed.clone().join(mode)).await else {
                continue;
            };
            // A ticket that may not wait stands in the queue only if it is served.
            let turn = joined.map_or(QueueTurn { waits: true, place: None }, QueueTurn::from);
            self.contended.set(&ticket.key, turn.waits);
            self.set_slot(ticket.id, joined.map(|place| WaitSlot { owed, place }));
            return turn;
        }
        self.set_slot(ticket.id, None);
        QueueTurn::default()
    }

    /// The stores for the queue of a key, in order: first those that answered their last request.
    fn queues_of(&self, key: &Key) -> impl Iterator<Item = &Arc<QuorumNode>> {
        let queues = &self.queues.nodes;
        let first = usize::from(key.hash_in("turn")[0]);
        let mut order: Vec<usize> =
            (first..first + queues.len()).map(|at| at % queues.len()).collect();
        order.sort_by_key(|at| !self.stores.health.is_well(*at));
        order.into_iter().map(|at| &queues[at])
    }

    /// Renews a place in the queue.
    pub(crate) async fn renew_slot(&self, ticket: &Ticket, slot: &WaitSlot) -> SlotRenewal {
        let asked = slot.ticket(ticket);
        match self.stragglers.in_time(slot.owed.node.engine.renew(&asked)).await {
            Ok(Some(place)) if !place.leaving => {
                self.change_slot(ticket.id, asked.id, place);
                SlotRenewal::Kept(place)
            }
            Ok(None) => {
                slot.owed.is_out();
                if self.was_broken(ticket.id).await {
                    SlotRenewal::Broken
                } else {
                    SlotRenewal::Lost
                }
            }
            Ok(Some(_)) => SlotRenewal::Broken,
            Err(_) => SlotRenewal::Silent,
        }
    }

    /// Waits until the queue may serve the ticket. It does not keep the place alive.
    pub(crate) async fn await_turn(&self, ticket: &Ticket, slot: WaitSlot) {
        let (node, asked, place) = (slot.owed.node.clone(), slot.ticket(ticket), slot.place);
        // A waiting task must not keep the place of a ticket that has left.
        drop(slot);
        let watch = pin!(node.engine.watch(&asked, TicketState::Waiting));
        let woken = match select(watch, pin!(self.moved(ticket.id, asked.id))).await {
            Either::Left((woken, _)) => woken,
            Either::Right(_) => return,
        };
        match woken {
            Ok(Wake::Served(number)) => {
                let place = Place { number, state: TicketState::Holding, ..place };
                self.change_slot(ticket.id, asked.id, place);
            }
            Ok(Wake::Look) => {}
            Err(_) => self.stragglers.host.sleep(self.patience).await,
        }
    }

    /// Waits until a renewal has found another place for a ticket: the store of the place that is
    /// watched does not answer.
    async fn moved(&self, id: TicketId, in_queue: TicketId) {
        let is_there = || {
            let tickets = self.tickets.lock();
            let slot = tickets.by_id.get(&id).and_then(|record| record.slot.as_ref());
            slot.is_some_and(|slot| slot.owed.ticket.id == in_queue)
        };
        while is_there() {
            self.stragglers.host.sleep(MOVED_LOOK).await;
        }
    }

    /// Removes a place, so the next waiter tries.
    pub(crate) async fn leave_queue(&self, slot: Option<WaitSlot>) {
        if let Some(slot) = slot {
            // A store without an answer is asked again in the background.
            let _ = self.stragglers.in_time(slot.owed.leave()).await;
        }
    }

    /// Replaces the place of a ticket. The old place is released, and the new one too if the ticket
    /// is gone.
    pub(crate) fn set_slot(&self, id: TicketId, slot: Option<WaitSlot>) {
        let over = match self.tickets.lock().by_id.get_mut(&id) {
            Some(record) => std::mem::replace(&mut record.slot, slot),
            None => slot,
        };
        // After the lock is released, because stores may be called at once.
        drop(over);
    }

    /// Updates a place, if it is still the ticket's.
    fn change_slot(&self, id: TicketId, in_queue: TicketId, place: Place) {
        let mut tickets = self.tickets.lock();
        let slot = tickets.by_id.get_mut(&id).and_then(|record| record.slot.as_mut());
        if let Some(slot) = slot.filter(|slot| slot.owed.ticket.id == in_queue) {
            slot.place = place;
        }
    }

    /// A broken waiter finds its place gone, as after a loss of data, after which it would join
    /// again. A break therefore leaves a mark for the ticket's ttl.
    pub(crate) async fn mark_as_broken(&self, id: TicketId, ttl: Duration) -> Result<()> {
        self.count_breaks(id, 1, ttl, |_| false).await.enough_answers(1).map(drop)
    }

    /// Whether this ticket was broken while it waited.
    pub(crate) async fn was_broken(&self, id: TicketId) -> bool {
        let any = |poll: &Poll<CounterValue>| poll.answers().any(|count| count.value > 0);
        any(&self.count_breaks(id, 0, Duration::from_secs(1), any).await)
    }

    /// Adds to the mark, whose key no other ticket uses.
    async fn count_breaks(
        &self,
        id: TicketId,
        by: u64,
        per: Duration,
        decided: impl Fn(&Poll<CounterValue>) -> bool,
    ) -> Poll<CounterValue> {
        let key = Key::new(id.whole().to_string()).expect("an id is a key");
        let window = Some(Window { per, limit: None });
        let count = |engine: AnyEngine| {
            let key = key.clone();
            async move { engine.add(&key, by, window).await }
        };
        self.queues.ask(decided, count).await
    }
}
