//! Callers with short timeouts, and a slow connection to the member: the results of their requests,
//! and what is left of them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tenure_core::{
    BackgroundRuntime, Engine as _, Key, LeaveMode, Locks, Runtime, Share, Ticket, WaitMode,
};
use tenure_servers::etcd::Cluster;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::between::Between;
use super::network::proxy_to;
use super::operators::keys;
use super::stage::{PATIENCE, TTL, connect, play, soon, until_line};

/// A ttl of which no ticket or session of a client ends by itself.
const LONG: Duration = Duration::from_secs(3600);
/// Sessions of one client.
const SESSIONS_MAX: usize = 8;

async fn through(url: String) -> Locks {
    soon("it connects", tenure_etcd::connect(url)).await.unwrap()
}

/// Returns the number of all leases, including those that no client knows.
fn all_leases(cluster: &Cluster) -> usize {
    // The first line has the count.
    cluster.ctl(&["lease", "list"]).unwrap().lines().count() - 1
}

#[test]
fn callers_who_have_no_time_to_open_a_session_find_it_open_the_next_time() {
    const TRIES: usize = 40;
    play(1, async |cluster| {
        let proxy = proxy_to(&cluster);
        let locks = through(format!("etcd://127.0.0.1:{}", proxy.port())).await;
        proxy.delay(Duration::from_millis(15));
        let mutex = locks.mutex("k").ttl(LONG);
        let (mut tries, mut got) = (0, 0);
        // A way there and back takes 30 ms, and a session two of them.
        soon("one has the lock", async {
            while tries < TRIES || got == 0 {
                let locked = timeout(Duration::from_millis(50), mutex.lock()).await;
                got += usize::from(locked.is_ok_and(|locked| locked.is_ok()));
                tries += 1;
            }
        })
        .await;
        proxy.heal();
        soon("nothing is left to do", locks.flush()).await;
        assert_eq!(all_leases(&cluster), 1);
    });
}

#[test]
fn callers_with_many_ttls_who_give_up_leave_no_leases_behind() {
    const CALLERS: u64 = 40;
    const ROUNDS: u64 = 40;
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        let (mut callers, held) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        for at in 0..CALLERS {
            let (locks, held) = (locks.clone(), held.clone());
            callers.spawn(async move {
                for round in 0..ROUNDS {
                    let ttl = LONG + Duration::from_secs((at * 7 + round * 13) % 50);
                    let mutex = locks.mutex(format!("k{}", at % 20)).ttl(ttl);
                    let patience =
                        if round % 3 == 0 { Duration::from_millis(round) } else { PATIENCE };
                    let Ok(guard) = timeout(patience, mutex.lock()).await else { continue };
                    let guard = guard.unwrap();
                    held.fetch_add(1, Ordering::Relaxed);
                    guard.check().unwrap();
                    guard.release().await.unwrap();
                }
            });
        }
        while let Some(caller) = soon("all end", callers.join_next()).await {
            caller.unwrap();
        }
        soon("nothing is left to do", locks.flush()).await;
        println!("{} locks, {} leases", held.load(Ordering::Relaxed), all_leases(&cluster));
        let few = async {
            while all_leases(&cluster) > SESSIONS_MAX {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        soon("a client has few leases", few).await;
    });
}

#[test]
fn a_waiter_behind_many_permits_is_served_over_a_slow_way() {
    const HOLDERS: usize = 100;
    play(1, async |cluster| {
        let (proxy, locks) = (proxy_to(&cluster), connect(&cluster).await);
        let permits = locks.semaphore("s", u32::try_from(HOLDERS).unwrap()).ttl(LONG);
        let mut held = try_join_all((0..HOLDERS).map(|_| permits.acquire())).await.unwrap();
        let far = through(format!("etcd://127.0.0.1:{}", proxy.port())).await;
        far.mutex("warm").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        proxy.delay(Duration::from_millis(30));
        let waiting = tokio::spawn({
            let permits = far.semaphore("s", u32::try_from(HOLDERS).unwrap()).ttl(LONG);
            async move { permits.acquire().await }
        });
        until_line(&locks, "s", HOLDERS + 1).await;
        // Longer than it takes to open all watches one after the other, and longer than a verb's
        // timeout.
        tokio::time::sleep(Duration::from_secs(8)).await;
        let watches = cluster.members()[0].requests("Watch");
        held.pop().unwrap().release().await.unwrap();
        drop(soon("it is served", waiting).await.unwrap().unwrap());
        assert!(watches < 200, "{watches} requests for {} watches", HOLDERS + 1);
    });
}

/// Delays the first `answers` answers to transactions. Answers to keep-alives are not delayed.
async fn slow_through(cluster: &Cluster, answers: usize, by: Duration) -> (Between, Locks) {
    let between = Between::of(cluster).await;
    let locks = through(format!("{}?timeout=10s", between.url())).await;
    let slow = AtomicUsize::new(0);
    // The session is open.
    locks.mutex("warm").ttl(TTL).lock().await.unwrap().release().await.unwrap();
    between.lie("Txn", move |_, said| {
        if slow.fetch_add(1, Ordering::SeqCst) < answers {
            tokio::task::block_in_place(|| std::thread::sleep(by));
        }
        vec![said.to_vec()]
    });
    (between, locks)
}

#[test]
fn a_lock_whose_answer_takes_longer_than_it_lives_is_held() {
    play(1, async |cluster| {
        let (_between, locks) = slow_through(&cluster, 1, TTL * 3 / 2).await;
        let began = Instant::now();
        let guard = soon("it is answered", locks.mutex("k").ttl(TTL).lock()).await.unwrap();
        assert!(began.elapsed() > TTL, "it was not slow");
        tokio::time::sleep(TTL * 2).await;
        guard.check().expect("its session lives");
        assert_eq!(locks.line("k").await.unwrap().len(), 1);
        guard.release().await.unwrap();
    });
}

#[test]
fn a_join_whose_answers_take_longer_than_its_ticket_lives_waits_in_line() {
    play(1, async |cluster| {
        let other = connect(&cluster).await;
        let held = other.mutex("k").ttl(LONG).lock().await.unwrap();
        let (_between, locks) = slow_through(&cluster, 2, TTL * 3 / 4).await;
        let waiting = tokio::spawn(async move { locks.mutex("k").ttl(TTL).lock().await });
        until_line(&other, "k", 2).await;
        tokio::time::sleep(TTL * 3).await;
        assert_eq!(other.line("k").await.unwrap().len(), 2, "it stands there, and is kept alive");
        held.release().await.unwrap();
        soon("it is served", waiting).await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn a_join_that_is_under_way_when_its_ticket_leaves_asks_no_more() {
    play(1, async |cluster| {
        let (between, other) = (Between::of(&cluster).await, connect(&cluster).await);
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
        let url = format!("{}?timeout=30s", between.url());
        let engine = Arc::new(tenure_etcd::engine(&url, host).await.unwrap());
        let ticket =
            |key| Ticket { ttl: LONG, ..Ticket::new(Key::new(key).unwrap(), Share::WHOLE) };
        engine.join(&ticket("warm"), WaitMode::Wait).await.unwrap().expect("it waits");
        let mut names = HashSet::new();
        for _ in 0..5 {
            let ours = ticket("k");
            between.hold_next("Txn");
            let joining = tokio::spawn({
                let (engine, ours) = (engine.clone(), ours.clone());
                async move { engine.join(&ours, WaitMode::Wait).await }
            });
            let late = soon("the join is sent", between.held()).await;
            engine.leave(&ours, LeaveMode::Now).await.unwrap();
            soon("it arrives", late.let_go()).await;
            let joined = soon("it is answered", joining).await.unwrap();
            assert!(joined.is_err(), "{joined:?}");
            assert!(other.line("k").await.unwrap().is_empty());
            let next = ticket("k");
            engine.join(&next, WaitMode::Wait).await.unwrap().expect("it waits");
            names.extend(keys(&cluster));
            engine.leave(&next, LeaveMode::Now).await.unwrap();
        }
        assert_eq!(names.len(), 2, "its name is used again: {names:?}");
    });
}

#[test]
fn a_try_finds_its_moment_in_a_line_that_never_rests() {
    const OTHERS: usize = 40;
    play(1, async |cluster| {
        let (busy, other) = (connect(&cluster).await, connect(&cluster).await);
        let mut churn = JoinSet::new();
        for _ in 0..OTHERS {
            let permits = busy.semaphore("s", 100).ttl(LONG);
            churn.spawn(async move {
                loop {
                    let guard = permits.acquire().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(8)).await;
                    guard.release().await.unwrap();
                }
            });
        }
        let permits = other.semaphore("s", 100).ttl(LONG);
        other.mutex("warm").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        for _ in 0..10 {
            let tried = soon("it is answered", permits.try_acquire()).await.unwrap();
            tried.expect("most are free").release().await.unwrap();
        }
    });
}
