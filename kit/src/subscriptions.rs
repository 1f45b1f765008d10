//! A mailbox: where an engine leaves what a ticket must hear, until somebody watches the ticket.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::wake::WakeRegistry;
use tenure_core::{Place, TicketId, TicketState, Wake};

/// With so many boxes, those of tickets that must have ended are thrown out.
const BOXES_FULL: usize = 1024;

/// A box for each ticket that this client has put into a line.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_core::{TicketState, TicketId, Wake};
/// use tenure_kit::subscriptions::{Notification, Subscriptions};
///
/// # tenure_core::blocking::block_on(async {
/// let (mailbox, id) = (Subscriptions::default(), TicketId::fresh());
/// mailbox.expect(id, Duration::from_secs(30));
/// // The server tells: it is served, with the number 46.
/// mailbox.deliver(id, Notification::Served(46));
/// assert_eq!(mailbox.watch(id, TicketState::Waiting).await, Wake::Served(46));
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Default)]
pub struct Subscriptions {
    bells: WakeRegistry,
    boxes: Mutex<Boxes>,
}

/// What a server tells a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// It is served, and this is its number.
    Served(u64),
    /// It was told to leave.
    Told,
    /// It is out of its line.
    Out,
}

struct Boxes {
    tickets: HashMap<TicketId, NotificationQueue>,
    full: usize,
    /// How often the mail was interrupted: what came meanwhile is lost.
    generation: u64,
}

impl Default for Boxes {
    fn default() -> Self {
        Self { tickets: HashMap::new(), full: BOXES_FULL, generation: 0 }
    }
}

struct NotificationQueue {
    /// Up to which interruption its owner has looked.
    generation: u64,
    /// The number that the ticket has, as an answer said.
    number: Option<u64>,
    served: Option<u64>,
    is_told: bool,
    /// Letters may have been lost.
    must_look: bool,
    /// Without another sign of life the ticket has ended by then.
    ends: Instant,
}

impl NotificationQueue {
    /// Whether this can be the number of the ticket.
    fn may_have(&self, number: u64) -> bool {
        self.number.is_none_or(|own| own == number)
    }
}

/// A ticket that asks to be let in, whose letters are kept from now on. Dropped before the ticket is known to be in,
/// it takes the box away again.
pub struct Asking<'a> {
    mailbox: &'a Subscriptions,
    /// `None`: its letters were kept before.
    fresh: Option<TicketId>,
}

impl Asking<'_> {
    /// The ticket is in.
    pub fn let_in(mut self) {
        self.fresh = None;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.fresh {
            self.mailbox.forget(id);
        }
    }
}

impl Subscriptions {
    /// The same as [`expect`](Self::expect) for a ticket that asks to be let in.
    pub fn expect_answer(&self, id: TicketId, ttl: Duration) -> Asking<'_> {
        let fresh = (!self.expects(id)).then_some(id);
        self.expect(id, ttl);
        Asking { mailbox: self, fresh }
    }

    /// Letters to this ticket are kept from now on.
    pub fn expect(&self, id: TicketId, ttl: Duration) {
        let now = Instant::now();
        let ends = now.checked_add(ttl).unwrap_or_else(|| now + Duration::from_secs(1 << 32));
        let mut boxes = self.boxes();
        if boxes.tickets.len() >= boxes.full {
            boxes.tickets.retain(|_, letters| letters.ends > now);
            boxes.full = (boxes.tickets.len() * 2).max(BOXES_FULL);
        }
        let generation = boxes.generation;
        let fresh = NotificationQueue {
            generation,
            number: None,
            served: None,
            is_told: false,
            must_look: false,
            ends,
        };
        boxes.tickets.entry(id).or_insert(fresh).ends = ends;
    }

    /// Whether this client has put the ticket into a line.
    pub fn expects(&self, id: TicketId) -> bool {
        self.boxes().tickets.contains_key(&id)
    }

    /// Whether the ticket can be in its line: this client has put it there, and its last sign of life is not too old.
    pub fn lives(&self, id: TicketId) -> bool {
        self.boxes().tickets.get(&id).is_some_and(|letters| Instant::now() < letters.ends)
    }

    /// Whether no ticket is watched.
    pub fn is_quiet(&self) -> bool {
        self.bells.is_quiet()
    }

    /// The ticket is out of its line: whoever watches it is told.
    pub fn forget(&self, id: TicketId) {
        self.boxes().tickets.remove(&id);
        self.bells.notify(id);
    }

    /// An answer said where the ticket stands, so whoever asked knows. A ticket that was taken out and joined once more
    /// has another number: letters of the old one do not say that it is served now.
    pub fn learn(&self, id: TicketId, place: &Place) {
        if let Some(letters) = self.boxes().tickets.get_mut(&id) {
            letters.number = Some(place.number);
            letters.served = match place.state {
                TicketState::Holding => Some(place.number),
                TicketState::Waiting => letters.served.filter(|number| *number == place.number),
            };
        }
    }

    /// A letter for this ticket has come.
    pub fn deliver(&self, id: TicketId, letter: Notification) {
        {
            let mut boxes = self.boxes();
            match (letter, boxes.tickets.get_mut(&id)) {
                (Notification::Served(number), Some(letters)) if letters.may_have(number) => {
                    letters.served = Some(number);
                }
                (Notification::Served(_), Some(letters)) => letters.must_look = true,
                (Notification::Told, Some(letters)) => letters.is_told = true,
                (Notification::Out, Some(_)) => drop(boxes.tickets.remove(&id)),
                (_, None) => {}
            }
        }
        self.bells.notify(id);
    }

    /// Letters may have been lost: the owner of each ticket looks.
    pub fn interrupted(&self) {
        let ids: Vec<TicketId> = {
            let mut boxes = self.boxes();
            boxes.generation += 1;
            boxes.tickets.keys().copied().collect()
        };
        for id in ids {
            self.bells.notify(id);
        }
    }

    /// Letters to this one ticket may have been lost: its owner looks.
    pub fn look(&self, id: TicketId) {
        if let Some(letters) = self.boxes().tickets.get_mut(&id) {
            letters.must_look = true;
        }
        self.bells.notify(id);
    }

    /// Returns once there is a letter that says anything new to who saw the ticket in this standing.
    pub async fn watch(&self, id: TicketId, seen: TicketState) -> Wake {
        let bell = self.bells.subscribe(id);
        loop {
            let mut rung = pin!(bell.notified());
            rung.as_mut().enable();
            if let Some(wake) = self.take(id, seen) {
                return wake;
            }
            rung.await;
        }
    }

    fn take(&self, id: TicketId, seen: TicketState) -> Option<Wake> {
        let mut boxes = self.boxes();
        let generation = boxes.generation;
        let Some(letters) = boxes.tickets.get_mut(&id) else { return Some(Wake::Look) };
        let missed = std::mem::replace(&mut letters.generation, generation) != generation;
        if std::mem::take(&mut letters.must_look) || missed || letters.is_told {
            return Some(Wake::Look);
        }
        letters.served.filter(|_| seen == TicketState::Waiting).map(Wake::Served)
    }

    fn boxes(&self) -> MutexGuard<'_, Boxes> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(9);

    #[test]
    fn a_letter_is_kept_until_somebody_watches() {
        let (mailbox, id) = (Subscriptions::default(), TicketId::fresh());
        mailbox.expect(id, LONG);
        assert_eq!(mailbox.watch(id, TicketState::Waiting).now_or_never(), None);
        mailbox.deliver(id, Notification::Served(46));
        assert_eq!(mailbox.watch(id, TicketState::Waiting).now_or_never(), Some(Wake::Served(46)));
        assert_eq!(mailbox.watch(id, TicketState::Holding).now_or_never(), None, "that is known");
        for last in [Notification::Told, Notification::Out] {
            mailbox.deliver(id, last);
            for _ in 0..2 {
                assert_eq!(
                    mailbox.watch(id, TicketState::Holding).now_or_never(),
                    Some(Wake::Look)
                );
            }
        }
    }

    #[test]
    fn a_ticket_lives_until_its_last_sign_of_life_is_too_old() {
        let (mailbox, [one, other]) =
            (Subscriptions::default(), [TicketId::fresh(), TicketId::fresh()]);
        assert!(!mailbox.lives(one), "nobody has heard of it");
        mailbox.expect(one, LONG);
        mailbox.expect(other, Duration::ZERO);
        assert!(mailbox.lives(one) && !mailbox.lives(other));
        mailbox.expect(other, LONG);
        assert!(mailbox.lives(other), "it gave a sign of life");
        mailbox.deliver(one, Notification::Out);
        assert!(!mailbox.lives(one));
    }

    #[test]
    fn after_an_interruption_everybody_looks_once() {
        let (mailbox, id) = (Subscriptions::default(), TicketId::fresh());
        mailbox.expect(id, LONG);
        mailbox.interrupted();
        assert_eq!(mailbox.watch(id, TicketState::Waiting).now_or_never(), Some(Wake::Look));
        assert_eq!(mailbox.watch(id, TicketState::Waiting).now_or_never(), None);
    }

    #[test]
    fn a_single_ticket_can_be_made_to_look() {
        let mailbox = Subscriptions::default();
        let [one, other] = [TicketId::fresh(), TicketId::fresh()];
        for id in [one, other] {
            mailbox.expect(id, LONG);
        }
        mailbox.look(one);
        assert_eq!(mailbox.watch(one, TicketState::Waiting).now_or_never(), Some(Wake::Look));
        assert_eq!(mailbox.watch(other, TicketState::Waiting).now_or_never(), None);
    }

    #[test]
    fn who_gives_up_asking_leaves_no_box_and_who_was_in_before_keeps_it() {
        let (mailbox, id) = (Subscriptions::default(), TicketId::fresh());
        drop(mailbox.expect_answer(id, LONG));
        assert!(!mailbox.expects(id));
        mailbox.expect_answer(id, LONG).let_in();
        drop(mailbox.expect_answer(id, LONG));
        assert!(mailbox.expects(id));
    }

    #[test]
    fn a_letter_of_another_number_serves_nobody() {
        let place = |number, standing| Place {
            number,
            state: standing,
            ahead: 0,
            life: None,
            look: None,
            leaving: false,
        };
        let mailbox = Subscriptions::default();
        for comes_first in [true, false] {
            let id = TicketId::fresh();
            mailbox.expect(id, LONG);
            if comes_first {
                mailbox.deliver(id, Notification::Served(46));
                mailbox.learn(id, &place(50, TicketState::Waiting));
            } else {
                mailbox.learn(id, &place(50, TicketState::Waiting));
                mailbox.deliver(id, Notification::Served(46));
                assert_eq!(
                    mailbox.watch(id, TicketState::Waiting).now_or_never(),
                    Some(Wake::Look)
                );
            }
            assert_eq!(mailbox.watch(id, TicketState::Waiting).now_or_never(), None);
            mailbox.deliver(id, Notification::Served(50));
            // An answer that was on its way meanwhile.
            mailbox.learn(id, &place(50, TicketState::Waiting));
            assert_eq!(
                mailbox.watch(id, TicketState::Waiting).now_or_never(),
                Some(Wake::Served(50))
            );
        }
    }

    #[test]
    fn a_ticket_without_a_sign_of_life_is_not_alive_after_its_time() {
        let mailbox = Subscriptions::default();
        let [one, other, unknown] = [TicketId::fresh(), TicketId::fresh(), TicketId::fresh()];
        mailbox.expect(one, Duration::ZERO);
        mailbox.expect(other, LONG);
        assert_eq!([one, other, unknown].map(|id| mailbox.lives(id)), [false, true, false]);
        mailbox.expect(one, LONG);
        assert!(mailbox.lives(one), "it was renewed");
    }

    #[test]
    fn the_boxes_of_those_who_have_ended_are_thrown_out() {
        let mailbox = Subscriptions::default();
        for _ in 0..BOXES_FULL * 3 {
            mailbox.expect(TicketId::fresh(), Duration::ZERO);
        }
        assert!(mailbox.boxes().tickets.len() <= BOXES_FULL);
    }
}
