//! The keys in use: reads all lines, many at once, because a round trip for each would take too
//! long.

use std::collections::BTreeSet;

use futures_util::future::{join, join_all};
use tenure_core::{Key, Result};
use tenure_queue::LineId;
use zookeeper_client::Error as Said;

use crate::client::{ZooKeeper, read_node};
use crate::keys::Child;
use crate::wire::ServerSession;

/// Maximum nodes read at once.
const READS_AT_ONCE: usize = 512;
/// Maximum names of lines that are listed at once: some lines may be long.
const NAMES_AT_ONCE: usize = 4096;

/// A line with a ticket in it.
struct Used {
    line: LineId,
    /// The line's key; empty if it was made for a base.
    key: Vec<u8>,
    /// Count of its names.
    names: usize,
}

impl Used {
    fn key(&self) -> Option<Key> {
        let text = std::str::from_utf8(&self.key).ok()?;
        Key::new(text).ok()
    }
}

impl ZooKeeper {
    /// Returns the keys with this prefix of all lines with a ticket in them.
    pub(crate) async fn keys_of(
        &self,
        wire: &ServerSession,
        prefix: &str,
    ) -> Result<Vec<Key>, Said> {
        let mut keys = BTreeSet::new();
        for some in self.all_lines(wire).await?.chunks(READS_AT_ONCE) {
            let used = self.not_empty(wire, some, prefix).await?;
            let firsts = self.firsts(wire, used).await?;
            let said = self.keys_in(wire, &firsts).await?;
            keys.extend(said.into_iter().filter(|key| key.as_str().starts_with(prefix)));
        }
        Ok(keys.into_iter().collect())
    }

    async fn all_lines(&self, wire: &ServerSession) -> Result<Vec<LineId>, Said> {
        let (turn, path) = (wire.turn().await?, self.keys.lines());
        let both = join(self.sync_over(&turn), turn.list_children(&path));
        let (synced, lines) = wire.in_time(both).await?;
        synced.transpose()?;
        Ok(lines?.iter().filter_map(|name| LineId::named(name)).collect())
    }

    /// Returns the lines of these that are not empty and may be of such keys.
    async fn not_empty(
        &self,
        wire: &ServerSession,
        lines: &[LineId],
        prefix: &str,
    ) -> Result<Vec<Used>, Said> {
        let paths: Vec<String> = lines.iter().map(|line| self.keys.line(line)).collect();
        let turn = wire.turn().await?;
        let asked = paths.iter().map(|path| turn.get_data(path));
        let mut used = Vec::new();
        for (line, said) in lines.iter().zip(answers(wire, asked).await?) {
            let Ok((key, stat)) = said else { continue };
            let names = usize::try_from(stat.num_children).unwrap_or(0);
            if names > 0 && (key.is_empty() || key.starts_with(prefix.as_bytes())) {
                used.push(Used { line: line.clone(), key, names });
            }
        }
        Ok(used)
    }

    /// Returns the first ticket of each of these lines that has one.
    async fn firsts(
        &self,
        wire: &ServerSession,
        mut used: Vec<Used>,
    ) -> Result<Vec<(Used, Child)>, Said> {
        let mut firsts = Vec::with_capacity(used.len());
        while !used.is_empty() {
            let some: Vec<Used> = used.drain(..at_once(&used)).collect();
            let paths: Vec<String> = some.iter().map(|used| self.keys.line(&used.line)).collect();
            let turn = wire.turn().await?;
            let asked = paths.iter().map(|path| turn.get_children(path));
            for (used, said) in some.into_iter().zip(answers(wire, asked).await?) {
                let Ok((names, stat)) = said else { continue };
                let listing = self.listing(&used.line, &names, &stat);
                firsts.extend(listing.children.into_iter().next().map(|first| (used, first)));
            }
        }
        Ok(firsts)
    }

    /// Returns the keys of these lines: that of the first ticket, or that of the line if the ticket
    /// has left meanwhile.
    async fn keys_in(
        &self,
        wire: &ServerSession,
        firsts: &[(Used, Child)],
    ) -> Result<Vec<Key>, Said> {
        let paths: Vec<String> = firsts.iter().map(|(_, first)| self.keys.ticket(first)).collect();
        let turn = wire.turn().await?;
        let asked = paths.iter().map(|path| turn.get_data(path));
        let mut keys = Vec::with_capacity(firsts.len());
        for ((used, first), said) in firsts.iter().zip(answers(wire, asked).await?) {
            let key = match said {
                Ok((body, stat)) => read_node(first, &body, &stat).map(|it| it.node.ticket.key),
                Err(Said::NoNode) => used.key(),
                Err(_) => None,
            };
            keys.extend(key);
        }
        Ok(keys)
    }
}

/// Returns the count of these lines that are listed at once.
fn at_once(used: &[Used]) -> usize {
    let mut names = 0;
    let fit = used.iter().take_while(|one| {
        names += one.names;
        names <= NAMES_AT_ONCE
    });
    fit.count().max(1)
}

/// Returns the answers to all of these. Some nodes may be gone, or another user's.
async fn answers<T, A>(
    wire: &ServerSession,
    asked: impl IntoIterator<Item = A>,
) -> Result<Vec<Result<T, Said>>, Said>
where
    A: Future<Output = Result<T, Said>>,
{
    let answers = wire.in_time(join_all(asked)).await?;
    let may_be = |answer: Result<T, Said>| match answer {
        Err(said) if !matches!(said, Said::NoNode | Said::NoAuth) => Err(said),
        answer => Ok(answer),
    };
    answers.into_iter().map(may_be).collect()
}
