//! Clocks: how far apart the clocks are that decide when a lock ends. In a set that is the
//! primary's clock, and after a fail-over another member's. On a sharded cluster it is the clock of
//! the router that a client asks.

use std::time::Duration;

use futures_util::future::join_all;
use mongodb::Client;
use mongodb::bson::{DateTime, rawdoc};
use mongodb::options::{SelectionCriteria, ServerAddress};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::call::Calls;

/// Minimum margin that holders keep between their deadline and the end of their ticket's life.
const MARGIN: Duration = Duration::from_millis(50);
/// Servers that do not answer within this time are left out.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Maximum time for which an opening waits for the comparison. A later warning is logged.
const OPENING_MAX: Duration = Duration::from_millis(100);
const SERVERS_MAX: usize = 50;

/// The servers whose clocks are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peers {
    /// Members of a set.
    Members,
    /// Routers of a sharded cluster.
    Routers,
}

/// One reading of a server's clock.
struct Reading {
    server: String,
    /// Its clock, less the time since the first server was asked.
    ahead_ms: i64,
    /// Possible error of that: half of the round trip.
    unsure_ms: i64,
}

/// Returns a warning if clocks are farther apart than the margin of holders. A server that is down
/// does not delay the opening.
pub(crate) async fn warning(
    calls: &Calls,
    peers: Peers,
    servers: Vec<ServerAddress>,
) -> Option<String> {
    if servers.len() < 2 {
        return None;
    }
    let client = calls.client.clone();
    told_in_time(&calls.home, async move {
        let began = Instant::now();
        let servers = servers.into_iter().take(SERVERS_MAX);
        let read = servers.map(|server| read(client.clone(), server, began));
        judge(peers, &join_all(read).await.into_iter().flatten().collect::<Vec<_>>())
    })
    .await
}

/// Returns the result of a comparison if it is done within `OPENING_MAX`. Otherwise its warning is
/// logged later.
async fn told_in_time(
    home: &Handle,
    compare: impl Future<Output = Option<String>> + Send + 'static,
) -> Option<String> {
    let (told, asked) = oneshot::channel();
    home.spawn(async move {
        if let Err(Some(late)) = told.send(compare.await) {
            tracing::warn!("{late}");
        }
    });
    timeout(OPENING_MAX, asked).await.ok()?.ok()?
}

async fn read(client: Client, server: ServerAddress, began: Instant) -> Option<Reading> {
    let name = server.to_string();
    let is_it = move |one: &mongodb::ServerInfo<'_>| *one.address() == server;
    let only = SelectionCriteria::Predicate(std::sync::Arc::new(is_it));
    let admin = client.database("admin");
    // The first call may have to wait for a connection.
    let ask = async || {
        let sent = Instant::now();
        let hello = rawdoc! { "hello": 1 };
        let call = admin.run_raw_command(hello).selection_criteria(only.clone());
        let answer = timeout(ANSWER_MAX, call).await.ok()?.ok()?;
        Some((sent, answer.get_datetime("localTime").ok()?.to_owned(), Instant::now()))
    };
    ask().await?;
    let (sent, time, came): (Instant, DateTime, Instant) = ask().await?;
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let way = came - sent;
    Some(Reading {
        server: name,
        ahead_ms: time.timestamp_millis() - millis(sent + way / 2 - began),
        unsure_ms: millis(way / 2) + 1,
    })
}

/// Compares the clock that is farthest ahead with the one that is farthest behind.
fn judge(peers: Peers, readings: &[Reading]) -> Option<String> {
    let first = readings.iter().min_by_key(|one| one.ahead_ms + one.unsure_ms)?;
    let last = readings.iter().max_by_key(|one| one.ahead_ms - one.unsure_ms)?;
    let apart = (last.ahead_ms - last.unsure_ms) - (first.ahead_ms + first.unsure_ms);
    let apart = Duration::from_millis(u64::try_from(apart).ok()?);
    let (when, whose) = match peers {
        Peers::Members => ("after a fail-over", "members"),
        Peers::Routers => ("for a client of another router", "routers"),
    };
    (apart > MARGIN).then(|| {
        format!(
            "the clock of {} is ahead of that of {} by {apart:?} or more: {when} a lock may end that much earlier than its holder expects, who allows for {MARGIN:?}; have NTP keep the {whose}' clocks together, or give locks a margin",
            last.server, first.server
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clocks_that_are_surely_too_far_apart_are_told() {
        let reading = |ahead_ms, unsure_ms| Reading {
            server: format!("member{ahead_ms}"),
            ahead_ms,
            unsure_ms,
        };
        assert_eq!(judge(Peers::Members, &[]), None);
        assert_eq!(judge(Peers::Members, &[reading(5000, 1)]), None);
        assert_eq!(judge(Peers::Members, &[reading(0, 1), reading(51, 1)]), None);
        assert_eq!(
            judge(Peers::Members, &[reading(0, 1), reading(300, 300)]),
            None,
            "it may be the way"
        );
        let told =
            judge(Peers::Members, &[reading(-30, 1), reading(0, 1), reading(30, 1)]).unwrap();
        assert!(told.contains("member30 is ahead of that of member-30 by 58ms"), "{told}");
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_holds_up_no_opening() {
        let home = Handle::current();
        assert_eq!(told_in_time(&home, std::future::pending()).await, None);
        let apart = || Some("the clocks are apart".to_owned());
        assert_eq!(told_in_time(&home, async move { apart() }).await, apart());
    }
}
