//! Joins of this client that began and have no answer yet.

use std::collections::HashMap;

use tenure_core::{TicketId, Time};

/// With this many joins, the expired ones are removed.
const FULL: usize = 1024;

#[derive(Default)]
pub(crate) struct Asked {
    joins: HashMap<TicketId, Join>,
    full: usize,
}

struct Join {
    /// When the ticket expires. No caller asks for the join after that.
    until: Time,
    /// The join was requested more than once.
    again: bool,
}

impl Asked {
    /// Notes that a join begins. `is_in_line` returns whether a ticket is known to be in a line:
    /// its join stays.
    pub(crate) fn ask(
        &mut self,
        id: TicketId,
        now: Time,
        until: Time,
        is_in_line: impl Fn(TicketId) -> bool,
    ) {
        if self.joins.len() >= self.full.max(FULL) {
            self.joins.retain(|id, join| is_in_line(*id) || !now.has_reached(join.until));
            self.full = self.joins.len() * 2;
        }
        let joins = self.joins.entry(id).and_modify(|join| join.again = true);
        joins.or_insert(Join { until, again: false });
    }

    /// Removes a join that was answered or given up. Returns whether it had begun.
    pub(crate) fn remove(&mut self, id: TicketId) -> bool {
        self.joins.remove(&id).is_some()
    }

    pub(crate) fn contains(&self, id: TicketId) -> bool {
        self.joins.contains_key(&id)
    }

    /// Returns whether the join was requested more than once; `None` if it has not begun.
    pub(crate) fn is_again(&self, id: TicketId) -> Option<bool> {
        self.joins.get(&id).map(|join| join.again)
    }

    /// Returns whether the join has begun and its ticket has not expired.
    pub(crate) fn is_alive(&self, id: TicketId, now: Time) -> bool {
        self.joins.get(&id).is_some_and(|join| !now.has_reached(join.until))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Time = Time { boot_ns: 0, raw_ns: 0 };

    #[test]
    fn expired_joins_are_removed_even_behind_one_that_has_not_expired() {
        let (mut asked, longest) = (Asked::default(), TicketId::fresh());
        asked.ask(longest, NOW, NOW.plus(Duration::from_secs(86_400)), |_| false);
        for second in 0..u64::try_from(FULL * 4).unwrap() {
            let now = NOW.plus(Duration::from_secs(second));
            asked.ask(TicketId::fresh(), now, now.plus(Duration::from_secs(30)), |_| false);
        }
        assert!(asked.joins.len() <= FULL);
        assert!(asked.remove(longest), "it may still come in");
    }
}
