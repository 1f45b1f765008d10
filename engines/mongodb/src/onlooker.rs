//! Onlookers: the events of one line, or of all lines. They are read from a change stream for as
//! long as an onlooker asks for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::sync::Mutex;
use tenure_core::{Error, Key, Result};
use tokio::time::timeout;

use crate::command::CommandSender;
use crate::feed::Feed;
use crate::followed_line::{CURSORS, FollowedLine};
use crate::trouble;

/// Maximum lines of a client that are followed one by one. An onlooker of a further line is
/// refused.
const FOLLOWED_MAX: usize = 64;

/// The lines that one client's onlookers follow.
pub(crate) struct FollowedLines {
    commands: Arc<CommandSender>,
    feed: Feed,
    /// `None`: all lines.
    followed: Mutex<HashMap<Option<Key>, Arc<FollowedLine>>>,
    streams: AtomicU64,
}

impl FollowedLines {
    pub(crate) fn new(commands: Arc<CommandSender>, feed: Feed) -> Self {
        Self { commands, feed, followed: Mutex::default(), streams: AtomicU64::new(0) }
    }

    /// Returns the answer to [`Engine::events`](tenure_core::Engine::events).
    pub(crate) async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        let following = self.following(scope)?;
        let opened = timeout(self.commands.timeout, following.opened());
        opened.await.map_err(|_| trouble::late(&self.commands.servers))??;
        following.since(scope, after).await
    }

    /// Ends all streams of onlookers.
    pub(crate) fn stop(&self) {
        for following in self.followed().drain().map(|(_, following)| following) {
            following.end();
        }
    }

    fn following(&self, scope: &Scope) -> Result<Arc<FollowedLine>> {
        let key = match scope {
            Scope::Key(key) => Some(key.clone()),
            Scope::Prefix(_) => None,
        };
        let mut followed = self.followed();
        followed.retain(|_, following| !following.has_ended());
        if let Some(following) = followed.get(&key) {
            return Ok(following.clone());
        }
        if followed.len() >= FOLLOWED_MAX {
            return Err(Error::rejected(format!(
                "this client looks on at {FOLLOWED_MAX} lines already, which is as many as it can: look on at all lines with one prefix"
            )));
        }
        let first_cursor = self.streams.fetch_add(1, Ordering::Relaxed) * CURSORS;
        let following =
            FollowedLine::begin(self.commands.clone(), &self.feed, key.clone(), first_cursor);
        followed.insert(key, following.clone());
        Ok(following)
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<Option<Key>, Arc<FollowedLine>>> {
        self.followed.lock()
    }
}

impl Drop for FollowedLines {
    fn drop(&mut self) {
        self.stop();
    }
}
