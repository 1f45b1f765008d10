//! The task of a session, which the client crate spawns on the engine's runtime.
//!
//! The task ends when its session is closed, but it first reads the frame that is under way. The
//! client crate reads frames of any length, so a server with an endless one would keep the task.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use spawns_core::{Spawn, Task, enter};
use tenure_core::sync::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Keeps the task of a session. After this is dropped, the task is aborted unless it ends in time.
pub(crate) struct SessionTask {
    _kept: oneshot::Sender<()>,
}

impl SessionTask {
    /// Keeps a task that has this time to end by itself.
    pub(crate) fn keep(mut task: JoinHandle<()>, ends_within: Duration) -> Self {
        let (kept, dropped) = oneshot::channel();
        tokio::spawn(async move {
            let _ = dropped.await; // nothing is ever sent
            if timeout(ends_within, &mut task).await.is_err() {
                task.abort();
            }
        });
        Self { _kept: kept }
    }
}

/// The runtime of new tasks, and the handle of the last one.
#[derive(Default)]
struct Spawner(Mutex<Option<JoinHandle<()>>>);

impl Spawn for Spawner {
    fn spawn(&self, task: Task) {
        let spawned = tokio::spawn(Box::into_pin(task.future));
        *self.0.lock() = Some(spawned);
    }
}

/// Runs `connecting`, and returns the task that the client crate has spawned meanwhile, if any.
pub(crate) async fn spawned_by<T>(
    connecting: impl Future<Output = T>,
) -> (T, Option<JoinHandle<()>>) {
    let (spawner, mut connecting) = (Spawner::default(), pin!(connecting));
    let connected = poll_fn(|cx| {
        let _scope = enter(&spawner);
        connecting.as_mut().poll(cx)
    })
    .await;
    (connected, spawner.0.into_inner())
}
