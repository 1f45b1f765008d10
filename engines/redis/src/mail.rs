//! Mail: what the server tells this client's tickets, kept until somebody watches them.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::bell::Bells;
use tenure_core::{Standing, TicketId, Wake};

/// With so many boxes, those of tickets that must have ended are thrown out.
const BOXES_FULL: usize = 1024;

/// A box for each ticket that this client has put into a line.
#[derive(Default)]
pub(crate) struct Mail {
    bells: Bells,
    boxes: Mutex<Boxes>,
}

struct Boxes {
    tickets: HashMap<TicketId, Letters>,
    full: usize,
    /// How often the mail was interrupted: what came meanwhile is lost.
    epoch: u64,
}

impl Default for Boxes {
    fn default() -> Self {
        Self { tickets: HashMap::new(), full: BOXES_FULL, epoch: 0 }
    }
}

struct Letters {
    epoch: u64,
    /// It is served, and this is its number.
    served: Option<u64>,
    /// It was told to leave.
    told: bool,
    /// Letters may have been lost.
    look: bool,
    /// Without another sign of life it has ended by then.
    ends: Instant,
}

/// A ticket that asks to be let in, whose letters are kept from now on. Dropped before it is known to be in, nobody
/// will ask for its letters.
pub(crate) struct Asking<'a> {
    mail: &'a Mail,
    /// `None`: its letters were kept before.
    fresh: Option<TicketId>,
}

impl Asking<'_> {
    /// It is in.
    pub(crate) fn let_in(mut self) {
        self.fresh = None;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.fresh {
            self.mail.forget(id);
        }
    }
}

impl Mail {
    /// The same for one that asks to be let in.
    pub(crate) fn expect_answer(&self, id: TicketId, ttl: Duration) -> Asking<'_> {
        let fresh = (!self.expects(id)).then_some(id);
        self.expect(id, ttl);
        Asking { mail: self, fresh }
    }

    /// From now on letters to this ticket are kept.
    pub(crate) fn expect(&self, id: TicketId, ttl: Duration) {
        let now = Instant::now();
        let ends = now.checked_add(ttl).unwrap_or_else(|| now + Duration::from_secs(1 << 32));
        let mut boxes = self.boxes();
        if boxes.tickets.len() >= boxes.full {
            boxes.tickets.retain(|_, letters| letters.ends > now);
            boxes.full = (boxes.tickets.len() * 2).max(BOXES_FULL);
        }
        let epoch = boxes.epoch;
        let fresh = Letters { epoch, served: None, told: false, look: false, ends };
        boxes.tickets.entry(id).or_insert(fresh).ends = ends;
    }

    /// Whether this client has put the ticket into a line.
    pub(crate) fn expects(&self, id: TicketId) -> bool {
        self.boxes().tickets.contains_key(&id)
    }

    /// The ticket is out of its line: whoever watches it is told.
    pub(crate) fn forget(&self, id: TicketId) {
        self.boxes().tickets.remove(&id);
        self.bells.ring(id);
    }

    /// An answer said that the ticket is served.
    pub(crate) fn learn(&self, id: TicketId, number: u64) {
        if let Some(letters) = self.boxes().tickets.get_mut(&id) {
            letters.served = Some(number);
        }
    }

    /// A letter: the id, then a sign and the number: `S` it is served, `T` it is told to leave, `O` it is out.
    pub(crate) fn deliver(&self, letter: &[u8]) {
        let Some((id, kind, number)) = read(letter) else {
            tracing::warn!("a message to Tenure's channel is none of Tenure's");
            return;
        };
        {
            let mut boxes = self.boxes();
            match (kind, boxes.tickets.get_mut(&id)) {
                (b'S', Some(letters)) => letters.served = Some(number),
                (b'T', Some(letters)) => letters.told = true,
                (_, Some(_)) => drop(boxes.tickets.remove(&id)),
                (_, None) => {}
            }
        }
        self.bells.ring(id);
    }

    /// Letters may have been lost: everybody looks.
    pub(crate) fn interrupted(&self) {
        let ids: Vec<TicketId> = {
            let mut boxes = self.boxes();
            boxes.epoch += 1;
            boxes.tickets.keys().copied().collect()
        };
        for id in ids {
            self.bells.ring(id);
        }
    }

    /// Letters to this one ticket may have been lost.
    pub(crate) fn look(&self, id: TicketId) {
        if let Some(letters) = self.boxes().tickets.get_mut(&id) {
            letters.look = true;
        }
        self.bells.ring(id);
    }

    /// Returns once there is a letter that says anything new to who saw the ticket in this standing.
    pub(crate) async fn watch(&self, id: TicketId, seen: Standing) -> Wake {
        let bell = self.bells.listen(id);
        loop {
            let mut rung = pin!(bell.rung());
            rung.as_mut().enable();
            if let Some(wake) = self.take(id, seen) {
                return wake;
            }
            rung.await;
        }
    }

    fn take(&self, id: TicketId, seen: Standing) -> Option<Wake> {
        let mut boxes = self.boxes();
        let epoch = boxes.epoch;
        let Some(letters) = boxes.tickets.get_mut(&id) else { return Some(Wake::Look) };
        let missed = std::mem::replace(&mut letters.epoch, epoch) != epoch;
        if std::mem::take(&mut letters.look) || missed || letters.told {
            return Some(Wake::Look);
        }
        letters.served.filter(|_| seen == Standing::Waiting).map(Wake::Served)
    }

    fn boxes(&self) -> MutexGuard<'_, Boxes> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(letter: &[u8]) -> Option<(TicketId, u8, u64)> {
    let (id, rest) = letter.split_first_chunk()?;
    let (kind, number) = rest.split_first()?;
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    Some((TicketId::from_u128(u128::from_be_bytes(*id)), *kind, number))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn letter(id: TicketId, rest: &str) -> Vec<u8> {
        [&id.to_u128().to_be_bytes()[..], rest.as_bytes()].concat()
    }

    #[test]
    fn a_letter_is_kept_until_somebody_watches() {
        let (mail, id) = (Mail::default(), TicketId::fresh());
        mail.expect(id, Duration::from_secs(9));
        assert_eq!(mail.watch(id, Standing::Waiting).now_or_never(), None);
        mail.deliver(&letter(id, "S46"));
        assert_eq!(mail.watch(id, Standing::Waiting).now_or_never(), Some(Wake::Served(46)));
        assert_eq!(mail.watch(id, Standing::Holding).now_or_never(), None, "that is known");
        for last in ["T46", "O46"] {
            mail.deliver(&letter(id, last));
            for _ in 0..2 {
                assert_eq!(mail.watch(id, Standing::Holding).now_or_never(), Some(Wake::Look));
            }
        }
    }

    #[test]
    fn after_an_interruption_everybody_looks_once() {
        let (mail, id) = (Mail::default(), TicketId::fresh());
        mail.expect(id, Duration::from_secs(9));
        mail.interrupted();
        assert_eq!(mail.watch(id, Standing::Waiting).now_or_never(), Some(Wake::Look));
        assert_eq!(mail.watch(id, Standing::Waiting).now_or_never(), None);
    }

    #[test]
    fn who_gives_up_asking_leaves_no_box_and_who_was_in_before_keeps_it() {
        let (mail, id) = (Mail::default(), TicketId::fresh());
        drop(mail.expect_answer(id, Duration::from_secs(9)));
        assert!(!mail.expects(id));
        mail.expect_answer(id, Duration::from_secs(9)).let_in();
        drop(mail.expect_answer(id, Duration::from_secs(9)));
        assert!(mail.expects(id));
    }

    #[test]
    fn the_boxes_of_those_who_have_ended_are_thrown_out() {
        let mail = Mail::default();
        for _ in 0..BOXES_FULL * 3 {
            mail.expect(TicketId::fresh(), Duration::ZERO);
        }
        assert!(mail.boxes().tickets.len() <= BOXES_FULL);
        for garbage in [&b""[..], b"short", &[b'x'; 16], &[b'x'; 40]] {
            mail.deliver(garbage);
        }
    }
}
