//! The journal: changes of all tickets, from one watch over all keys. It restarts from the last
//! revision when its connection is lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use prost::Message;
use tenure_core::{Backoff, Result, TicketId};
use tenure_kit::Link;
use tenure_queue::{ChangesAt, Followed, NodeChange, Why};
use tokio::sync::mpsc;

use crate::client::Etcd;
use crate::link::{self, Members};
use crate::names::{KeyNames, revision};
use crate::status::Code;
use crate::watches::KeyWatch;
use crate::wire::key_event::EventType;
use crate::wire::{KeyEvent, KeyValue, WatchResponse};

/// Maximum moments that an onlooker may be behind. Beyond that it begins anew.
const BEHIND_MAX: usize = 1024;
/// Maximum bytes of one moment, which may come in parts. An onlooker of more begins anew.
const MOMENT_BYTES_MAX: usize = 64 << 20;
/// Pauses between two attempts to resume a watch.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(4));

/// Lists all tickets, and subscribes to later changes.
pub(crate) async fn follow(etcd: &Etcd) -> Result<Followed> {
    let mut nodes = Vec::new();
    let at = etcd.list(etcd.keys.tickets(), |kept| nodes.extend(etcd.keys.node(kept))).await?;
    nodes.sort_by_key(|node| node.created);
    let connection = etcd.cluster.link.connection().await?;
    let watch = connection.watches.span(etcd.keys.all(), at + 1).await;
    let news = watch.map_err(|status| etcd.cluster.failed(&connection, &status))?;
    let (tell, changes) = mpsc::channel(BEHIND_MAX);
    // The task runs for all onlookers, and not only for the first caller.
    etcd.cluster.link.home().spawn(run(
        Arc::downgrade(&etcd.cluster.link),
        etcd.keys.clone(),
        news,
        at,
        tell,
    ));
    Ok(Followed { nodes, at, changes })
}

/// Runs until there is no listener any more, or a change may have been missed.
async fn run(
    link: Weak<Link<Members>>,
    keys: KeyNames,
    mut news: KeyWatch,
    mut at: u64,
    tell: mpsc::Sender<ChangesAt>,
) {
    let mut parts = PartialMoment::default();
    loop {
        let answer = tokio::select! {
            answer = news.next() => answer,
            () = tell.closed() => return,
        };
        let Some(answer) = answer else {
            let Some(again) = resume(&link, &keys, at, &tell).await else { return };
            (news, parts) = (again, PartialMoment::default());
            continue;
        };
        if answer.compact_revision > 0 {
            return;
        }
        let Some(events) = parts.whole(answer) else { return };
        for (revision, changes) in moments(&keys, &events) {
            // The earlier value of a deleted key may be compacted. Then the ticket that left is
            // unknown.
            let Some(changes) = changes else { return };
            at = at.max(revision);
            if !changes.is_empty() && tell.send((revision, changes)).await.is_err() {
                return;
            }
        }
    }
}

/// Resumes the watch from the last revision; `None` if that was compacted, or there is no listener
/// any more.
async fn resume(
    link: &Weak<Link<Members>>,
    keys: &KeyNames,
    at: u64,
    tell: &mpsc::Sender<ChangesAt>,
) -> Option<KeyWatch> {
    let mut pauses = PAUSES;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pauses.pause()) => {}
            () = tell.closed() => return None,
        }
        let Ok(connection) = link.upgrade()?.connection().await else { continue };
        match connection.watches.span(keys.all(), at + 1).await {
            Ok(news) => return Some(news),
            // The server gives only text.
            Err(status) if status.message().contains("compacted") => return None,
            Err(status) if status.code() == Code::PermissionDenied => return None,
            Err(status) => {
                // This may be the only user of the connection, and has to report that it is lost.
                let error = link::failed(&*link.upgrade()?, &connection, &status);
                tracing::debug!(%error, "an onlooker's watch cannot be opened again yet");
            }
        }
    }
}

/// The parts of an incomplete moment.
#[derive(Default)]
struct PartialMoment(Vec<KeyEvent>);

impl PartialMoment {
    /// Returns the complete moments; `None` if the rest is too large to keep.
    fn whole(&mut self, answer: WatchResponse) -> Option<Vec<KeyEvent>> {
        self.0.extend(answer.events);
        let mut whole = self.0.len();
        if answer.fragment {
            // The last moment may go on in the next answer.
            let last = self.0.last().map(at);
            whole = self.0.iter().position(|event| Some(at(event)) == last).unwrap_or(0);
        }
        let rest = self.0.split_off(whole);
        let events = std::mem::replace(&mut self.0, rest);
        let bytes: usize = self.0.iter().map(Message::encoded_len).sum();
        (bytes <= MOMENT_BYTES_MAX).then_some(events)
    }
}

fn at(event: &KeyEvent) -> u64 {
    event.kv.as_ref().map_or(0, |kv| revision(kv.mod_revision))
}

/// Returns the changes, all of one revision together; `None` if they are unknown.
fn moments(keys: &KeyNames, events: &[KeyEvent]) -> Vec<(u64, Option<Vec<NodeChange>>)> {
    let parts = events.chunk_by(|one, other| at(one) == at(other));
    parts.map(|part| (part.first().map_or(0, at), changes(keys, part))).collect()
}

fn changes(keys: &KeyNames, events: &[KeyEvent]) -> Option<Vec<NodeChange>> {
    let (gone, put): (Vec<&KeyEvent>, Vec<&KeyEvent>) =
        events.iter().partition(|event| event.r#type == i32::from(EventType::Delete));
    let put: Vec<&KeyValue> = put.into_iter().filter_map(|event| event.kv.as_ref()).collect();
    let is_ours = |key: &[u8]| keys.is_ticket(key) || keys.is_session(key);
    let is_gone = |event: &&KeyEvent| event.kv.as_ref().is_some_and(|kv| is_ours(&kv.key));
    let gone: Option<Vec<&KeyValue>> =
        gone.into_iter().filter(is_gone).map(|event| event.prev_kv.as_ref()).collect();
    let gone = gone?;
    let sessions = gone.iter().filter(|kv| keys.is_session(&kv.key));
    let over: BTreeSet<i64> = sessions.map(|kv| kv.lease).collect();
    let broken: BTreeSet<TicketId> = put
        .iter()
        .filter(|kv| kv.key == keys.broken())
        .filter_map(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok())
        .collect();
    let gone = gone.into_iter().filter_map(|before| {
        let name = keys.node(before)?.name;
        let why = if over.contains(&before.lease) {
            Why::Expired
        } else if broken.contains(&name.id) {
            Why::Broken
        } else {
            Why::Left
        };
        Some(NodeChange::Gone(name.line, name.id, why))
    });
    let put = put.into_iter().filter_map(|kv| keys.node(kv)).map(NodeChange::Is);
    Some(gone.chain(put).collect())
}
