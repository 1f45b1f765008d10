//! The locks of a naive holder.

use std::sync::Arc;

use tenure_conformance::sim::holder::{Claim, View};
use tenure_core::{BoxFuture, Engine as _, Error, LeaveMode, LeaveOutcome, Loss, Result, TicketId};

use super::{Sin, Stay};

pub(super) struct Held {
    pub(super) stay: Arc<Stay>,
    /// The ticket stays in the line.
    pub(super) stays: bool,
    pub(super) token: u64,
}

impl Claim for Held {
    fn key(&self) -> String {
        self.stay.ticket.key.as_str().to_owned()
    }

    fn token(&self) -> u64 {
        self.token
    }

    fn id(&self) -> TicketId {
        self.stay.ticket.id
    }

    fn view(&self) -> Arc<dyn View> {
        Arc::new(StayView(self.stay.clone()))
    }

    fn release(self: Box<Self>) -> BoxFuture<Result<()>> {
        Box::pin(async move {
            let stay = &self.stay;
            let was_lost = stay.judge().lost;
            stay.known().over = true;
            let left = stay.inner.engine.leave(&stay.ticket, LeaveMode::Now).await;
            if stay.inner.sins(Sin::ReleasesQuietly) {
                return Ok(());
            }
            if was_lost || left? == LeaveOutcome::Absent {
                return Err(Error::lost(Loss::Expired));
            }
            Ok(())
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stay.known().over = true;
        if !self.stays {
            let stay = self.stay.clone();
            self.stay.inner.host.spawn(Box::pin(stay.sweep()));
        }
    }
}

struct StayView(Arc<Stay>);

impl View for StayView {
    fn check(&self) -> Result<()> {
        let known = self.0.judge();
        let sins = |sin| self.0.inner.sins(sin);
        let late = known.number.is_some() && self.0.now().has_reached(known.deadline);
        if sins(Sin::RevivesTheDead) {
            return if late { Err(Error::lost(Loss::Expired)) } else { Ok(()) };
        }
        if known.lost {
            return Err(Error::lost(Loss::Expired));
        }
        if known.over {
            return Err(Error::invalid("it was released"));
        }
        Ok(())
    }

    fn lost(&self) -> BoxFuture<()> {
        let view = Self(self.0.clone());
        Box::pin(async move {
            loop {
                let known = *view.0.known();
                if known.over && !known.lost {
                    std::future::pending::<()>().await;
                }
                if view.check().is_err() {
                    return;
                }
                view.0.inner.host.sleep(view.0.ticket.ttl / 100).await;
            }
        })
    }
}
