//! A member that gives false answers: about leases that are gone, about keys that did not change,
//! or no answers on one stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prost::Message;
use tenure_core::{Locks, Loss};
use tenure_servers::etcd::Cluster;
use tokio::task::JoinHandle;

use super::between::Between;
use super::network::proxy_to;
use super::operators::leases;
use super::stage::{TTL, connect, play, soon, until, until_line};

const KEEP_ALIVE: &str = "LeaseKeepAlive";
const WATCH: &str = "Watch";
const TXN: &str = "Txn";
/// Number of false reports of a member on a watch.
const LIES: u64 = 8;

/// A member's answer to a keep-alive.
#[derive(Clone, Message)]
struct KeptAlive {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(int64, tag = "2")]
    id: i64,
    #[prost(int64, tag = "3")]
    ttl: i64,
}

/// The state of a member when it answered.
#[derive(Clone, Message)]
struct Header {
    #[prost(uint64, tag = "1")]
    cluster: u64,
    #[prost(uint64, tag = "2")]
    member: u64,
    #[prost(int64, tag = "3")]
    revision: i64,
    #[prost(uint64, tag = "4")]
    term: u64,
}

/// A member's message on a stream of watches.
#[derive(Clone, Message)]
pub(super) struct Watched {
    #[prost(int64, tag = "2")]
    pub(super) watch_id: i64,
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(super) compact_revision: i64,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

/// A key was changed, or deleted.
#[derive(Clone, Message)]
pub(super) struct Event {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(message, optional, tag = "2")]
    kv: Option<KeyValue>,
}

#[derive(Clone, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(int64, tag = "3")]
    mod_revision: i64,
}

/// A member's answer to a transaction, with the answers to its requests.
#[derive(Clone, Message)]
struct Done {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bool, tag = "2")]
    succeeded: bool,
    #[prost(bytes = "vec", repeated, tag = "3")]
    responses: Vec<Vec<u8>>,
}

/// A member's answer about the remaining life of a lease.
#[derive(Clone, Message)]
struct Life {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(int64, tag = "2")]
    id: i64,
    #[prost(int64, tag = "3")]
    ttl: i64,
    #[prost(int64, tag = "4")]
    granted: i64,
}

async fn through(cluster: &Cluster) -> (Between, Locks) {
    let between = Between::of(cluster).await;
    let locks = tenure_etcd::connect(between.url()).await.unwrap();
    (between, locks)
}

#[test]
fn a_stream_of_keep_alives_that_falls_silent_is_replaced_while_other_calls_are_answered() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster).await;
        between.lie(
            KEEP_ALIVE,
            |stream, said| {
                if stream == 1 { Vec::new() } else { vec![said.to_vec()] }
            },
        );
        let guard = locks.mutex("k").ttl(TTL * 3).lock().await.unwrap();
        let began = Instant::now();
        while began.elapsed() < TTL * 6 {
            guard.check().expect("it is kept alive");
            assert!(locks.mutex("k").try_lock().await.unwrap().is_none(), "it is held");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(between.streams(KEEP_ALIVE) >= 2, "another stream was opened");
        assert_eq!(
            between.streams("Status"),
            3,
            "the engine's connection and this runtime's are the same, and the member was asked whether it lives"
        );
        guard.release().await.unwrap();
    });
}

#[test]
fn who_hears_nothing_of_its_keep_alives_is_told_before_the_lease_could_end() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster).await;
        let other = connect(&cluster).await;
        // The answers to keep-alives do not reach the client, though the lease lives on.
        between.lie(KEEP_ALIVE, |_, _| Vec::new());
        let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        let waiting = tokio::spawn(async move {
            let next = other.mutex("k").lock().await.unwrap();
            (next, Instant::now())
        });
        until_line(&locks, "k", 2).await;
        let loss = soon("the holder is told", guard.lost()).await;
        let told = Instant::now();
        assert!(matches!(loss, Loss::Unreachable | Loss::Expired | Loss::SessionGone), "{loss}");
        let (next, served) = soon("the next is served", waiting).await.unwrap();
        assert!(served > told, "the next was served {:?} too soon", told - served);
        assert!(next.token() > guard.token());
        between.be_honest();
        let again = locks.mutex("other").ttl(TTL).lock().await.expect("another session is opened");
        again.release().await.unwrap();
    });
}

#[test]
fn a_keep_alive_that_is_answered_for_a_lease_that_is_gone_keeps_nobody_believing() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster).await;
        let other = connect(&cluster).await;
        let guard = locks.mutex("k").ttl(TTL * 10).lock().await.unwrap();
        between.lie(KEEP_ALIVE, |_, said| {
            let said = KeptAlive { ttl: 20, ..KeptAlive::decode(said).unwrap() };
            vec![said.encode_to_vec()]
        });
        // The watch does not report that the key is gone either: the holder must find that out by
        // itself.
        between.lie(WATCH, |_, said| {
            let begun = Watched::decode(said).unwrap().created;
            if begun { vec![said.to_vec()] } else { Vec::new() }
        });
        for lease in leases(&cluster) {
            cluster.ctl(&["lease", "revoke", &lease]).unwrap();
        }
        let next = other.mutex("k").lock().await.expect("it is free");
        assert_eq!(soon("the holder is told", guard.lost()).await, Loss::Broken);
        next.check().expect("the old holder touches nobody");
        next.release().await.unwrap();
        let again = locks.mutex("k").ttl(TTL * 10).lock().await;
        let again = again.expect("the session that is gone is replaced");
        assert!(again.token() > guard.token());
    });
}

#[test]
fn a_holder_keeps_its_lock_though_a_leader_does_not_know_its_lease_yet() {
    /// Number of answers "no such lease" of a leader that has yet to apply the grant.
    const UNKNOWN: u64 = 3;
    play(1, async |cluster| {
        let (between, locks) = through(&cluster).await;
        let answers = Arc::new(AtomicU64::new(0));
        let counted = answers.clone();
        between.lie(KEEP_ALIVE, move |_, said| {
            let is_retryable = counted.fetch_add(1, Ordering::SeqCst) < UNKNOWN;
            let said = KeptAlive::decode(said).unwrap();
            let ttl = if is_retryable { 0 } else { said.ttl };
            vec![KeptAlive { ttl, ..said }.encode_to_vec()]
        });
        let guard = locks.mutex("k").ttl(TTL * 6).lock().await.unwrap();
        let lease = leases(&cluster);
        soon("the leader knows it", async {
            while answers.load(Ordering::SeqCst) < UNKNOWN + 2 {
                guard.check().expect("the lease lives");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        guard.check().expect("the lease lives");
        assert_eq!(leases(&cluster), lease);
        guard.release().await.unwrap();
    });
}

#[test]
fn a_sign_of_life_that_an_old_leader_answers_is_none() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster).await;
        let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        // The answers are of an old leader that does not know that it leads no more. The new leader
        // has received no keep-alive of the holder.
        between.lie(KEEP_ALIVE, |_, said| {
            let mut said = KeptAlive::decode(said).unwrap();
            said.header.as_mut().expect("members say what they are").term -= 1;
            vec![said.encode_to_vec()]
        });
        let loss = soon("the holder is told", guard.lost()).await;
        assert!(matches!(loss, Loss::Unreachable | Loss::Expired | Loss::SessionGone), "{loss}");
    });
}

#[test]
fn signs_of_life_that_take_most_of_their_time_are_counted() {
    // The README allows a delay of 280 ms with a ttl of 2 s, a seventh. A busy machine adds to it.
    const TTL: Duration = Duration::from_secs(6);
    play(1, async |cluster| {
        let proxy = proxy_to(&cluster);
        let url = format!("etcd://127.0.0.1:{}", proxy.port());
        let locks = tenure_etcd::connect(url).await.unwrap();
        let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        proxy.delay(TTL / 16);
        let began = Instant::now();
        while began.elapsed() < TTL * 2 {
            guard.check().expect("it is kept alive");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}

/// Sends this message on each of the first `LIES` watches when it has begun. Later watches get
/// none. Returns the count of watches.
fn lie_about_watches(
    between: &Between,
    lie: impl Fn(i64) -> Watched + Send + Sync + 'static,
) -> Arc<AtomicU64> {
    let begun = Arc::new(AtomicU64::new(0));
    let lies = begun.clone();
    between.lie(WATCH, move |_, said| {
        let mut passed = vec![said.to_vec()];
        let watched = Watched::decode(said).unwrap();
        if watched.created && lies.fetch_add(1, Ordering::Relaxed) < LIES {
            passed.push(lie(watched.watch_id).encode_to_vec());
        }
        passed
    });
    begun
}

/// Checks that this message on the watches of a holder and a waiter has no effect.
fn nothing_comes_of(lie: impl Fn(i64) -> Watched + Send + Sync + 'static) {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster).await;
        let begun = lie_about_watches(&between, lie);
        let guard = locks.mutex("k").lock().await.unwrap();
        let waiting: JoinHandle<_> = tokio::spawn({
            let mutex = locks.mutex("k");
            async move { mutex.lock().await }
        });
        until_line(&locks, "k", 2).await;
        until("a watch has begun", async || begun.load(Ordering::Relaxed) > 0).await;
        tokio::time::sleep(TTL / 2).await;
        guard.check().expect("it is held");
        assert!(!waiting.is_finished(), "nobody else holds it");
        let token = guard.token();
        guard.release().await.unwrap();
        let next = soon("the waiter is served", waiting).await.unwrap().unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap();
    });
}

fn deleted(watch_id: i64, key: &[u8], mod_revision: i64) -> Watched {
    let kv = Some(KeyValue { key: key.to_vec(), mod_revision });
    Watched { watch_id, events: vec![Event { kind: 1, kv }], ..Watched::default() }
}

#[test]
fn a_watch_that_is_cancelled_is_opened_again() {
    nothing_comes_of(|watch_id| Watched { watch_id, canceled: true, ..Watched::default() });
}

#[test]
fn a_watch_whose_past_is_compacted_is_opened_again() {
    nothing_comes_of(|watch_id| Watched {
        watch_id,
        canceled: true,
        compact_revision: 1 << 40,
        ..Watched::default()
    });
}

#[test]
fn a_watch_that_replays_the_past_tells_nothing() {
    nothing_comes_of(|watch_id| deleted(watch_id, b"whatever", 1));
}

#[test]
fn a_watch_that_tells_what_a_stranger_asked_for_tells_nothing() {
    nothing_comes_of(|watch_id| deleted(watch_id + 1000, b"a-stranger", 1 << 40));
}

#[test]
fn a_watch_that_tells_of_the_key_of_a_stranger_is_only_a_hint() {
    nothing_comes_of(|watch_id| deleted(watch_id, b"a-stranger", 1 << 40));
}

#[test]
fn a_member_that_is_behind_another_when_it_tells_of_a_lease_is_not_taken_for_one_that_was_restored()
{
    play(1, async |cluster| {
        let ((between, locks), other) = (through(&cluster).await, connect(&cluster).await);
        let held = other.mutex("k").lock().await.unwrap();
        between.lie("LeaseTimeToLive", |_, said| {
            let mut life = Life::decode(said).expect("it is an answer");
            life.header = Some(Header { revision: 1, ..Header::default() });
            vec![life.encode_to_vec()]
        });
        let line = locks.line("k").await.unwrap();
        assert!(line[0].life.is_some(), "the member was asked: {line:?}");
        assert!(between.streams("LeaseTimeToLive") > 0);
        held.release().await.unwrap();
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_join_that_is_answered_without_a_revision_or_without_its_line_is_not_believed() {
    let lies: [fn(Done) -> Done; 2] =
        [|said| Done { header: None, ..said }, |said| Done { responses: Vec::new(), ..said }];
    for (lie, is_held) in [(lies[0], false), (lies[0], true), (lies[1], true)] {
        play(1, async move |cluster| {
            let between = Between::of(&cluster).await;
            let url = format!("{}?timeout=500ms", between.url());
            let locks = tenure_etcd::connect(&url).await.unwrap();
            let honest = connect(&cluster).await;
            let holder = if is_held { honest.mutex("k").try_lock().await.unwrap() } else { None };
            let opened = locks.mutex("another").ttl(TTL).try_lock().await.unwrap();
            drop(opened.expect("it is free"));
            between.lie(TXN, move |_, said| {
                vec![lie(Done::decode(said).expect("a transaction's answer")).encode_to_vec()]
            });
            let refused =
                locks.mutex("k").ttl(TTL).try_lock().await.expect_err("it is not believed");
            assert!(refused.is_retryable(), "{refused}");
            between.be_honest();
            drop(holder);
            let guard = soon("what was put is taken out", locks.mutex("k").ttl(TTL).lock()).await;
            guard.unwrap().release().await.unwrap();
        });
    }
}

#[test]
fn an_onlooker_of_a_member_that_begins_no_watch_is_told_so_in_time() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster).await;
        between.lie(WATCH, |_, _| Vec::new());
        let refused = soon("it is told", locks.watch_prefix("")).await.map(drop).unwrap_err();
        assert!(refused.is_retryable(), "{refused}");
    });
}

#[test]
fn an_onlooker_whose_watch_is_refused_without_a_name_asks_again() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster).await;
        let refusals = AtomicU64::new(0);
        between.lie(WATCH, move |_, said| {
            let told = Watched::decode(said).expect("it is an answer");
            if told.created && refusals.fetch_add(1, Ordering::SeqCst) == 0 {
                let (watch_id, canceled) = (-1, true);
                return vec![Watched { watch_id, canceled, ..told }.encode_to_vec()];
            }
            vec![said.to_vec()]
        });
        let mut watch = soon("it looks on", locks.watch_prefix("")).await.unwrap();
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
        soon("it hears", watch.next()).await.unwrap();
    });
}

#[test]
fn a_stream_of_watches_that_falls_silent_is_opened_again() {
    play(1, async |cluster| {
        let between = Between::of(&cluster).await;
        let locks = soon("it connects", tenure_etcd::connect(between.url())).await.unwrap();
        let other = connect(&cluster).await;
        between
            .lie(WATCH, |stream, said| if stream == 1 { Vec::new() } else { vec![said.to_vec()] });
        let long = Duration::from_secs(3600);
        let guard = other.mutex("k").ttl(long).lock().await.unwrap();
        let waiting = tokio::spawn(async move { locks.mutex("k").ttl(long).lock().await });
        until_line(&other, "k", 2).await;
        let is_asked = async {
            while between.streams(WATCH) < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon("another stream is opened", is_asked).await;
        guard.release().await.unwrap();
        drop(soon("the waiter is served", waiting).await.unwrap().unwrap());
    });
}
