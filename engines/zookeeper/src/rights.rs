//! The check of a user's rights when a client connects, because most of a lock's life needs fewer
//! rights than its end.

use tenure_core::{Result, TicketId};
use zookeeper_client::{Acls, CreateMode, Error as Said, MultiWriteError, MultiWriteResult, Stat};

use crate::client::ZooKeeper;

/// A right that a user does not have at the place of the lines.
#[derive(Clone, Copy)]
pub(crate) enum Right {
    Create,
    Delete,
}

impl Right {
    /// Returns a warning instead of an error, because each line has rights of its own.
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
    /// Writes to a node, and makes and deletes another one in the same transaction. Servers refuse
    /// that to a user without a right. The attempt is undone in the same moment, or changes
    /// nothing. Returns the written node, too.
    pub(crate) async fn missing_right(&self) -> Result<(Stat, Option<Right>)> {
        let right = match try_all(self).await? {
            Tried::All(written) => return Ok((written, None)),
            Tried::AllBefore(1, Said::NoAuth) => Some(Right::Create),
            Tried::AllBefore(2, Said::NoAuth) => Some(Right::Delete),
            // The reason may be another one, such as a quota. Onlookers need no more rights.
            Tried::AllBefore(..) => None,
        };
        Ok((self.write_now().await?, right))
    }
}

/// The allowed steps. Nothing was done if not all are allowed.
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
