//! Keep-alives: one stream for all sessions of a connection.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use tenure_core::sync::Mutex;

use crate::calls::{Answers, AuthorizedChannel, stream};
use crate::status::Status;
use crate::wire::{LeaseKeepAliveRequest, LeaseKeepAliveResponse};

const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
/// Maximum keep-alives in flight. A client has few sessions.
const UNDER_WAY_MAX: usize = 64;

/// The stream of one connection. It is opened at first use, and again after it broke or was silent.
pub(crate) struct KeepAlives {
    wire: AuthorizedChannel,
    /// The runtime of the connection, which outlives the first caller.
    home: Handle,
    open: Mutex<Option<KeepAliveStream>>,
}

#[derive(Clone)]
struct KeepAliveStream {
    send: mpsc::Sender<LeaseKeepAliveRequest>,
    waiting: WaitingCallers,
}

/// Callers that wait for an answer, by lease. Answers for one lease come in the order of the
/// requests.
type WaitingCallers = Arc<Mutex<HashMap<i64, VecDeque<oneshot::Sender<LeaseKeepAliveResponse>>>>>;

impl KeepAlives {
    pub(crate) fn on(wire: AuthorizedChannel) -> Self {
        Self { wire, home: Handle::current(), open: Mutex::default() }
    }

    /// Sends one keep-alive. Its answer has the ttl in seconds; 0 if the lease is gone.
    pub(crate) async fn send(&self, lease: i64) -> Result<LeaseKeepAliveResponse, Status> {
        let open = self.open();
        let (tell, told) = oneshot::channel();
        open.waiting.lock().entry(lease).or_default().push_back(tell);
        // If the caller gives up, the stream counts as silent: the next keep-alive opens another.
        let mut silent =
            Silent { keep_alives: self, stream: open.waiting.clone(), is_answered: false };
        let broken = || Status::ended(String::new());
        open.send.send(LeaseKeepAliveRequest { id: lease }).await.map_err(|_| broken())?;
        let answer = told.await.map_err(|_| broken())?;
        silent.is_answered = true;
        Ok(answer)
    }

    /// Sends one keep-alive on another stream.
    pub(crate) async fn send_anew(&self, lease: i64) -> Result<LeaseKeepAliveResponse, Status> {
        *self.open.lock() = None;
        self.send(lease).await
    }

    fn open(&self) -> KeepAliveStream {
        let mut slot = self.open.lock();
        if let Some(open) = slot.as_ref().filter(|open| !open.send.is_closed()) {
            return open.clone();
        }
        let (send, requests) = mpsc::channel(UNDER_WAY_MAX);
        let open = KeepAliveStream { send, waiting: WaitingCallers::default() };
        self.home.spawn(run(self.wire.clone(), requests, open.waiting.clone()));
        slot.insert(open).clone()
    }
}

struct Silent<'a> {
    keep_alives: &'a KeepAlives,
    stream: WaitingCallers,
    is_answered: bool,
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            let is_its = |open: &mut KeepAliveStream| Arc::ptr_eq(&open.waiting, &self.stream);
            self.keep_alives.open.lock().take_if(is_its);
        }
    }
}

/// Runs until the stream ends, or the last sender is dropped.
async fn run(
    wire: AuthorizedChannel,
    mut requests: mpsc::Receiver<LeaseKeepAliveRequest>,
    waiting: WaitingCallers,
) {
    if let Ok((send, answers)) = stream(&wire, KEEP_ALIVE).await {
        tokio::select! {
            () = send.say_all(&mut requests) => {}
            () = hear(answers, &waiting) => {}
        }
    }
    waiting.lock().clear();
}

async fn hear(mut answers: Answers<LeaseKeepAliveResponse>, waiting: &WaitingCallers) {
    while let Ok(Some(answer)) = answers.message().await {
        if let Some(tell) = next(waiting, answer.id) {
            // The caller may have given up.
            let _ = tell.send(answer);
        }
    }
}

/// Returns the caller that waits for the next answer for a lease. Removes the entry of a lease
/// without callers.
fn next(waiting: &WaitingCallers, lease: i64) -> Option<oneshot::Sender<LeaseKeepAliveResponse>> {
    let mut waiting = waiting.lock();
    let all = waiting.get_mut(&lease)?;
    let next = all.pop_front();
    if all.is_empty() {
        waiting.remove(&lease);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_of_a_lease_for_which_nobody_waits() {
        let (waiting, (tell, _told)) = (WaitingCallers::default(), oneshot::channel());
        waiting.lock().entry(7).or_default().push_back(tell);
        assert!(next(&waiting, 7).is_some() && next(&waiting, 7).is_none());
        assert!(waiting.lock().is_empty());
    }
}
