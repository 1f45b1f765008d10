//! The task that follows the sentinels, because a replaced master may go on answering its old
//! connections.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tenure_core::{Backoff, jitter};
use tenure_kit::ServerClient;
use tenure_kit::secret::redact;
use tenure_kit::url::Address;

use crate::connect;
use crate::link::{Master, MasterLink};
use crate::secret::said;
use crate::sentinel::Sentinels;

/// Maximum interval of requests to the sentinel besides its pushes; jitter takes up to half of it.
const ASK_PAUSE: Duration = Duration::from_secs(10);
/// Minimum pause after a new connection to a sentinel.
const PAUSE_FIRST: Duration = Duration::from_millis(250);

/// Returns the link that receives this client's pushes. It follows the sentinels, if there are
/// some.
pub(crate) fn home(client: &Arc<ServerClient<Master>>) -> Arc<MasterLink> {
    let link = MasterLink::kept(client.clone());
    if let Some(sentinels) = client.server().door.sentinels() {
        link.home().spawn(follow_sentinels(Arc::downgrade(&link), sentinels.clone()));
    }
    link
}

/// Drops connections to a server other than the current master.
fn follow(link: &MasterLink, master: &Address) {
    let Some(connection) = link.current() else { return };
    let master = connect::address(master, &link.server().settings).to_string();
    if *connection.address != *master {
        let master = redact(link.server().settings.secrets(), master);
        tracing::info!(master, "another server is the master now");
        link.was_replaced(connection.generation());
    }
}

/// Follows the sentinels as long as the link exists: a replaced master may go on answering its old
/// connections.
async fn follow_sentinels(link: Weak<MasterLink>, sentinels: Arc<Sentinels>) {
    let mut backoff = Backoff::new(PAUSE_FIRST, ASK_PAUSE);
    loop {
        let pause = jitter(ASK_PAUSE, getrandom::u64().unwrap_or(0));
        // Either a push or the end of the pause: the next step asks a sentinel.
        let _ = tokio::time::timeout(pause, sentinels.news.notified()).await;
        let Some(link) = link.upgrade() else { return };
        let made = sentinels.made.load(Ordering::Relaxed);
        match sentinels.master().await {
            Ok(master) => follow(&link, &master),
            Err(error) => {
                let says = said(&link.server().settings, &error);
                tracing::debug!(says, "no sentinel says who the master is");
                sentinels.news.notify_one();
            }
        }
        drop(link);
        // A sentinel that refuses or ends its connections gets no burst of them.
        if sentinels.made.load(Ordering::Relaxed) == made {
            backoff.reset();
        } else {
            tokio::time::sleep(backoff.pause()).await;
        }
    }
}
