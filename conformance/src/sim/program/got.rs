//! The guards of a program, of any primitive.

use std::sync::Arc;

use tenure_core::{LeaseHandle, MultiGuard, Result, SHARE_OF_MAX, Share, TicketId, WriteGuard};

use crate::any_guard::AnyGuard;
use crate::sim::holder::{Claim, View};

/// The guards of a program.
pub(super) enum Got {
    One(AnyGuard, Share),
    Write(WriteGuard),
    All(MultiGuard),
    Other(Box<dyn Claim>),
}

/// One of its locks.
pub(super) struct Part {
    pub(super) key: String,
    pub(super) share: Share,
    pub(super) token: u64,
    pub(super) id: TicketId,
    pub(super) view: Arc<dyn View>,
}

impl Got {
    pub(super) fn parts(&self) -> Vec<Part> {
        match self {
            Self::One(guard, share) => vec![Part::of(guard.handle(), *share)],
            Self::Write(guard) => {
                let share = Share::new(SHARE_OF_MAX, SHARE_OF_MAX).expect("the share is valid");
                vec![Part::of(guard.handle(), share)]
            }
            Self::All(all) => {
                all.guards().iter().map(|guard| Part::of(guard.handle(), Share::WHOLE)).collect()
            }
            Self::Other(claim) => vec![Part {
                key: claim.key(),
                share: Share::WHOLE,
                token: claim.token(),
                id: claim.id(),
                view: claim.view(),
            }],
        }
    }

    pub(super) async fn release(self) -> Result<()> {
        match self {
            Self::One(guard, _) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::All(all) => all.release().await,
            Self::Other(claim) => claim.release().await,
        }
    }
}

impl Part {
    pub(super) fn of(held: LeaseHandle, share: Share) -> Self {
        Self {
            key: held.key().as_str().to_owned(),
            share,
            token: held.number(),
            id: held.id(),
            view: Arc::new(held),
        }
    }
}
