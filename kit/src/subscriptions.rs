//! Notifications of a server to the tickets of one client, kept until a task watches the ticket.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use tenure_core::sync::Mutex;
use tenure_core::wake::WakeRegistry;
use tenure_core::{Place, TicketId, TicketState, Wake};

/// Number of subscriptions at which those of expired tickets are removed.
const TICKETS_FULL: usize = 1024;

/// A subscription for each ticket that this client has put into a line.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_core::{TicketId, TicketState, Wake};
/// use tenure_kit::subscriptions::{Notification, Subscriptions};
///
/// # tenure_core::blocking::block_on(async {
/// let (subscriptions, id) = (Subscriptions::default(), TicketId::fresh());
/// subscriptions.expect(id, Duration::from_secs(30));
/// // The server notifies the ticket that it is served, with the number 46.
/// subscriptions.deliver(id, Notification::Served(46));
/// assert_eq!(subscriptions.watch(id, TicketState::Waiting).await, Wake::Served(46));
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Default)]
pub struct Subscriptions {
    wakers: WakeRegistry,
    state: Mutex<SubscriptionState>,
}

/// A notification of a server to a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The ticket is served, and has this number.
    Served(u64),
    /// The ticket was asked to leave.
    Told,
    /// The ticket is out of its line.
    Out,
}

struct SubscriptionState {
    tickets: HashMap<TicketId, Pending>,
    /// Number of tickets at which those that have expired are removed.
    full: usize,
    /// Number of interruptions. Notifications during an interruption are lost.
    generation: u64,
}

impl Default for SubscriptionState {
    fn default() -> Self {
        Self { tickets: HashMap::new(), full: TICKETS_FULL, generation: 0 }
    }
}

/// The notifications that a ticket has not taken yet.
struct Pending {
    /// The last interruption after which the owner of the ticket has looked at its line.
    generation: u64,
    /// The number of the ticket, if an answer of the server contained it.
    number: Option<u64>,
    served: Option<u64>,
    is_asked_to_leave: bool,
    /// Whether notifications may have been lost.
    must_look: bool,
    /// When the ticket expires unless it is renewed.
    ends: Instant,
}

impl Pending {
    /// Whether this can be the number of the ticket.
    fn may_have(&self, number: u64) -> bool {
        self.number.is_none_or(|own| own == number)
    }
}

/// The subscription of a ticket whose join is not answered yet.
///
/// If it is dropped before [`let_in`](Self::let_in), the subscription is removed.
pub struct Asking<'a> {
    subscriptions: &'a Subscriptions,
    /// `None` if the ticket had a subscription before.
    fresh: Option<TicketId>,
}

impl Asking<'_> {
    /// Notes that the ticket is in its line.
    pub fn let_in(mut self) {
        self.fresh = None;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.fresh {
            self.subscriptions.forget(id);
        }
    }
}

impl Subscriptions {
    /// Does the same as [`expect`](Self::expect) for a ticket whose join is not answered yet.
    pub fn expect_answer(&self, id: TicketId, ttl: Duration) -> Asking<'_> {
        let fresh = (!self.expects(id)).then_some(id);
        self.expect(id, ttl);
        Asking { subscriptions: self, fresh }
    }

    /// Keeps the notifications of this ticket from now on. The ticket expires after `ttl` unless
    /// this is called again.
    pub fn expect(&self, id: TicketId, ttl: Duration) {
        let now = Instant::now();
        let ends = now.checked_add(ttl).unwrap_or_else(|| now + Duration::from_secs(1 << 32));
        let mut state = self.state();
        if state.tickets.len() >= state.full {
            state.tickets.retain(|_, pending| pending.ends > now);
            state.full = (state.tickets.len() * 2).max(TICKETS_FULL);
        }
        let generation = state.generation;
        let fresh = Pending {
            generation,
            number: None,
            served: None,
            is_asked_to_leave: false,
            must_look: false,
            ends,
        };
        state.tickets.entry(id).or_insert(fresh).ends = ends;
    }

    /// Whether this client has put the ticket into a line.
    pub fn expects(&self, id: TicketId) -> bool {
        self.state().tickets.contains_key(&id)
    }

    /// Whether the ticket can be in its line: this client has put it there, and it has not expired.
    pub fn lives(&self, id: TicketId) -> bool {
        self.state().tickets.get(&id).is_some_and(|pending| Instant::now() < pending.ends)
    }

    /// Whether no ticket is watched.
    pub fn is_quiet(&self) -> bool {
        self.wakers.is_quiet()
    }

    /// Removes the subscription of a ticket that is out of its line, and wakes its watchers.
    pub fn forget(&self, id: TicketId) {
        self.state().tickets.remove(&id);
        self.wakers.notify(id);
    }

    /// Notes the place of the ticket from an answer of the server. A ticket that joined again after
    /// it was removed has another number. Notifications for the old number do not count for it.
    pub fn learn(&self, id: TicketId, place: &Place) {
        if let Some(pending) = self.state().tickets.get_mut(&id) {
            pending.number = Some(place.number);
            pending.served = match place.state {
                TicketState::Holding => Some(place.number),
                TicketState::Waiting => pending.served.filter(|number| *number == place.number),
            };
        }
    }

    /// Delivers a notification, and wakes the watchers of the ticket.
    pub fn deliver(&self, id: TicketId, notification: Notification) {
        {
            let mut state = self.state();
            match (notification, state.tickets.get_mut(&id)) {
                (Notification::Served(number), Some(pending)) if pending.may_have(number) => {
                    pending.served = Some(number);
                }
                (Notification::Served(_), Some(pending)) => pending.must_look = true,
                (Notification::Told, Some(pending)) => pending.is_asked_to_leave = true,
                (Notification::Out, Some(_)) => drop(state.tickets.remove(&id)),
                (_, None) => {}
            }
        }
        self.wakers.notify(id);
    }

    /// Notes that notifications may have been lost. Every watcher looks at its line.
    pub fn interrupted(&self) {
        let ids: Vec<TicketId> = {
            let mut state = self.state();
            state.generation += 1;
            state.tickets.keys().copied().collect()
        };
        for id in ids {
            self.wakers.notify(id);
        }
    }

    /// Notes that notifications of this ticket may have been lost. Its watcher looks at the line.
    pub fn look(&self, id: TicketId) {
        if let Some(pending) = self.state().tickets.get_mut(&id) {
            pending.must_look = true;
        }
        self.wakers.notify(id);
    }

    /// Waits for a notification that is news to a watcher who last saw the ticket in state `seen`.
    pub async fn watch(&self, id: TicketId, seen: TicketState) -> Wake {
        let bell = self.wakers.subscribe(id);
        loop {
            let mut notified = pin!(bell.notified());
            notified.as_mut().enable();
            if let Some(wake) = self.take(id, seen) {
                return wake;
            }
            notified.await;
        }
    }

    fn take(&self, id: TicketId, seen: TicketState) -> Option<Wake> {
        let mut state = self.state();
        let generation = state.generation;
        let Some(pending) = state.tickets.get_mut(&id) else { return Some(Wake::Look) };
        let missed = std::mem::replace(&mut pending.generation, generation) != generation;
        if std::mem::take(&mut pending.must_look) || missed || pending.is_asked_to_leave {
            return Some(Wake::Look);
        }
        pending.served.filter(|_| seen == TicketState::Waiting).map(Wake::Served)
    }

    fn state(&self) -> MutexGuard<'_, SubscriptionState> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(9);

    #[test]
    fn a_notification_is_kept_until_it_is_watched_for() {
        let (subscriptions, id) = (Subscriptions::default(), TicketId::fresh());
        subscriptions.expect(id, LONG);
        assert_eq!(subscriptions.watch(id, TicketState::Waiting).now_or_never(), None);
        subscriptions.deliver(id, Notification::Served(46));
        assert_eq!(
            subscriptions.watch(id, TicketState::Waiting).now_or_never(),
            Some(Wake::Served(46))
        );
        assert_eq!(
            subscriptions.watch(id, TicketState::Holding).now_or_never(),
            None,
            "that is known"
        );
        for last in [Notification::Told, Notification::Out] {
            subscriptions.deliver(id, last);
            for _ in 0..2 {
                assert_eq!(
                    subscriptions.watch(id, TicketState::Holding).now_or_never(),
                    Some(Wake::Look)
                );
            }
        }
    }

    #[test]
    fn a_ticket_lives_until_it_expires() {
        let (subscriptions, [one, other]) =
            (Subscriptions::default(), [TicketId::fresh(), TicketId::fresh()]);
        assert!(!subscriptions.lives(one), "it is unknown");
        subscriptions.expect(one, LONG);
        subscriptions.expect(other, Duration::ZERO);
        assert!(subscriptions.lives(one) && !subscriptions.lives(other));
        subscriptions.expect(other, LONG);
        assert!(subscriptions.lives(other), "it was renewed");
        subscriptions.deliver(one, Notification::Out);
        assert!(!subscriptions.lives(one));
    }

    #[test]
    fn after_an_interruption_every_watcher_looks_once() {
        let (subscriptions, id) = (Subscriptions::default(), TicketId::fresh());
        subscriptions.expect(id, LONG);
        subscriptions.interrupted();
        assert_eq!(subscriptions.watch(id, TicketState::Waiting).now_or_never(), Some(Wake::Look));
        assert_eq!(subscriptions.watch(id, TicketState::Waiting).now_or_never(), None);
    }

    #[test]
    fn a_single_ticket_can_be_made_to_look() {
        let subscriptions = Subscriptions::default();
        let [one, other] = [TicketId::fresh(), TicketId::fresh()];
        for id in [one, other] {
            subscriptions.expect(id, LONG);
        }
        subscriptions.look(one);
        assert_eq!(subscriptions.watch(one, TicketState::Waiting).now_or_never(), Some(Wake::Look));
        assert_eq!(subscriptions.watch(other, TicketState::Waiting).now_or_never(), None);
    }

    #[test]
    fn a_join_that_is_given_up_leaves_no_subscription_unless_there_was_one_before() {
        let (subscriptions, id) = (Subscriptions::default(), TicketId::fresh());
        drop(subscriptions.expect_answer(id, LONG));
        assert!(!subscriptions.expects(id));
        subscriptions.expect_answer(id, LONG).let_in();
        drop(subscriptions.expect_answer(id, LONG));
        assert!(subscriptions.expects(id));
    }

    #[test]
    fn a_notification_for_another_number_does_not_serve_the_ticket() {
        let place = |number, state| Place {
            number,
            state,
            ahead: 0,
            life: None,
            look: None,
            leaving: false,
        };
        let subscriptions = Subscriptions::default();
        for comes_first in [true, false] {
            let id = TicketId::fresh();
            subscriptions.expect(id, LONG);
            if comes_first {
                subscriptions.deliver(id, Notification::Served(46));
                subscriptions.learn(id, &place(50, TicketState::Waiting));
            } else {
                subscriptions.learn(id, &place(50, TicketState::Waiting));
                subscriptions.deliver(id, Notification::Served(46));
                assert_eq!(
                    subscriptions.watch(id, TicketState::Waiting).now_or_never(),
                    Some(Wake::Look)
                );
            }
            assert_eq!(subscriptions.watch(id, TicketState::Waiting).now_or_never(), None);
            subscriptions.deliver(id, Notification::Served(50));
            // This answer was sent before the notification.
            subscriptions.learn(id, &place(50, TicketState::Waiting));
            assert_eq!(
                subscriptions.watch(id, TicketState::Waiting).now_or_never(),
                Some(Wake::Served(50))
            );
        }
    }

    #[test]
    fn a_ticket_that_is_not_renewed_is_not_alive_after_its_ttl() {
        let subscriptions = Subscriptions::default();
        let [one, other, unknown] = [TicketId::fresh(), TicketId::fresh(), TicketId::fresh()];
        subscriptions.expect(one, Duration::ZERO);
        subscriptions.expect(other, LONG);
        assert_eq!([one, other, unknown].map(|id| subscriptions.lives(id)), [false, true, false]);
        subscriptions.expect(one, LONG);
        assert!(subscriptions.lives(one), "it was renewed");
    }

    #[test]
    fn subscriptions_of_expired_tickets_are_removed() {
        let subscriptions = Subscriptions::default();
        for _ in 0..TICKETS_FULL * 3 {
            subscriptions.expect(TicketId::fresh(), Duration::ZERO);
        }
        assert!(subscriptions.state().tickets.len() <= TICKETS_FULL);
    }
}
