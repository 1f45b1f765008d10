//! The floor: the fewest requests of a lock and of a hand-over, by the engine's client crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join;
use tokio::sync::Mutex;
use zookeeper_client::{
    Acls, AddWatchMode, Client, CreateMode, CreateOptions, Error, PersistentWatcher,
};

use crate::contest::contender::{Contender, Held, Later, TTL};

/// A session with the servers of a URL.
pub(super) async fn connect(url: &str) -> Client {
    let servers = url.trim_start_matches("zookeeper://");
    Client::connector().with_session_timeout(TTL).connect(servers).await.unwrap()
}

/// The options of persistent nodes, which outlive their session.
pub(super) fn persistent() -> CreateOptions<'static> {
    CreateMode::Persistent.with_acls(Acls::anyone_all())
}

/// A lock without loss or wait: create of an ephemeral sequential node, a listing, and a delete.
pub(crate) struct Floor {
    client: Client,
}

impl Floor {
    pub(crate) async fn connect(url: &str) -> Self {
        Self { client: connect(url).await }
    }
}

impl Contender for Floor {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let line = format!("/floor/{key}");
            let prefix = format!("{line}/ticket-");
            let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
            let number = loop {
                let create = self.client.create(&prefix, b"floor", &ephemeral);
                match join(create, self.client.get_children(&line)).await {
                    (Ok((_, number)), Ok(_)) => break number,
                    (Err(Error::NoNode), _) => {
                        self.client.mkdir(&line, &persistent()).await.unwrap();
                    }
                    (created, listed) => return Err(format!("{created:?} {listed:?}")),
                }
            };
            let client = self.client.clone();
            let release = Box::pin(async move {
                client.delete(&format!("{prefix}{number}"), None).await.unwrap();
            });
            Ok(Held { token: None, release })
        })
    }
}

/// A write that two processes make for each other: the side whose watch reports it holds.
pub(crate) struct Hop {
    client: Arc<Client>,
    inbox: Mutex<PersistentWatcher>,
    other: &'static str,
    /// Whether this side holds at the start.
    first: AtomicBool,
}

impl Hop {
    pub(crate) async fn connect(url: &str, side: usize) -> Self {
        let client = connect(url).await;
        for path in ["/hop-0", "/hop-1"] {
            match client.create(path, b"", &persistent()).await {
                Ok(_) | Err(Error::NodeExists) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let [own, other] = if side == 0 { ["/hop-0", "/hop-1"] } else { ["/hop-1", "/hop-0"] };
        let inbox = Mutex::new(client.watch(own, AddWatchMode::Persistent).await.unwrap());
        let first = AtomicBool::new(side == 0);
        Self { client: Arc::new(client), inbox, other, first }
    }
}

impl Contender for Hop {
    fn lock<'a>(&'a self, _key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            if !self.first.swap(false, Ordering::Relaxed) {
                self.inbox.lock().await.changed().await;
            }
            let (client, other) = (self.client.clone(), self.other);
            let release = Box::pin(async move {
                client.set_data(other, b"", None).await.unwrap();
            });
            Ok(Held { token: None, release })
        })
    }
}
