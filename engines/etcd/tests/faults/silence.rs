//! The members do not answer: callers get their errors in time, memory is flat, and few connections
//! are made. No stale request is carried out afterwards.

use std::time::{Duration, Instant};

use tenure_conformance::fault::{Outage, Proxy, impatience};
use tenure_core::ErrorKind;
use tenure_kit::rate_limiter::{AT_ONCE, EACH};
use tenure_servers::Store as _;
use tenure_servers::etcd::Cluster;
use tokio::task::JoinSet;

use super::network::proxy_to;
use super::stage::{PATIENCE, at_last, connect, play, soon, until_line};

#[test]
fn forty_callers_of_a_member_that_stands_still_have_their_answers_in_the_promised_time() {
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        let promised = locks.guarantees().answers_within;
        assert_eq!(promised, Duration::from_secs(8), "four times the timeout, which is 2 s");
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        cluster.members()[0].freeze().unwrap();
        let mut callers = JoinSet::new();
        for caller in 0..40 {
            let locks = locks.clone();
            callers.spawn(async move {
                let (began, key) = (Instant::now(), format!("{caller}"));
                let error = match caller % 4 {
                    0 => locks.mutex(key).lock().await.map(drop).unwrap_err(),
                    1 => locks.mutex(key).try_lock().await.map(drop).unwrap_err(),
                    2 => locks.line(key).await.map(drop).unwrap_err(),
                    _ => locks.sequence(key).next().await.map(drop).unwrap_err(),
                };
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                began.elapsed()
            });
        }
        let mut longest = Duration::ZERO;
        while let Some(took) = callers.join_next().await {
            longest = longest.max(took.unwrap());
        }
        println!("the last of 40 had its answer after {longest:?}");
        assert!(longest < promised + PATIENCE / 20, "{longest:?} is more than {promised:?}");
        cluster.members()[0].thaw().unwrap();
        for caller in 0..40 {
            until_line(&locks, &format!("{caller}"), 0).await;
        }
    });
}

#[test]
fn a_thousand_guards_that_are_dropped_while_nobody_answers_are_swept_without_a_storm() {
    const GUARDS: u64 = 1000;
    play(1, async |cluster| {
        let (locks, member) = (connect(&cluster).await, &cluster.members()[0]);
        let mut guards = Vec::new();
        for at in 0..GUARDS {
            guards.push(locks.mutex(format!("k{at}")).lock().await.unwrap());
        }
        let before = member.requests("Txn");
        member.freeze().unwrap();
        drop(guards);
        tokio::time::sleep(Duration::from_secs(3)).await;
        member.thaw().unwrap();
        soon("all are given back", locks.flush()).await;
        let asked = at_last("it answers", async || Ok(member.requests("Txn"))).await - before;
        println!("{GUARDS} guards took {asked} transactions");
        assert!(asked <= GUARDS * 3, "{asked} transactions for {GUARDS} guards");
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}

#[test]
fn a_member_that_turns_clients_out_sees_few_connections() {
    play(1, async |cluster| {
        let proxy = proxy_to(&cluster);
        let locks = tenure_etcd::connect(url_of(&proxy)).await.unwrap();
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        cluster.members()[0].kill().unwrap();
        let before = proxy.counts().connections;
        let within = impatience(&locks).await;
        let seen = proxy.counts().connections - before;
        println!("{seen} connections in {within:?}");
        // The kit's pace: of one member, each attempt is one connection.
        let most = u128::from(AT_ONCE) + within.as_millis() / EACH.as_millis() + 1;
        assert!(u128::from(seen) <= most, "{seen} in {within:?}, and {most} are many");
    });
}

#[test]
fn memory_is_flat_while_the_member_stands_still() {
    play(1, async |cluster| {
        Outage::of(&cluster.url()).runs("frozen", || cluster.members()[0].freeze().unwrap());
    });
}

#[test]
fn memory_is_flat_while_nobody_listens() {
    play(1, async |cluster| {
        Outage::of(&cluster.url()).runs("refusing", || cluster.members()[0].kill().unwrap());
    });
}

#[test]
fn memory_is_flat_while_nothing_passes() {
    play(1, async |cluster: Cluster| {
        let proxy = proxy_to(&cluster);
        Outage::of(&url_of(&proxy)).runs("black-holed", || proxy.black_hole());
    });
}

fn url_of(proxy: &Proxy) -> String {
    format!("etcd://127.0.0.1:{}", proxy.port())
}

/// Not a test: where the client's process begins.
#[test]
fn client_process() {
    Outage::be_client(async |url| tenure_etcd::connect(url).await.unwrap());
}
