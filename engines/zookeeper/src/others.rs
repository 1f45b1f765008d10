//! Whether all servers of a URL keep the same data. A client speaks to one of them, and two clients of servers that are not one ensemble
//! would both be given the same lock.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tenure_core::Result;
use tenure_kit::url::Address;
use tokio::time::timeout;
use zookeeper_client::Stat;

use crate::client::ZooKeeper;
use crate::settings::Settings;
use crate::trouble;
use crate::wire::Wire;

/// So long a client that begins waits for the servers that it does not speak to.
const WITHIN: Duration = Duration::from_millis(500);
/// A session that was opened in vain is gone after that, or after the least that the servers grant.
const LIFE: Duration = Duration::from_secs(2);

impl ZooKeeper {
    /// Refuses servers that do not know what was just written, as far as they answer at once. Who cannot be reached now is not waited for.
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

/// What this server knows of a node, which may be nothing; `None` if it does not say.
async fn look(settings: &Settings, server: &Address, path: &str) -> Option<Option<Stat>> {
    let alone = Settings { servers: vec![server.clone()], ..settings.clone() };
    let wire = Wire::open(&Arc::new(alone), LIFE).await.ok()?;
    let turn = wire.turn().await.ok()?;
    // A server of an ensemble may be behind.
    turn.sync(path).await.ok()?;
    turn.check_stat(path).await.ok()
}

/// Whether a node is the one that was written to, and has been. Others may have written to it since.
fn is_same(seen: Option<Stat>, written: &Stat) -> bool {
    seen.is_some_and(|seen| {
        (seen.czxid, seen.ctime) == (written.czxid, written.ctime) && seen.mzxid >= written.mzxid
    })
}
