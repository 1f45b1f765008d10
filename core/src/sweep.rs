//! The sweeper gives back what was dropped: it outlives the futures that were.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Notify;

use crate::wrap::AnyEngine;
use crate::{Engine as _, Host, Leave, Left, Liveness, Result, Ticket};

const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What is known of a ticket that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trace {
    /// It was in the line: once it is out, it is out.
    InLine,
    /// A request to join may still be on its way: it is looked for until it could not live any more.
    Joining,
}

impl Trace {
    /// Whether nothing of the ticket can be left after this answer.
    pub(crate) fn is_settled_by(self, left: &Result<Left>) -> bool {
        match left {
            Ok(Left::Holding | Left::Waiting) => true,
            Ok(Left::Absent | Left::Unsure) => self == Self::InLine,
            Ok(Left::Told) | Err(_) => false,
        }
    }
}

pub(crate) struct Sweeper {
    engine: AnyEngine,
    host: Arc<dyn Host>,
    /// A ticket that gives no sign of life ends by itself, so that sweeping may end too.
    leased: bool,
    quick: bool,
    sweeping: AtomicUsize,
    swept: Notify,
}

impl Sweeper {
    pub(crate) fn new(engine: AnyEngine, host: Arc<dyn Host>) -> Arc<Self> {
        let profile = engine.profile();
        Arc::new(Self {
            engine,
            host,
            leased: matches!(profile.liveness, Liveness::Lease | Liveness::Process),
            quick: profile.quick,
            sweeping: AtomicUsize::new(0),
            swept: Notify::new(),
        })
    }

    /// Takes a ticket out of its line: at once where that is a quick call, else in the background.
    pub(crate) fn give_back(self: &Arc<Self>, ticket: Ticket, trace: Trace) {
        if self.quick {
            let left = self.engine.leave(&ticket, Leave::Now).now_or_never();
            if left.is_some_and(|left| trace.is_settled_by(&left)) {
                return;
            }
        }
        self.sweeping.fetch_add(1, Ordering::AcqRel);
        let task = Sweep { sweeper: self.clone(), ticket, trace };
        self.host.spawn(Box::pin(async move { task.run().await }));
    }

    /// Returns once nothing is being given back.
    pub(crate) async fn settled(&self) {
        loop {
            let mut swept = std::pin::pin!(self.swept.notified());
            swept.as_mut().enable();
            if self.sweeping.load(Ordering::Acquire) == 0 {
                return;
            }
            swept.await;
        }
    }
}

/// One ticket on its way out.
struct Sweep {
    sweeper: Arc<Sweeper>,
    ticket: Ticket,
    trace: Trace,
}

impl Sweep {
    /// Asks until the store has answered, or until the ticket has ended by itself.
    async fn run(self) {
        let Self { sweeper, ticket, trace } = &self;
        let ended = sweeper.host.now().plus(ticket.ttl);
        let mut pause = PAUSE_FIRST;
        loop {
            let left = sweeper.engine.leave(ticket, Leave::Now).await;
            if let Err(error) = &left
                && !error.is_unknown()
            {
                tracing::warn!(key = %ticket.key, id = %ticket.id, %error, "a ticket could not be given back");
                return;
            }
            if trace.is_settled_by(&left) {
                return;
            }
            let may_end = sweeper.leased || *trace == Trace::Joining;
            if may_end && sweeper.host.now().has_reached(ended) {
                return;
            }
            sweeper.host.sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        self.sweeper.sweeping.fetch_sub(1, Ordering::AcqRel);
        self.sweeper.swept.notify_waiters();
    }
}
