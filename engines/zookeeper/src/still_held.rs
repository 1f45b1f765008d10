//! Guarded writes: a check for a `multi` of one's own, which is done only while a lock is held.

use tenure_core::{Error, LeaseHandle, Loss, Result};
use tenure_queue::LineId;
use zookeeper_client::{CheckWriter, Client, Error as Said};

use crate::keys::{self, Keys};
use crate::settings::PREFIX;

/// "The lock is still held", as a check of a `multi` of your own in the same ensemble.
///
/// A holder that was paused for too long may write what somebody else has changed since. `ZooKeeper` itself can refuse that
/// write: the ticket of a holder is a node, which is gone before the next ticket is served, and whose name never comes again. A
/// `multi` that checks the node is done while the lock is held, or not at all.
///
/// ```no_run
/// # async fn write() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = tenure_zookeeper::connect("zookeeper://h1,h2,h3/app").await?;
/// let client = zookeeper_client::Client::connect("h1,h2,h3/app").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let still_held = tenure_zookeeper::StillHeld::find(&client, &guard).await?;
/// let mut writer = still_held.writer(&client)?;
/// writer.add_set_data("/invoices/42", b"paid", None)?;
/// writer.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// With another client, check the [path](Self::path) with the [version](Self::VERSION) that stands for any: the node is there,
/// or the `multi` is refused. It holds for mutexes, readers, writers, permits and leaders alike. A `multi` whose check fails has
/// changed nothing: stop, the lock is lost.
///
/// **Not promised**: a lock of another store or ensemble, or below another chroot or [prefix](Self::find_within), has no such node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StillHeld {
    path: String,
}

impl StillHeld {
    /// What a check compares: that there is a node, whatever its data.
    pub const VERSION: i32 = -1;

    /// That this lock is still held, where no `prefix` is in the URL. The client has the same chroot as the URL.
    ///
    /// The node is looked for, because `ZooKeeper` has chosen the end of its name. One look is enough for a hold.
    pub async fn find(client: &Client, held: &LeaseHandle) -> Result<Self> {
        Self::find_within(PREFIX, client, held).await
    }

    /// That this lock is still held, where `prefix` is in the URL.
    pub async fn find_within(prefix: &str, client: &Client, held: &LeaseHandle) -> Result<Self> {
        let (keys, line) = (Keys::of(prefix), LineId::of(held.key()));
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
        let mut children = names.iter().filter_map(|name| keys::child(&line, name));
        if let Some(child) = children.find(|child| child.name.id == held.id()) {
            return Ok(Self { path: keys.ticket(&child) });
        }
        held.check()?;
        Err(Error::lost(Loss::Broken))
    }

    /// The path of the ticket's node.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A `multi` that is done only if the lock is still held.
    pub fn writer<'a>(&self, client: &'a Client) -> Result<CheckWriter<'a>, Said> {
        client.new_check_writer(&self.path, Some(Self::VERSION))
    }
}
