//! Everything that the locks of one store share: the engine, its runtime and the background tasks.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::select;
use tokio::sync::Notify;

use crate::background::admission::Admission;
use crate::background::monitor::Monitor;
use crate::background::releaser::Releaser;
use crate::background::renewer::Renewer;
use crate::background::retries::Retries;
use crate::contract::any::AnyEngine;
use crate::wake::wake_all;
use crate::{Engine, Error, Guarantees, Liveness, Result, Runtime};

pub(crate) struct Client {
    pub(crate) engine: AnyEngine,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) renewer: Arc<Renewer>,
    pub(crate) releaser: Arc<Releaser>,
    /// Removes tickets that a late join may still put into their line. `flush` does not wait for
    /// it, and `close` does.
    pub(crate) late_joins: Arc<Releaser>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) guarantees: Guarantees,
    pub(crate) tickets: Tickets,
    /// How often a join is sent again.
    pub(crate) retries: Retries,
}

/// The number of tickets that join, wait or hold. A ticket counts until it begins to leave.
#[derive(Default)]
pub(crate) struct Tickets {
    count: AtomicUsize,
    none: Notify,
}

impl Client {
    pub(crate) fn new(
        engine: impl Engine,
        runtime: Arc<dyn Runtime>,
        retries: Retries,
    ) -> Arc<Self> {
        let engine = AnyEngine::new(Monitor::new(engine, runtime.clone()));
        Arc::new(Self {
            guarantees: engine.guarantees(),
            renewer: Renewer::new(engine.clone(), runtime.clone()),
            releaser: Releaser::new(engine.clone(), runtime.clone()),
            late_joins: Releaser::new(engine.clone(), runtime.clone()),
            admission: Admission::new(runtime.clone()),
            tickets: Tickets::default(),
            engine,
            runtime,
            retries,
        })
    }

    /// The engine, for a request of the caller. After `close` each is refused.
    pub(crate) fn open_engine(&self) -> Result<&AnyEngine> {
        if self.renewer.has_ended() { Err(Error::closed()) } else { Ok(&self.engine) }
    }

    /// Ends every lease, releases what was dropped, and closes the engine.
    pub(crate) async fn close(&self) {
        self.renewer.end();
        if self.runtime.ready().is_err() {
            // No thread has ever run here, so no lock was taken and no timer can run.
            return self.engine.close().await;
        }
        let time = self.guarantees.answers_within;
        let released = async {
            self.tickets.none().await;
            self.releaser.flush().await;
        };
        // A guard that the program keeps is lost, and does not delay the end further.
        let _ = select(pin!(released), self.runtime.sleep(time)).await;
        let rest = async {
            self.releaser.flush().await;
            self.late_joins.flush().await;
        };
        match self.guarantees.liveness {
            // Without an answer, the store ends the session when its ttl is over.
            Liveness::Session => {
                let _ = select(pin!(self.engine.close()), self.runtime.sleep(time)).await;
                self.leave_the_rest();
            }
            // Tickets do not expire, so a leave that keeps failing would be repeated for ever.
            Liveness::Kernel => {
                let _ = select(pin!(rest), self.runtime.sleep(time)).await;
                self.leave_the_rest();
                self.engine.close().await;
            }
            Liveness::Lease | Liveness::Process => {
                rest.await;
                self.engine.close().await;
            }
        }
    }

    fn leave_the_rest(&self) {
        self.releaser.leave_the_rest();
        self.late_joins.leave_the_rest();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.renewer.close();
    }
}

impl Tickets {
    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn remove(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            wake_all(&self.none);
        }
    }

    /// Waits until the number is zero.
    async fn none(&self) {
        loop {
            let mut none = pin!(self.none.notified());
            none.as_mut().enable();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            none.await;
        }
    }
}
