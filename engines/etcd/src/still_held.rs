//! Guarded writes: a comparison for a transaction of one's own, which is carried out only while a
//! lock is held.

use std::fmt;

use prost::Message as _;
use tenure_core::LeaseHandle;
use tenure_queue::{LineId, Name};

use crate::ask::is_made;
use crate::berths::Berths;
use crate::keys::{Keys, number};
use crate::settings::PREFIX;

/// A comparison for a transaction of your own in the same cluster: "the lock is still held".
///
/// A holder that was paused too long may overwrite what its successor has written. etcd itself can
/// refuse that write. The ticket of a holder is a key, which is gone before the next ticket is
/// served. Its name may be used again, and its create revision never is. So a transaction that
/// compares the revision is carried out only while the lock is held.
///
/// Use it with any client: as data, as the message of etcd's API, or as a line of `etcdctl txn`.
///
/// ```no_run
/// # async fn write() -> tenure_core::Result<()> {
/// let locks = tenure_etcd::connect("etcd://h1,h2,h3").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let still_held = tenure_etcd::StillHeld::of(&guard);
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
/// A lock of another store, or of a quorum, has no such key: the transaction is refused.
///
/// **Not promised**: keys and revisions of two clusters may be the same. So send the transaction to
/// the cluster that keeps the lock. Another one may take it for a lock of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StillHeld {
    key: Vec<u8>,
    created: u64,
}

impl StillHeld {
    /// Returns the comparison for this lock.
    pub fn of(held: &LeaseHandle) -> Self {
        let name = Name { line: LineId::of(held.key()), of: held.share().of(), id: held.id() };
        // A ticket that no client of this process has is not held: compare a key that never exists.
        let nowhere = || (Keys::of(PREFIX).nowhere(&name), held.token());
        let (key, created) = Berths::key_of(&name).unwrap_or_else(nowhere);
        Self { key, created }
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
