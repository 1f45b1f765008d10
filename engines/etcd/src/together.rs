//! A join and a release of one line, sent as one transaction.
//!
//! If tasks of one client take turns at a lock, one of them leaves the line, and the one that left
//! before it joins again. Each of the two transactions is an entry in the log of every member,
//! which writes it to its disk. Sent as one, they are one entry, and that is most of the cost of a
//! turn. So a ticket that comes to a line with several tickets of its client waits a moment for one
//! of them to leave. It would be served after them in any case.
//!
//! A transaction may contain others. Each of these compares for itself, and a failed comparison of
//! one does not affect the other. Both have one revision. That is no ticket's number twice, because
//! only one of them is a join.
//!
//! If etcd refuses one of them, it refuses both. Then each is sent alone. A request that was
//! refused for want of space may have been carried out, so the releasing caller gets the refusal:
//! see [`refused`](crate::refused).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use tenure_core::{ErrorKind, Result};
use tenure_queue::LineId;
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::ask::{put, put_op, txn_op};
use crate::cluster::Cluster;
use crate::wire::request_op::Request;
use crate::wire::response_op::Response;
use crate::wire::{RequestOp, TxnRequest, TxnResponse};

/// Time for which a join waits for a release.
const MOMENT: Duration = Duration::from_millis(1);

/// The joins and releases of one client, which may be sent together.
pub(crate) struct Together {
    cluster: Arc<Cluster>,
    waiting: Joins,
}

/// The joins that wait for a release, at most one for each line.
#[derive(Clone, Default)]
struct Joins(Arc<Mutex<HashMap<LineId, Waiting>>>);

struct Waiting {
    which: Arc<()>,
    runtime: Option<Id>,
    release: oneshot::Sender<TxnRequest>,
    sent: WeakShared<Sending>,
}

/// Both are sent as long as one of the two callers waits.
type Sending = BoxFuture<'static, Arc<Mutex<Both>>>;

/// The outcome of each, for its caller.
#[derive(Default)]
struct Both {
    join: Option<Came>,
    release: Option<Came>,
}

enum Came {
    Answered(Result<TxnResponse>),
    /// etcd refused both or one of them.
    Refused(TxnRequest),
}

impl Together {
    pub(crate) fn at(cluster: Arc<Cluster>) -> Self {
        Self { cluster, waiting: Joins::default() }
    }

    /// Joins a line, together with a release of the line if one comes in a moment.
    pub(crate) async fn join(&self, line: &LineId, txn: TxnRequest) -> Result<TxnResponse> {
        let both = self.wait(line, txn).await;
        let came = lock(&both).join.take();
        self.came(came).await
    }

    /// Leaves a line, together with the join that waits for that.
    pub(crate) async fn release(&self, line: &LineId, txn: TxnRequest) -> Result<TxnResponse> {
        match self.waiting.go(line, runtime(), txn) {
            Ok(sent) => {
                let both = sent.await;
                let came = lock(&both).release.take();
                self.came(came).await
            }
            Err(txn) => self.cluster.txn(txn).await,
        }
    }

    /// Sends a waiting join alone, because a ticket is about to leave in another way.
    pub(crate) fn part(&self, line: &LineId) {
        self.waiting.lock().remove(line);
    }

    async fn came(&self, came: Option<Came>) -> Result<TxnResponse> {
        match came {
            Some(Came::Answered(answer)) => answer,
            Some(Came::Refused(txn)) => self.cluster.txn(txn).await,
            None => Err(self.cluster.silence()),
        }
    }

    /// Makes a join wait for a release. Sends one that waited already alone, because it came first.
    fn wait(&self, line: &LineId, join: TxnRequest) -> Shared<Sending> {
        let (tell, mut told) = oneshot::channel();
        let (which, cluster) = (Arc::default(), self.cluster.clone());
        let (all, of) = (self.waiting.clone(), line.clone());
        let waits = Waits { all, line: of, which: Arc::clone(&which) };
        let sending = async move {
            let in_time = timeout(MOMENT, &mut told).await.ok().and_then(Result::ok);
            drop(waits);
            // No release is accepted from here on. One may have come in the last moment.
            let both = if let Some(release) = in_time.or_else(|| told.try_recv().ok()) {
                both(&cluster, join, release).await
            } else {
                let answer = Came::Answered(cluster.txn(join).await);
                Both { join: Some(answer), release: None }
            };
            Arc::new(Mutex::new(both))
        };
        let sent = sending.boxed().shared();
        if let Some(weak) = sent.downgrade() {
            let waiting = Waiting { which, runtime: runtime(), release: tell, sent: weak };
            self.waiting.lock().insert(line.clone(), waiting);
        }
        sent
    }
}

impl Joins {
    /// Sends the join that waits for a release: with this release, or alone if it is of another
    /// runtime, which may stand still. Then the release gets its transaction back, as it does
    /// without a waiting join.
    fn go(
        &self,
        line: &LineId,
        here: Option<Id>,
        release: TxnRequest,
    ) -> Result<Shared<Sending>, TxnRequest> {
        let (told, sent) = {
            let mut all = self.lock();
            let waiting = all.remove(line).filter(|waiting| waiting.runtime == here);
            let Some(Waiting { release: tell, sent, .. }) = waiting else { return Err(release) };
            let Some(sent) = sent.upgrade() else { return Err(release) };
            (tell.send(release), sent)
        };
        told.map(|()| sent)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LineId, Waiting>> {
        lock(&self.0)
    }
}

async fn both(cluster: &Cluster, join: TxnRequest, release: TxnRequest) -> Both {
    // The join comes last, so that the front of the line in its answer is without the ticket that
    // left.
    let success = [&release, &join].map(|txn| txn_op(txn.clone())).to_vec();
    // Members count only the puts of the outer transaction. A full one refuses also those that it
    // does not carry out. Nothing is compared, so these are never carried out.
    let failure = join.success.iter().filter_map(put_of).map(|key| put_op(put(key, Vec::new(), 0)));
    let whole = TxnRequest { compare: Vec::new(), success, failure: failure.collect() };
    match cluster.txn(whole).await {
        Ok(TxnResponse { header, responses, .. }) => {
            let mut parts = responses.into_iter().map(|part| match part.response {
                // Each was carried out at the revision of both.
                Some(Response::ResponseTxn(part)) => {
                    Some(Came::Answered(Ok(TxnResponse { header, ..part })))
                }
                _ => None,
            });
            let release = parts.next().flatten();
            Both { join: parts.next().flatten(), release }
        }
        Err(error) if error.is_retryable() => {
            let answer = || Some(Came::Answered(Err(error.clone())));
            Both { join: answer(), release: answer() }
        }
        Err(error) => {
            let release = match error.kind() {
                // The releasing caller must know that, because the ticket may have left.
                ErrorKind::Rejected => Came::Answered(Err(error)),
                _ => Came::Refused(release),
            };
            Both { join: Some(Came::Refused(join)), release: Some(release) }
        }
    }
}

/// Returns the key of a put.
fn put_of(op: &RequestOp) -> Option<Vec<u8>> {
    match &op.request {
        Some(Request::RequestPut(put)) => Some(put.key.clone()),
        _ => None,
    }
}

fn runtime() -> Option<Id> {
    Handle::try_current().ok().map(|here| here.id())
}

/// A waiting join, until it is sent or dropped.
struct Waits {
    all: Joins,
    line: LineId,
    which: Arc<()>,
}

impl Drop for Waits {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if all.get(&self.line).is_some_and(|waiting| Arc::ptr_eq(&waiting.which, &self.which)) {
            all.remove(&self.line);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tenure_core::Key;

    use super::*;

    #[tokio::test]
    async fn a_join_goes_with_a_release_of_its_own_runtime_and_alone_with_any_other() {
        let line = LineId::of(&Key::new("k").unwrap());
        let sent = async { Arc::default() }.boxed().shared();
        for (here, is_together) in [(runtime(), true), (None, false)] {
            let (joins, (release, mut told)) = (Joins::default(), oneshot::channel());
            let (which, runtime, weak) = (Arc::default(), runtime(), sent.downgrade().unwrap());
            let waiting = Waiting { which, runtime, release, sent: weak };
            joins.lock().insert(line.clone(), waiting);
            let gone = joins.go(&line, here, TxnRequest::default());
            assert_eq!(gone.is_ok(), is_together);
            let is_told = told.try_recv();
            assert_eq!(is_told.is_ok(), is_together, "it waits no longer either way: {is_told:?}");
            assert_ne!(is_told, Err(oneshot::error::TryRecvError::Empty));
            assert!(joins.lock().is_empty());
        }
    }
}
