//! The tools `who` and `wait`: the holders of keys, and the wait until a key is free.

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tenure::inspect::{LineEntry, TicketState, known_keys};
use tenure::{ErrorKind, Key, Locks};
use tenure_kit::duration::brief;
use tokio::time::timeout;

use super::answer::{Outcome, ToolAnswer};
use super::session::{Session, limited, millis};
use super::tools::{
    LISTED_KEYS_MAX, LISTED_TICKETS_MAX, WAIT_DEFAULT, WAIT_MAX, WaitArgs, WhoArgs,
};
use crate::failure::Failure;
use crate::screen::{cut, printable, quoted};

/// Columns of a text that others wrote.
const TEXT_COLUMNS: usize = 200;
/// Shortest and longest time between two looks at a line without an event: a lease may end without
/// one.
const LOOK_AFTER: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_secs(5);

impl Session {
    /// Shows the lines of one key or of a prefix.
    pub(super) async fn who(&self, args: WhoArgs) -> Outcome {
        let (keys, more, trouble) = match (args.key, args.prefix) {
            (Some(_), Some(_)) => return Err(Failure::usage("name a key or a prefix, not both")),
            (Some(key), None) => (vec![Key::new(key)?], 0, None),
            (None, prefix) => {
                let listing = self.locks().await?.keys(prefix.unwrap_or_default()).await;
                let (mut keys, trouble) = known_keys(listing)?;
                let more = keys.len().saturating_sub(LISTED_KEYS_MAX);
                keys.truncate(LISTED_KEYS_MAX);
                (keys, more, trouble)
            }
        };
        let locks = self.locks().await?;
        let (mut lines, mut texts) = (Vec::new(), Vec::new());
        for key in &keys {
            let line = match locks.line(key).await {
                Err(error) if error.kind() == ErrorKind::Rejected => {
                    texts.push(format!("{error}."));
                    continue;
                }
                line => line?,
            };
            texts.push(self.sentence(key, &line));
            lines.push(self.data(key, &line));
        }
        match trouble {
            Some(trouble) => texts.push(format!("Other keys may be held: {trouble}.")),
            None if keys.is_empty() => texts.push("No key is held.".to_owned()),
            None => {}
        }
        if more > 0 {
            texts.push(format!("{more} more keys are not shown: name a longer prefix."));
        }
        let answer = ToolAnswer::looked(texts.join("\n"));
        Ok(answer.with("lines", lines).with("more_keys", more))
    }

    /// Waits until the line of a key is empty.
    pub(super) async fn wait(&self, args: WaitArgs) -> Outcome {
        let time = limited("timeout_ms", args.timeout_ms, WAIT_DEFAULT, WAIT_MAX)?;
        let key = Key::new(args.key)?;
        let locks = self.locks().await?;
        let line = self.unless_stopped(until_free(locks, &key, time)).await??;
        let name = quoted(key.as_str());
        if line.is_empty() {
            let message =
                format!("{name} is free now. You do not hold it: only `take` gives the lock.");
            return Ok(ToolAnswer::looked(message).with("free", true));
        }
        let message = format!(
            "Not free after {}: {} Wait again, stand in line with `take` and `wait_ms`, \
             or do other work.",
            brief(time),
            self.sentence(&key, &line)
        );
        Ok(ToolAnswer::looked(message).with("free", false).with("line", self.data(&key, &line)))
    }

    /// The answer of a `take` that found a key busy.
    pub(super) async fn busy(
        &self,
        locks: &Locks,
        keys: &[Key],
        busy: &Key,
        shared: bool,
    ) -> Outcome {
        let (mut lines, mut texts) = (Vec::new(), Vec::new());
        for key in keys {
            let line = locks.line(key).await?;
            let excludes = |entry: &LineEntry| !(shared && entry.share.kind() == "shared");
            if key == busy || line.iter().any(excludes) {
                texts.push(self.sentence(key, &line));
                lines.push(self.data(key, &line));
            }
        }
        let message = format!(
            "NOT held, nothing was taken. {} Do not do the work. Stand in line with `take` and \
             `wait_ms`, call `wait`, or do other work.",
            texts.join(" ")
        );
        Ok(ToolAnswer::not_held(message).with("reason", "busy").with("busy", lines))
    }

    /// A line in words: its holders, and the number of waiters.
    fn sentence(&self, key: &Key, line: &[LineEntry]) -> String {
        let key = quoted(key.as_str());
        let holders = line.iter().filter(|entry| entry.state == TicketState::Holding);
        let all: Vec<_> =
            holders.clone().take(LISTED_TICKETS_MAX).map(|entry| self.holder(entry)).collect();
        let waiting = line.len() - holders.count();
        match (all.is_empty(), waiting) {
            (true, 0) => format!("{key} is free."),
            (true, _) => format!("{key} has {waiting} waiting."),
            (false, 0) => format!("{key} is held by {}.", all.join(" and ")),
            (false, _) => format!("{key} is held by {}; {waiting} waiting.", all.join(" and ")),
        }
    }

    /// A holder in words.
    fn holder(&self, entry: &LineEntry) -> String {
        let claim = self.claim_of(entry.id).map(|id| format!("this session (claim {id})"));
        let owner = claim.unwrap_or_else(|| foreign(&entry.owner));
        let since = entry.since.map(age).map(|age| format!(" for {}", brief(age)));
        let life = entry.life.map(|life| format!(", lease {} left", brief(life)));
        let note = Some(&entry.note).filter(|note| !note.is_empty());
        let note = note.map(|note| format!(", note {:?}", cut(note, TEXT_COLUMNS)));
        [Some(owner), since, note, life].into_iter().flatten().collect()
    }

    /// A line as data.
    fn data(&self, key: &Key, line: &[LineEntry]) -> Value {
        let shown = &line[..line.len().min(LISTED_TICKETS_MAX)];
        let entry = |entry: &LineEntry| {
            json!({
                "state": entry.label(),
                "mode": entry.share.kind(),
                "owner": foreign(&entry.owner),
                "note": foreign(&entry.note),
                "since_ms": millis(entry.since.map(age)),
                "lease_left_ms": millis(entry.life),
                "claim": self.claim_of(entry.id),
            })
        };
        let waiting = line.iter().filter(|entry| entry.state == TicketState::Waiting).count();
        json!({
            "key": key.as_str(),
            "holding": line.len() - waiting,
            "waiting": waiting,
            "entries": shown.iter().map(entry).collect::<Vec<_>>(),
        })
    }
}

/// Waits until the line is empty, and returns it as it is then, or when the time is over.
async fn until_free(locks: &Locks, key: &Key, time: Duration) -> Result<Vec<LineEntry>, Failure> {
    let began = Instant::now();
    // Watching begins before the first look, so that no event is missed in between.
    let mut watch = locks.watch(key).await?;
    loop {
        let line = locks.line(key).await?;
        let left = time.saturating_sub(began.elapsed());
        if line.is_empty() || left.is_zero() {
            return Ok(line);
        }
        // An event, the end of a lease, or the time for another look.
        let pause = line.iter().filter_map(|entry| entry.life).fold(LOOK_EVERY, Duration::min);
        let event = timeout(left.min(pause.max(LOOK_AFTER)), watch.next()).await;
        if let Ok(Err(error)) = event {
            return Err(error.into());
        }
    }
}

/// The time since then, by this machine's clock.
fn age(since: SystemTime) -> Duration {
    since.elapsed().unwrap_or_default()
}

/// A text that others wrote, fit to be shown.
pub(super) fn foreign(text: &str) -> String {
    cut(&printable(text), TEXT_COLUMNS)
}
