//! The check that all servers of a URL keep the same data. A client uses one of them, and two
//! clients of servers that are not one ensemble would both get the same lock.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tenure_core::Result;
use tenure_kit::url::Address;
use tokio::time::timeout;
use zookeeper_client::Stat;

use crate::client::ZooKeeper;
use crate::session::ServerSession;
use crate::settings::Settings;
use crate::trouble;

/// Time for which a new client waits for the servers that it does not use.
const WITHIN: Duration = Duration::from_millis(500);
/// Ttl of the sessions of this check. An unused session is gone after that, or after the minimum of
/// the servers.
const LIFE: Duration = Duration::from_secs(2);

impl ZooKeeper {
    /// Refuses servers that do not have the node that was just written, if they answer at once.
    /// Does not wait for a server that cannot be reached now.
    pub(crate) async fn refuse_others(&self, written: &Stat) -> Result<()> {
        let settings = &self.settings;
        if settings.servers.len() == 1 {
            return Ok(());
        }
        let path = self.keys.now();
        let all = settings.servers.iter().map(|server| async {
            let seen = timeout(WITHIN, look(settings, server, &path)).await;
            let is_other = seen.is_ok_and(|seen| seen.is_some_and(|seen| !is_same(seen, written)));
            is_other.then(|| server.to_string())
        });
        let others: Vec<String> = join_all(all).await.into_iter().flatten().collect();
        if others.is_empty() { Ok(()) } else { Err(trouble::several(settings, &others)) }
    }
}

/// Returns this server's state of a node, which may not exist; `None` if it does not answer.
async fn look(settings: &Settings, server: &Address, path: &str) -> Option<Option<Stat>> {
    let alone = Settings { servers: vec![server.clone()], ..settings.clone() };
    let wire = ServerSession::open(&Arc::new(alone), LIFE).await.ok()?;
    let turn = wire.turn().await.ok()?;
    // A server of an ensemble may be behind.
    turn.sync(path).await.ok()?;
    turn.check_stat(path).await.ok()
}

/// Returns whether a node is the one that was written to. Other clients may have written to it
/// since.
fn is_same(seen: Option<Stat>, written: &Stat) -> bool {
    seen.is_some_and(|seen| {
        (seen.czxid, seen.ctime) == (written.czxid, written.ctime) && seen.mzxid >= written.mzxid
    })
}
