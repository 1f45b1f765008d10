//! Guarded writes: a check for a `multi` of one's own, which is carried out only while a lock is
//! held.

use tenure_core::{Error, LeaseHandle, Loss, Result};
use tenure_queue::LineId;
use zookeeper_client::{CheckWriter, Client, Error as Said};

use crate::names::{self, NodePaths};
use crate::settings::PREFIX;

/// A check for a `multi` of your own in the same ensemble: "the lock is still held".
///
/// A holder that was paused too long may overwrite what its successor has written. `ZooKeeper`
/// itself can refuse that write. The ticket of a holder is a node, which is gone before the next
/// ticket is served, and whose name never comes again. So a `multi` that checks the node is carried
/// out only while the lock is held.
///
/// ```no_run
/// # async fn write() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = tenure_zookeeper::connect("zookeeper://h1,h2,h3/app").await?;
/// let client = zookeeper_client::Client::connect("h1,h2,h3/app").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let still_held = tenure_zookeeper::StillHeld::find(&client, &guard.handle()).await?;
/// let mut writer = still_held.writer(&client)?;
/// writer.add_set_data("/invoices/42", b"paid", None)?;
/// writer.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// With another client, check the [path](Self::path) with the [version](Self::VERSION) that matches
/// any: the node exists, or the `multi` is refused. It works for mutexes, readers, writers, permits
/// and leaders. A `multi` whose check fails has changed nothing: stop, the lock is lost.
///
/// **Not promised**: a lock of another store or ensemble, or below another chroot or
/// [prefix](Self::find_within), has no such node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StillHeld {
    path: String,
}

impl StillHeld {
    /// The version for a check: the node exists, with any data.
    pub const VERSION: i32 = -1;

    /// Returns the check for this lock, for a URL without `prefix`. The client needs the same
    /// chroot as the URL.
    ///
    /// It looks for the node, because `ZooKeeper` has chosen the end of its name. One look is
    /// enough for a hold.
    ///
    /// # Errors
    ///
    /// `Lost` if the lock is not held any more, and `Unavailable` if the server does not answer.
    pub async fn find(client: &Client, held: &LeaseHandle) -> Result<Self> {
        Self::find_within(PREFIX, client, held).await
    }

    /// Returns the check for this lock, for a URL with this `prefix`.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub async fn find_within(prefix: &str, client: &Client, held: &LeaseHandle) -> Result<Self> {
        let (keys, line) = (NodePaths::of(prefix), LineId::of(held.key()));
        let path = keys.line(&line);
        let (sync, list) = (client.sync(&path), client.list_children(&path));
        let names = match futures_util::future::join(sync, list).await {
            (Ok(()), Ok(names)) => names,
            (_, Err(Said::NoNode)) => Vec::new(),
            (Err(said), _) | (_, Err(said)) => {
                return Err(Error::unavailable(format!(
                    "ZooKeeper was asked for the ticket of {:?} and did not tell ({said})",
                    held.key()
                )));
            }
        };
        let mut children = names.iter().filter_map(|name| names::child(&line, name));
        if let Some(child) = children.find(|child| child.name.id == held.id()) {
            return Ok(Self { path: keys.ticket(&child) });
        }
        held.check()?;
        Err(Error::lost(Loss::Broken))
    }

    /// Returns the path of the ticket's node.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns a `multi` that is carried out only while the lock is held.
    ///
    /// # Errors
    ///
    /// The client's error for a bad path.
    pub fn writer<'a>(&self, client: &'a Client) -> Result<CheckWriter<'a>, Said> {
        client.new_check_writer(&self.path, Some(Self::VERSION))
    }
}
