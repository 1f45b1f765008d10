//! A term: the work of an elected leader, which stops before its seat is given up.

use tenure_core::{LeaseHandle, Locks, Runtime as _, Share};

use super::Program;
use super::got::Part;
use crate::sim::referee::Referee;
use crate::sim::trouble::part;

/// Work that ends when this is dropped.
struct Work {
    referee: Referee,
    number: u64,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.referee.end(self.number);
    }
}

impl Program {
    /// Campaigns and leads, more than once if needed, until the work of a term is done.
    pub(super) async fn lead(&self, locks: &Locks, key: &str) {
        let election = locks.election(key).ttl(self.plan.ttl).note(self.name.as_str());
        if let Err(error) = election.run(|_, term| self.work(term)).await {
            self.hear(&error, false);
        }
    }

    async fn work(&self, term: LeaseHandle) {
        let part_held = [Part::of(term, Share::WHOLE)];
        let number = self.announce(&part_held[0]);
        let _guard = Work { referee: self.referee.clone(), number };
        self.referee.begin_work(number);
        for _ in 0..=self.world().random() % 6 {
            self.host.sleep(part(self.world(), self.plan.ttl / 2)).await;
            if self.look(&part_held).is_err() {
                // The caller drops it now.
                std::future::pending::<()>().await;
            }
        }
    }
}
