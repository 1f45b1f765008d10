//! The channels of a cluster: the pushes of lines to their tickets.
//!
//! A connection of its own receives them, and carries no verbs. A slot that moves unsubscribes its
//! channels unasked, and the driver takes that for the answer to its last request. From then on,
//! each answer goes to another request.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use redis::cluster_async::ClusterConnection;
use redis::{PushInfo, PushKind, RedisResult, Value};
use tenure_core::TicketId;
use tenure_core::sync::Mutex;
use tenure_kit::subscriptions::Subscriptions;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::letter;

/// Count of further channels after which those of lines without waiters are removed.
const MORE_MAX: usize = 256;

/// The channels of one client.
pub(super) struct Channels {
    connection: ClusterConnection,
    /// The sharded channels; `None` if one channel carries all pushes.
    sharded: Option<Mutex<Sharded>>,
    mail: Arc<Subscriptions>,
    inbox: String,
    home: Handle,
}

#[derive(Default)]
struct Sharded {
    by_name: HashMap<String, LineChannel>,
    /// Count of channels in use at the last cleanup.
    used: usize,
}

/// The channel of one line.
#[derive(Default)]
struct LineChannel {
    /// Set once the server has confirmed it.
    open: Arc<OnceCell<()>>,
    waiting: HashSet<TicketId>,
}

impl Channels {
    /// Returns the channels over this connection: one for each line, or one in all. The caller's
    /// runtime carries them.
    pub(super) fn new(
        connection: ClusterConnection,
        are_sharded: bool,
        mail: Arc<Subscriptions>,
        inbox: String,
    ) -> Self {
        let sharded = are_sharded.then(Mutex::default);
        Self { connection, sharded, mail, inbox, home: Handle::current() }
    }

    /// Subscribes this ticket to its line. Returns `true` if it was not subscribed before, and may
    /// have missed something.
    pub(super) async fn hear_of(&self, key: &str, id: TicketId) -> RedisResult<bool> {
        let Some(sharded) = &self.sharded else { return Ok(false) };
        let name = self.channel(key);
        let (open, idle) = {
            let mut sharded = sharded.lock();
            let idle = sharded.take_idle(&name, &self.mail);
            let channel = sharded.by_name.entry(name.clone()).or_default();
            channel.waiting.insert(id);
            (channel.open.clone(), idle)
        };
        if !idle.is_empty() {
            let mut connection = self.connection.clone();
            self.home.spawn(async move {
                // Each channel has a slot of its own, and a request is for one slot.
                for channel in idle {
                    if let Err(error) = connection.sunsubscribe(&channel).await {
                        let refused = error.code().is_some();
                        tracing::debug!(refused, "a channel stays subscribed where nobody waits");
                    }
                }
            });
        }
        if open.initialized() {
            return Ok(false);
        }
        open.get_or_try_init(|| async { self.connection.clone().ssubscribe(&name).await }).await?;
        Ok(true)
    }

    /// Unsubscribes the ticket from its line.
    pub(super) fn hear_no_more_of(&self, key: &str, id: TicketId) {
        if let Some(sharded) = &self.sharded
            && let Some(channel) = sharded.lock().by_name.get_mut(&self.channel(key))
        {
            channel.waiting.remove(&id);
        }
    }

    fn channel(&self, key: &str) -> String {
        format!("{key}:{}", self.inbox)
    }

    /// Subscribes again after the slot of this channel has moved. Meanwhile the heartbeats find
    /// out.
    fn follow(&self, channel: String) {
        let mut connection = self.connection.clone();
        self.home.spawn(async move {
            if let Err(error) = connection.ssubscribe(&channel).await {
                let refused = error.code().is_some();
                tracing::debug!(refused, "a channel was lost: who waits there looks by heartbeat");
            }
        });
    }

    /// Handles a push.
    pub(super) fn hear(&self, push: PushInfo) {
        let channel = match push.data.first() {
            Some(Value::BulkString(channel)) => String::from_utf8_lossy(channel).into_owned(),
            _ => String::new(),
        };
        match (push.kind, &push.data[..]) {
            (PushKind::SMessage | PushKind::Message, [_, Value::BulkString(letter)]) => {
                letter::deliver(&self.mail, letter);
            }
            (PushKind::SSubscribe, _) => {
                for id in self.waiting_at(&channel) {
                    self.mail.look(id);
                }
            }
            // Its slot has moved, or there is no waiter any more.
            (PushKind::SUnsubscribe, _) if !self.waiting_at(&channel).is_empty() => {
                self.follow(channel);
            }
            (PushKind::Subscribe | PushKind::Disconnection, _) => self.mail.interrupted(),
            _ => {}
        }
    }

    fn waiting_at(&self, channel: &str) -> Vec<TicketId> {
        let Some(sharded) = &self.sharded else { return Vec::new() };
        match sharded.lock().by_name.get(channel) {
            Some(channel) if channel.open.initialized() => {
                channel.waiting.iter().copied().collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Sharded {
    /// Removes the channels of lines without waiters, once there are many. A ticket may have ended
    /// without notice: its owner gave up leaving while no server answered.
    fn take_idle(&mut self, but: &str, mail: &Subscriptions) -> Vec<String> {
        // If many are in use, they are not all checked for each further one.
        if self.by_name.len() <= self.used + MORE_MAX {
            return Vec::new();
        }
        let is_idle = |name: &String, channel: &mut LineChannel| {
            channel.waiting.retain(|id| mail.lives(*id));
            channel.waiting.is_empty() && name != but
        };
        let idle = self.by_name.extract_if(is_idle).map(|(name, _)| name).collect();
        self.used = self.by_name.len();
        idle
    }
}
