//! The operations, each sent to every store at once.

use super::Quorum;
use super::poll::Poll;
use crate::layers::AnyEngine;
use crate::{Engine as _, LeaveMode, LeaveOutcome, Place, Result, Ticket};

impl Quorum {
    /// Renews the ticket in every store.
    pub(super) async fn renew_everywhere(&self, ticket: Ticket) -> Poll<Option<Place>> {
        let majority = self.stores.majority();
        let enough = |poll: &Poll<Option<Place>>| kept(poll).count() >= majority;
        self.stores
            .ask(enough, |engine| {
                let ticket = ticket.clone();
                async move { engine.renew(&ticket).await }
            })
            .await
    }

    /// Removes one attempt from every store.
    pub(super) async fn leave_everywhere(
        &self,
        attempt: &Ticket,
        how: LeaveMode,
    ) -> Result<LeaveOutcome> {
        let leave = |engine: AnyEngine| {
            let attempt = attempt.clone();
            async move { engine.leave(&attempt, how).await }
        };
        self.verdict_on_leaving(&self.stores.ask(|poll| self.is_out(poll), leave).await)
    }

    pub(super) fn is_out(&self, poll: &Poll<LeaveOutcome>) -> bool {
        count(poll, LeaveOutcome::Holding) >= self.stores.majority()
    }

    pub(super) fn verdict_on_leaving(&self, poll: &Poll<LeaveOutcome>) -> Result<LeaveOutcome> {
        let (out, told) =
            (count(poll, LeaveOutcome::Holding), count(poll, LeaveOutcome::Requested));
        let majority = self.stores.majority();
        if out >= majority {
            return Ok(LeaveOutcome::Holding);
        }
        if told >= majority {
            return Ok(LeaveOutcome::Requested);
        }
        if out + told + poll.silent() >= majority {
            // Some stores may have removed it, so the outcome is unknown.
            return Err(poll.unknown("let it go", majority));
        }
        Ok(LeaveOutcome::Absent)
    }
}

/// The stores that still have the ticket.
pub(super) fn kept(poll: &Poll<Option<Place>>) -> impl Iterator<Item = &Place> {
    poll.answers().flatten().filter(|place| !place.leaving)
}

fn count(poll: &Poll<LeaveOutcome>, wanted: LeaveOutcome) -> usize {
    poll.answers().filter(|left| **left == wanted).count()
}
