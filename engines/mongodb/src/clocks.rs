//! Clocks: how far those of a set's members are apart. After a fail-over, lives end by the clock of another member.

use std::time::Duration;

use futures_util::future::join_all;
use mongodb::bson::{DateTime, Document, rawdoc};
use mongodb::options::{SelectionCriteria, ServerAddress};
use tokio::time::{Instant, timeout};

use crate::call::Calls;

/// Holders allow for so much at least, between their deadline and the end of their ticket's life.
const MARGIN: Duration = Duration::from_millis(50);
/// Members that do not say their time within this are left out.
const ANSWER_MAX: Duration = Duration::from_secs(1);
const MEMBERS_MAX: usize = 50;

/// What a member's clock said, and when.
struct Reading {
    member: String,
    /// Its clock, less the time since the first was asked.
    ahead_ms: i64,
    /// How far that may be off: half of the way there and back.
    unsure_ms: i64,
}

/// What is said of clocks that are farther apart than holders allow for.
pub(crate) async fn warning(calls: &Calls, hello: &Document) -> Option<String> {
    let members = ["hosts", "passives"].iter().filter_map(|field| hello.get_array(field).ok());
    let members = members.flatten().filter_map(|member| member.as_str()).take(MEMBERS_MAX);
    let members: Vec<&str> = members.collect();
    if members.len() < 2 {
        return None;
    }
    let began = Instant::now();
    let read = members.into_iter().map(|member| read(calls, member, began));
    judge(&join_all(read).await.into_iter().flatten().collect::<Vec<_>>())
}

async fn read(calls: &Calls, member: &str, began: Instant) -> Option<Reading> {
    let address = ServerAddress::parse(member).ok()?;
    let is_it = move |server: &mongodb::ServerInfo<'_>| *server.address() == address;
    let (client, only) =
        (calls.client.clone(), SelectionCriteria::Predicate(std::sync::Arc::new(is_it)));
    // A call that is dropped takes its connection along.
    let asked = calls.home.spawn(async move {
        let admin = client.database("admin");
        // The first one may have to wait for a connection.
        let ask = async || {
            let sent = Instant::now();
            let hello = rawdoc! { "hello": 1 };
            let call = admin.run_raw_command(hello).selection_criteria(only.clone());
            let answer = timeout(ANSWER_MAX, call).await.ok()?.ok()?;
            Some((sent, answer.get_datetime("localTime").ok()?.to_owned(), Instant::now()))
        };
        ask().await?;
        ask().await
    });
    let (sent, time, came): (Instant, DateTime, Instant) = asked.await.ok()??;
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let way = came - sent;
    Some(Reading {
        member: member.to_owned(),
        ahead_ms: time.timestamp_millis() - millis(sent + way / 2 - began),
        unsure_ms: millis(way / 2) + 1,
    })
}

/// Compares the clock that is farthest ahead with the one that is farthest behind.
fn judge(readings: &[Reading]) -> Option<String> {
    let first = readings.iter().min_by_key(|one| one.ahead_ms + one.unsure_ms)?;
    let last = readings.iter().max_by_key(|one| one.ahead_ms - one.unsure_ms)?;
    let apart = (last.ahead_ms - last.unsure_ms) - (first.ahead_ms + first.unsure_ms);
    let apart = Duration::from_millis(u64::try_from(apart).ok()?);
    (apart > MARGIN).then(|| {
        format!(
            "the clock of {} is ahead of that of {} by {apart:?} or more: after a fail-over a lock may end that much earlier than its holder expects, who allows for {MARGIN:?}; have NTP keep the members' clocks together, or give locks a margin",
            last.member, first.member
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clocks_that_are_surely_too_far_apart_are_told() {
        let reading = |ahead_ms, unsure_ms| Reading {
            member: format!("member{ahead_ms}"),
            ahead_ms,
            unsure_ms,
        };
        assert_eq!(judge(&[]), None);
        assert_eq!(judge(&[reading(5000, 1)]), None);
        assert_eq!(judge(&[reading(0, 1), reading(51, 1)]), None);
        assert_eq!(judge(&[reading(0, 1), reading(300, 300)]), None, "it may be the way");
        let told = judge(&[reading(-30, 1), reading(0, 1), reading(30, 1)]).unwrap();
        assert!(told.contains("member30 is ahead of that of member-30 by 58ms"), "{told}");
    }
}
