//! What this user may do: tried when a client connects, because most of a lock's life goes well with fewer rights than its end needs.

use tenure_core::{Result, TicketId};
use zookeeper_client::{Acls, CreateMode, Error as Said, MultiWriteError, MultiWriteResult, Stat};

use crate::client::ZooKeeper;

/// A right that a user has not where lines are kept.
#[derive(Clone, Copy)]
pub(crate) enum Right {
    Create,
    Delete,
}

impl Right {
    /// Each line has rights of its own, so that it is no refusal.
    pub(crate) fn warning(self, client: &ZooKeeper) -> String {
        let (right, letter, what) = match self {
            Self::Create => {
                ("create", 'c', "only locks can be taken whose lines are there already")
            }
            Self::Delete => (
                "delete",
                'd',
                "a ticket in a line with the same rights stays until this program ends",
            ),
        };
        let (whom, chroot, lines) =
            (client.settings.whom(), &client.settings.chroot, client.keys.lines());
        format!(
            "{whom} does not let this user {right} nodes in {chroot}{lines}: {what}. Give them the right `{letter}`"
        )
    }
}

impl ZooKeeper {
    /// Writes to a node, which is refused to whoever may not, and tries to make and delete another one together with that. What is tried
    /// is undone in the same moment, or was never there. Answers what was written, too.
    pub(crate) async fn missing_right(&self) -> Result<(Stat, Option<Right>)> {
        let right = match try_all(self).await? {
            Tried::All(written) => return Ok((written, None)),
            Tried::AllBefore(1, Said::NoAuth) => Some(Right::Create),
            Tried::AllBefore(2, Said::NoAuth) => Some(Right::Delete),
            // It may be no matter of rights, such as a quota, and those who only look need no more.
            Tried::AllBefore(..) => None,
        };
        Ok((self.write_now().await?, right))
    }
}

/// What was allowed. Nothing was done if not all was.
enum Tried {
    All(Stat),
    AllBefore(usize, Said),
}

async fn try_all(client: &ZooKeeper) -> Result<Tried> {
    let tried = format!("{}/{}", client.keys.lines(), TicketId::fresh());
    let wire = client.wire().await?;
    let all = async {
        let turn = wire.turn().await?;
        let mut all = turn.new_multi_writer();
        all.add_set_data(&client.keys.now(), b"", None)?;
        all.add_create(&tried, b"", &CreateMode::Persistent.with_acls(Acls::new(&client.acls)))?;
        all.add_delete(&tried, None)?;
        match wire.in_time(all.commit()).await? {
            Ok(results) => match results.first() {
                Some(MultiWriteResult::SetData { stat }) => Ok(Tried::All(*stat)),
                _ => Err(Said::BadArguments(&"an answer to another question")),
            },
            Err(MultiWriteError::OperationFailed { index, source }) => {
                Ok(Tried::AllBefore(index, source))
            }
            Err(MultiWriteError::RequestFailed { source }) => Err(source),
        }
    };
    all.await.map_err(|said| client.said(&said))
}
