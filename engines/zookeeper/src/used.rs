//! The keys in use: reads all lines, many at once, because a round trip for each would take too
//! long.

use std::collections::BTreeSet;

use futures_util::future::join;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tenure_core::{Key, Result};
use tenure_queue::LineId;
use zookeeper_client::Error as Said;

use crate::client::{ZooKeeper, read_node};
use crate::session::ServerSession;

/// Maximum lines read at once.
const LINES_AT_ONCE: usize = 512;

impl ZooKeeper {
    /// Returns the keys with this prefix of all lines with a ticket in them.
    pub(crate) async fn keys_of(
        &self,
        wire: &ServerSession,
        prefix: &str,
    ) -> Result<Vec<Key>, Said> {
        let lines = self.all_lines(wire).await?;
        let keys = lines.into_iter().map(|line| async move {
            match self.key_of(wire, &line, prefix).await {
                // The line is gone, or another user's.
                Err(Said::NoNode | Said::NoAuth) => Ok(None),
                key => key,
            }
        });
        let keys = stream::iter(keys).buffer_unordered(LINES_AT_ONCE);
        let keys: BTreeSet<Option<Key>> = keys.try_collect().await?;
        let keys = keys.into_iter().flatten();
        Ok(keys.filter(|key| key.as_str().starts_with(prefix)).collect())
    }

    async fn all_lines(&self, wire: &ServerSession) -> Result<Vec<LineId>, Said> {
        let (turn, path) = (wire.turn().await?, self.keys.lines());
        let both = join(self.sync_over(&turn), turn.list_children(&path));
        let (synced, lines) = wire.in_time(both).await?;
        synced.transpose()?;
        Ok(lines?.iter().filter_map(|name| LineId::named(name)).collect())
    }

    /// Returns the key of a line, if a ticket is in it and it may have this prefix. It is that of
    /// the first ticket, or that of the line if the ticket has left meanwhile.
    async fn key_of(
        &self,
        wire: &ServerSession,
        line: &LineId,
        prefix: &str,
    ) -> Result<Option<Key>, Said> {
        let (turn, path) = (wire.turn().await?, self.keys.line(line));
        let (key, stat) = wire.in_time(turn.get_data(&path)).await??;
        // A line that was made for a base has no key.
        if stat.num_children == 0 || !(key.is_empty() || key.starts_with(prefix.as_bytes())) {
            return Ok(None);
        }
        let (names, stat) = wire.in_time(turn.get_children(&path)).await??;
        let listing = self.listing(line, &names, &stat);
        let Some(first) = listing.children.first() else { return Ok(None) };
        match wire.in_time(turn.get_data(&self.keys.ticket(first))).await? {
            Ok((body, stat)) => Ok(read_node(first, &body, &stat).map(|it| it.node.ticket.key)),
            Err(Said::NoNode) => {
                Ok(std::str::from_utf8(&key).ok().and_then(|key| Key::new(key).ok()))
            }
            Err(said) => Err(said),
        }
    }
}
