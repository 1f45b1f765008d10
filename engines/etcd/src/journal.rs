//! The journal: what happens to all tickets, from one watch over all keys. It is restarted from the last revision when its
//! connection is lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tenure_core::{Result, TicketId};
use tenure_kit::Link;
use tenure_queue::{Change, Followed, SessionId, Why};
use tokio::sync::mpsc;

use crate::client::Etcd;
use crate::keys::{Keys, revision};
use crate::link::{self, Members};
use crate::watches::News;
use crate::wire::Event;
use crate::wire::event::EventType;

/// An onlooker that is behind by more moments than these begins anew.
const BEHIND_MAX: usize = 1024;
/// Between two attempts to go on with a watch.
const PAUSE: Duration = Duration::from_millis(250);

type Moment = (u64, Vec<Change>);

/// What there is, and what happens after it.
pub(crate) async fn follow(etcd: &Etcd) -> Result<Followed> {
    let mut nodes = Vec::new();
    let at = etcd.list(etcd.keys.tickets(), |node| nodes.push(node)).await?;
    nodes.sort_by_key(|node| node.created);
    let connection = etcd.link.connection().await?;
    let watch = connection.watches.span(etcd.keys.all(), at + 1).await;
    let news = watch.map_err(|status| etcd.failed(&connection, &status))?;
    let (tell, changes) = mpsc::channel(BEHIND_MAX);
    tokio::spawn(run(Arc::downgrade(&etcd.link), etcd.keys.clone(), news, at, tell));
    Ok(Followed { nodes, at, changes })
}

/// Ends when nobody listens any more, and when something may have been missed.
async fn run(
    link: Weak<Link<Members>>,
    keys: Keys,
    mut news: News,
    mut at: u64,
    tell: mpsc::Sender<Moment>,
) {
    loop {
        let answer = tokio::select! {
            answer = news.next() => answer,
            () = tell.closed() => return,
        };
        let Some(answer) = answer else {
            let Some(again) = resume(&link, &keys, at, &tell).await else { return };
            news = again;
            continue;
        };
        if answer.compact_revision > 0 {
            return;
        }
        for (revision, changes) in moments(&keys, &answer.events) {
            at = at.max(revision);
            if !changes.is_empty() && tell.send((revision, changes)).await.is_err() {
                return;
            }
        }
    }
}

/// The watch from the last revision on; `None` if that was compacted, or nobody listens any more.
async fn resume(
    link: &Weak<Link<Members>>,
    keys: &Keys,
    at: u64,
    tell: &mpsc::Sender<Moment>,
) -> Option<News> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = tell.closed() => return None,
        }
        let Ok(connection) = link.upgrade()?.connection().await else { continue };
        match connection.watches.span(keys.all(), at + 1).await {
            Ok(news) => return Some(news),
            Err(status) if status.message().contains("compacted") => return None,
            Err(status) if status.code() == tonic::Code::PermissionDenied => return None,
            Err(status) => {
                // Nobody else may use the connection, and find out that it is lost.
                let error = link::failed(&*link.upgrade()?, &connection, &status);
                tracing::debug!(%error, "an onlooker's watch cannot be opened again yet");
            }
        }
    }
}

/// What happened, all of one revision together.
fn moments(keys: &Keys, events: &[Event]) -> Vec<Moment> {
    let at = |event: &Event| event.kv.as_ref().map_or(0, |kv| revision(kv.mod_revision));
    let same = |one: &Event, other: &Event| at(one) == at(other);
    let parts = events.chunk_by(same);
    parts.map(|part| (part.first().map_or(0, at), changes(keys, part))).collect()
}

fn changes(keys: &Keys, events: &[Event]) -> Vec<Change> {
    let is_gone = |event: &Event| event.r#type == i32::from(EventType::Delete);
    let kvs = |gone: bool| {
        events.iter().filter(move |event| is_gone(event) == gone).filter_map(|it| it.kv.as_ref())
    };
    let over: BTreeSet<SessionId> = kvs(true).filter_map(|kv| keys.session_of(&kv.key)).collect();
    let broken: BTreeSet<TicketId> = kvs(false)
        .filter(|kv| kv.key == keys.broken())
        .filter_map(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok())
        .collect();
    let change = |event: &Event| {
        let kv = event.kv.as_ref()?;
        if !is_gone(event) {
            return keys.node(kv).map(Change::Is);
        }
        let name = keys.name_of(&kv.key)?;
        let lived_by = event.prev_kv.as_ref().map_or(0, |before| before.lease.cast_unsigned());
        let why = if over.contains(&lived_by) {
            Why::Expired
        } else if broken.contains(&name.id) {
            Why::Broken
        } else {
            Why::Left
        };
        Some(Change::Gone(name.line, name.id, why))
    };
    events.iter().filter_map(change).collect()
}
