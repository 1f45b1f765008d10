//! Reads of lines, a bounded number of them.

use futures_util::{StreamExt as _, stream};
use tenure::inspect::{LineEntry, known_keys};
use tenure::{Error, Key, Locks, Result};

use crate::failure::{Failure, REFUSED};
use crate::inspect::keys::{LINES_MAX, READS_MAX};

/// A line, or the reason why it cannot be read.
pub(super) type ReadLine = (Key, std::result::Result<Vec<LineEntry>, String>);

/// The lines of all keys with a prefix.
pub(super) struct Reading {
    pub(super) lines: Vec<ReadLine>,
    /// Number of keys beyond the maximum.
    pub(super) more: usize,
    /// Why lines are missing whose keys are not known.
    pub(super) trouble: Option<Error>,
}

pub(super) async fn all(locks: &Locks, prefix: &str) -> Result<Reading> {
    let (mut keys, trouble) = known_keys(locks.keys(prefix).await)?;
    let more = keys.len().saturating_sub(LINES_MAX);
    keys.truncate(LINES_MAX);
    Ok(Reading { lines: some(locks, keys).await?, more, trouble })
}

/// Reads these lines. A line that the store refuses to read is in the answer; any other failure
/// ends the read.
pub(super) async fn some(locks: &Locks, keys: Vec<Key>) -> Result<Vec<ReadLine>> {
    let reads = keys.into_iter().map(async |key| {
        let line = locks.line(key.as_str()).await;
        (key, line)
    });
    let mut answers = stream::iter(reads).buffered(READS_MAX);
    let mut lines = Vec::new();
    while let Some((key, line)) = answers.next().await {
        lines.push((
            key,
            match line {
                Ok(line) => Ok(line),
                Err(error) => {
                    let failure = Failure::from(error.clone());
                    if failure.code() != REFUSED {
                        return Err(error);
                    }
                    Err(failure.sentence().to_owned())
                }
            },
        ));
    }
    Ok(lines)
}

pub(super) fn not_read(more: usize) -> String {
    format!("{more} more keys are not read: name a longer prefix")
}
