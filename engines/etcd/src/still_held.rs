//! Guarded writes: a comparison for a transaction of one's own, which is carried out only while a
//! lock is held.

use std::fmt;

use prost::Message as _;
use tenure_core::{
    BackgroundRuntime, Error, LINE_TICKETS_MAX, LeaseHandle, Loss, Result, spawn_cancellable,
};
use tenure_queue::LineId;

use crate::ask::is_made;
use crate::client::Etcd;
use crate::names::number;
use crate::{Settings, trouble};

/// A comparison for a transaction of your own in the same cluster: "the lock is still held".
///
/// A holder that was paused too long may overwrite what its successor has written. etcd itself can
/// refuse that write. The ticket of a holder is a key, which is gone before the next ticket is
/// served. The key may be used again, and its create revision never is. So a transaction that
/// compares the revision is carried out only while the lock is held.
///
/// Use it with any client: as data, as the message of etcd's API, or as a line of `etcdctl txn`.
///
/// ```no_run
/// # async fn write() -> tenure_core::Result<()> {
/// let locks = tenure_etcd::connect("etcd://h1,h2,h3").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let still_held = tenure_etcd::StillHeld::find("etcd://h1,h2,h3", &guard.handle()).await?;
/// // With the crate etcd-client:
/// // Compare::create_revision(still_held.key(), CompareOp::Equal, still_held.create_revision())
/// println!("only if {still_held}");
/// # Ok(())
/// # }
/// ```
///
/// It works for mutexes, readers, writers, permits and leaders. A transaction that is refused has
/// changed nothing: stop, the lock is lost.
///
/// **Not promised**: keys and revisions of two clusters may be the same. So send the transaction to
/// the cluster that keeps the lock. Another one may take it for a lock of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StillHeld {
    key: Vec<u8>,
    created: u64,
}

impl StillHeld {
    /// Returns the comparison for this lock of the cluster that this URL names.
    ///
    /// It connects, and reads the line once: only etcd knows the key of each ticket. One call is
    /// enough for a hold.
    ///
    /// # Errors
    ///
    /// `Lost` if the lock is not held any more, and also for a lock of another store or of a
    /// quorum, which has no such key. Otherwise as [`connect`](crate::connect()).
    pub async fn find(url: impl AsRef<str>, held: &LeaseHandle) -> Result<Self> {
        Self::find_with(Settings::from_url(url)?, held).await
    }

    /// As [`find`](Self::find), with settings that the program has built.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub async fn find_with(settings: Settings, held: &LeaseHandle) -> Result<Self> {
        let (line, id, host) =
            (LineId::of(held.key()), held.id(), BackgroundRuntime::for_drivers());
        let silence = trouble::silence(&settings);
        let finding = async move {
            let etcd = Etcd::open(settings).await?;
            let front = etcd.front_in_pages(&line, LINE_TICKETS_MAX * 2).await?;
            Ok(front.nodes.into_iter().find(|node| node.name.id == id))
        };
        let found = spawn_cancellable(&host, finding).await.unwrap_or(Err(silence))?;
        if found.is_none() {
            held.check()?;
        }
        let node = found.ok_or_else(|| Error::lost(Loss::Broken))?;
        Ok(Self { key: node.key.to_vec(), created: node.created })
    }

    /// Returns the key of the ticket.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the create revision of the key in the type of etcd's clients. It is the lock's
    /// token, unless the line has a base.
    pub fn create_revision(&self) -> i64 {
        number(self.created)
    }

    /// Returns the message `etcdserverpb.Compare`, encoded. The generated type of any client
    /// decodes it.
    pub fn to_message(&self) -> Vec<u8> {
        is_made(self.key.clone(), self.created).encode_to_vec()
    }
}

/// Formats it as a line of `etcdctl txn`.
impl fmt::Display for StillHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "create(\"{}\") = \"{}\"", self.key.escape_ascii(), self.created)
    }
}
