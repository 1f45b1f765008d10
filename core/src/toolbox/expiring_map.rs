//! A bounded map whose entries expire.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::{TicketId, Time};

/// With fewer entries, expired ones are not removed.
const FEW: usize = 1024;
/// Maximum entries.
pub(crate) const MOST: usize = 65_536;
/// Minimum time between two removals of expired entries.
const PAUSE: Duration = Duration::from_secs(1);

/// A bounded map of tickets. Each entry has its own expiry.
///
/// ```
/// use std::time::Duration;
///
/// use tenure::engine::{Clock as _, SystemClock};
/// use tenure::inspect::TicketId;
/// use tenure_core::ExpiringMap;
///
/// let (mut recent, id, now) = (ExpiringMap::default(), TicketId::fresh(), SystemClock.now());
/// assert!(recent.note(id, "it has left", now, now.plus(Duration::from_secs(30))));
/// assert_eq!(recent.get(id, now), Some(&"it has left"));
/// assert_eq!(recent.get(id, now.plus(Duration::from_secs(30))), None);
/// ```
pub struct ExpiringMap<T> {
    all: HashMap<TicketId, (T, Time)>,
    /// With this many entries, expired ones are removed.
    full: usize,
    /// No removal happens before this.
    next: Option<Time>,
}

impl<T> Default for ExpiringMap<T> {
    fn default() -> Self {
        Self { all: HashMap::new(), full: FEW, next: None }
    }
}

impl<T> ExpiringMap<T> {
    /// Sets the entry of a ticket, until `until`. Returns `false` if the map is full.
    pub fn note(&mut self, id: TicketId, what: T, now: Time, until: Time) -> bool {
        if self.all.len() >= self.full && self.next.is_none_or(|next| now.has_reached(next)) {
            self.all.retain(|_, (_, until)| !now.has_reached(*until));
            self.full = (self.all.len() * 2).clamp(FEW, MOST);
            self.next = Some(now.plus(PAUSE));
        }
        let has_room = self.all.len() < MOST || self.all.contains_key(&id);
        if has_room {
            self.all.insert(id, (what, until));
        }
        has_room
    }

    /// The entry of a ticket, unless it has expired.
    pub fn get(&self, id: TicketId, now: Time) -> Option<&T> {
        let (what, until) = self.all.get(&id)?;
        (!now.has_reached(*until)).then_some(what)
    }

    /// Removes and returns the entry of a ticket, with its expiry.
    pub fn forget(&mut self, id: TicketId) -> Option<(T, Time)> {
        self.all.remove(&id)
    }

    /// Number of entries, including expired ones.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl<T> fmt::Debug for ExpiringMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpiringMap").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time { boot_ns: 0, raw_ns: 0 };
    const LIFE: Duration = Duration::from_secs(30);

    fn note(recent: &mut ExpiringMap<()>, now: Time) -> bool {
        recent.note(TicketId::fresh(), (), now, now.plus(LIFE))
    }

    #[test]
    fn those_are_thrown_out_whose_time_is_over() {
        let mut recent = ExpiringMap::default();
        for second in 0..u64::try_from(FEW * 4).unwrap() {
            assert!(note(&mut recent, NOW.plus(Duration::from_secs(second))));
        }
        assert!(recent.len() <= FEW, "{}", recent.len());
    }

    #[test]
    fn a_full_one_takes_no_more_and_is_of_use_again_once_those_in_it_are_over() {
        let (mut recent, id) = (ExpiringMap::default(), TicketId::fresh());
        assert!(recent.note(id, (), NOW, NOW.plus(LIFE)));
        while note(&mut recent, NOW) {}
        assert_eq!(recent.len(), MOST);
        assert!(recent.note(id, (), NOW, NOW.plus(LIFE * 2)), "what is known may change");
        let later = NOW.plus(LIFE);
        assert!(note(&mut recent, later));
        assert_eq!(recent.len(), 2);
        assert!(recent.get(id, later).is_some());
        assert_eq!(recent.forget(id), Some(((), NOW.plus(LIFE * 2))));
        assert_eq!(recent.get(id, later), None);
    }
}
