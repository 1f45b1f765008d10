//! Crowds: a thousand waiters, and a session that is full. They need a machine that has the time to
//! keep them all alive.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tenure_core::{Error, ErrorKind, LINE_TICKETS_MAX, Locks};
use tenure_servers::Store as _;
use tenure_servers::zookeeper::{Ensemble, Server};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zookeeper_client::{Acls, Client, CreateMode};

use super::network::{proxy_to, url_of};
use super::stage::{
    TTL, at_last, connect, ephemerals, operator, play, received, said, soon, tickets, until_count,
    until_line,
};

/// The longest that these servers grant: few signs of life fall into a story.
pub(super) const LONG: Duration = Duration::from_secs(40);

#[test]
fn a_session_takes_no_more_tickets_than_servers_survive_the_end_of() {
    const AT_ONCE: usize = 128;
    play(3, async |ensemble| {
        // Long paths, so that a few thousand are enough.
        let url = format!("{}?prefix={}", ensemble.url(), "x".repeat(128));
        let locks = at_last("it connects", async || tenure_zookeeper::connect(&url).await).await;
        let mut held = Vec::new();
        let refused = 'filling: loop {
            let some = (0..AT_ONCE).map(|at| {
                let mutex = locks.mutex(format!("{}/{at}", held.len())).ttl(LONG).manual_renewal();
                async move { mutex.lock().await }
            });
            for one in futures_util::future::join_all(some).await {
                match one {
                    Ok(guard) => held.push(guard),
                    Err(error) if error.is_retryable() => {}
                    Err(error) => break 'filling error,
                }
            }
        };
        assert!(refused.to_string().contains("ask for fewer at a time"), "{refused}");
        assert!(held.len() >= 3000, "{}", held.len());
        // On a slow machine, leases that were not renewed have ended meanwhile.
        let there_are = ephemerals(ensemble.leader().unwrap());
        assert!(there_are <= 4500, "{there_are}");
        // The locks are not released one by one: the end of the session removes all nodes.
        locks.close().await;
        let other = connect(&ensemble).await;
        soon("another client locks", async {
            while other.mutex("another").lock().await.is_err() {}
        })
        .await;
        assert!(ensemble.servers().iter().all(|server| server.role().is_ok()), "all serve");
    });
}

/// Maximum nodes of a session whose paths have more than a thousand bytes: together one megabyte.
const LONG_PATHS_MAX: u64 = 900;

fn long_chroot() -> String {
    format!("/{}", "x".repeat(1000))
}

/// Returns a client whose paths have more than a thousand bytes.
async fn with_long_paths(ensemble: &Ensemble) -> Locks {
    let chroot = long_chroot();
    let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
    operator(ensemble).await.create(&chroot, b"", &open).await.unwrap();
    tenure_zookeeper::connect(format!("{}{chroot}", ensemble.url())).await.unwrap()
}

#[test]
fn of_a_crowd_that_comes_at_once_no_more_come_in_than_servers_survive_the_end_of() {
    const CROWD: usize = 2000;
    play(1, async |ensemble| {
        let locks = with_long_paths(&ensemble).await;
        // The session is open, so that all callers join at once.
        locks.mutex("warm").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        let all = (0..CROWD).map(|at| {
            let mutex = locks.mutex(format!("k{at}")).ttl(LONG).manual_renewal();
            async move { mutex.lock().await }
        });
        let all = futures_util::future::join_all(all).await;
        let there_are = ephemerals(&ensemble.servers()[0]);
        assert!(there_are <= LONG_PATHS_MAX, "{there_are}");
        let (held, refused): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
        assert!(!refused.is_empty());
        let is_full = |error: &Error| error.to_string().contains("ask for fewer at a time");
        for error in refused.into_iter().filter_map(Result::err) {
            assert!(is_full(&error) || error.is_retryable(), "{error}");
        }
        // When they have left, others can join.
        drop(held);
        locks.flush().await;
        locks.mutex("next").ttl(LONG).lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn writers_that_become_readers_are_no_more_than_servers_survive_the_end_of() {
    const WRITERS: usize = 700;
    const AT_ONCE: usize = 100;
    play(1, async |ensemble| {
        let locks = with_long_paths(&ensemble).await;
        let mut held = Vec::new();
        while held.len() < WRITERS {
            let some = (held.len()..held.len() + AT_ONCE).map(|at| {
                let lock = locks.rwlock(format!("k{at}")).ttl(LONG);
                async move { lock.write().await.unwrap() }
            });
            held.extend(futures_util::future::join_all(some).await);
        }
        // Each has a second node then.
        let (mut readers, mut refused) = (Vec::new(), None);
        for writer in held {
            match writer.downgrade().await {
                Ok(reader) => readers.push(reader),
                Err(error) => refused = Some(error),
            }
        }
        let there_are = ephemerals(&ensemble.servers()[0]);
        assert!(there_are <= LONG_PATHS_MAX, "{there_are}");
        let refused = refused.expect("there is no room for all").to_string();
        assert!(refused.contains("ask for fewer at a time"), "{refused}");
    });
}

#[test]
fn tickets_that_others_take_out_leave_room_behind() {
    const ROUNDS: u64 = LONG_PATHS_MAX + 100;
    play(1, async |ensemble| {
        let locks = with_long_paths(&ensemble).await;
        let there = format!("127.0.0.1:{}{}", ensemble.servers()[0].port(), long_chroot());
        let operator = Client::connect(&there).await.unwrap();
        for round in 0..ROUNDS {
            let guard = locks.mutex("k").ttl(LONG).lock().await;
            let guard = guard.unwrap_or_else(|error| panic!("{round}: {error}"));
            operator.delete(&tickets(&operator).await[0], None).await.unwrap();
            soon("it is told", guard.lost()).await;
        }
    });
}

#[test]
fn a_thousand_waiters_are_served_in_order_at_a_constant_cost_though_half_of_them_go_away() {
    const WAITERS: usize = 1000;
    play(1, async |ensemble| {
        let server = &ensemble.servers()[0];
        let (holder, crowd) = (connect(&ensemble).await, connect(&ensemble).await);
        let operator = operator(&ensemble).await;
        let guard = holder.mutex("k").ttl(LONG).lock().await.unwrap();
        let (last, mut waiters) = (Arc::new(AtomicU64::new(0)), Vec::new());
        for at in 0..WAITERS {
            let (mutex, last) = (crowd.mutex("k").ttl(LONG), last.clone());
            waiters.push(tokio::spawn(async move {
                let guard = mutex.lock().await.unwrap();
                let before = last.swap(guard.token().get(), Ordering::SeqCst);
                assert!(before < guard.token().get(), "in order");
                guard.release().await.unwrap();
            }));
            if at % 50 == 49 {
                until_count(&operator, waiters.len() + 1).await;
            }
        }
        for waiter in waiters.iter().step_by(2) {
            waiter.abort();
        }
        until_count(&operator, WAITERS / 2 + 1).await;
        crowd.flush().await;
        let before = received(server);
        guard.release().await.unwrap();
        for waiter in waiters.into_iter().skip(1).step_by(2) {
            soon("each is served", waiter).await.unwrap();
        }
        let (all, turns) = (received(server) - before, WAITERS as u64 / 2);
        println!("{all} packets for {turns} hand-overs");
        assert!(all <= turns * 12, "{all} packets for {turns} hand-overs");
        assert!(tickets(&operator).await.is_empty());
    });
}

#[test]
fn more_waiters_than_there_are_watches_for_outlive_a_cut_and_are_all_served() {
    const KEYS: usize = 100;
    /// Maximum watches with paths of more than a thousand bytes that the client can set again after
    /// a cut.
    const WATCHES_MAX: u64 = 120;
    let life = TTL * 5;
    play(1, async |ensemble| {
        let (server, proxy) = (&ensemble.servers()[0], proxy_to(&ensemble));
        let chroot = long_chroot();
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        operator(&ensemble).await.create(&chroot, b"", &open).await.unwrap();
        let of = |url: &str| tenure_zookeeper::connect(format!("{url}{chroot}"));
        let (holder, crowd) = (of(&ensemble.url()).await, of(&url_of(&proxy)).await);
        let (holder, crowd) = (holder.unwrap(), crowd.unwrap());
        let own = crowd.mutex("own").ttl(life).lock().await.unwrap();
        let (mut guards, mut waiters) = (Vec::new(), Vec::new());
        for at in 0..KEYS {
            let key = format!("k{at}");
            guards.push(holder.mutex(&key).ttl(LONG).lock().await.unwrap());
            let waiter = crowd.mutex(&key).ttl(life);
            waiters.push(tokio::spawn(async move { waiter.lock().await }));
            until_line(&holder, &key, 2).await;
        }
        soon("as many watch as can", async { while watches(server) < WATCHES_MAX / 2 {} }).await;
        let before = proxy.counts().connections;
        proxy.cut();
        at_last("it is answered", async || crowd.line("own").await).await;
        tokio::time::sleep(life).await;
        let connections = proxy.counts().connections - before;
        assert!(connections <= 4, "{connections} for two sessions");
        own.check().expect("its session has a connection");
        assert!(watches(server) <= WATCHES_MAX, "{}", watches(server));
        for guard in guards {
            guard.release().await.unwrap();
        }
        for waiter in waiters {
            soon("each is served", waiter).await.unwrap().unwrap().release().await.unwrap();
        }
    });
}

#[test]
fn the_keys_of_many_locks_are_told_by_a_slow_way() {
    const LOCKS: usize = 1000;
    const AT_ONCE: usize = 100;
    play(1, async |ensemble| {
        let proxy = proxy_to(&ensemble);
        let (locks, far) = (connect(&ensemble).await, tenure_zookeeper::connect(url_of(&proxy)));
        let (far, mut held) = (far.await.unwrap(), Vec::new());
        while held.len() < LOCKS {
            let some = (held.len()..held.len() + AT_ONCE).map(|at| {
                let mutex = locks.mutex(format!("k/{at}")).ttl(LONG);
                async move { mutex.lock().await.unwrap() }
            });
            held.extend(futures_util::future::join_all(some).await);
        }
        locks.mutex("k/left").lock().await.unwrap().release().await.unwrap();
        proxy.delay(Duration::from_millis(5));
        let keys = far.keys("k/").await.expect("it is answered in time");
        assert_eq!(keys.len(), LOCKS);
        assert_eq!(far.keys("elsewhere").await.unwrap(), []);
    });
}

/// Returns the number of watches of a server.
fn watches(server: &Server) -> u64 {
    let said = said(server, "mntr");
    let count = said.lines().find_map(|line| line.strip_prefix("zk_watch_count")).unwrap();
    count.trim().parse().unwrap()
}

/// Makes a line of `length` tickets by copies of its last one. The copies belong to no session.
async fn lengthen(operator: &Client, length: usize) {
    const AT_ONCE: usize = 256;
    let there_are = tickets(operator).await;
    let last = there_are.last().unwrap();
    let (body, _) = operator.get_data(last).await.unwrap();
    let (before, _) = last.rsplit_once('-').unwrap();
    let (capacity, _) = before.rsplit_once('-').unwrap();
    let persistent = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
    let mut left: Vec<usize> = (there_are.len()..length).collect();
    while !left.is_empty() {
        let mut some = operator.new_multi_writer();
        for _ in left.drain(..left.len().min(AT_ONCE)) {
            let name = format!("{capacity}-{}-", tenure_core::TicketId::fresh());
            some.add_create(&name, &body, &persistent).unwrap();
        }
        some.commit().await.unwrap();
    }
}

#[test]
fn ten_thousand_may_stand_in_line_and_one_more_than_it_takes_is_refused() {
    const MANY: usize = 10_000;
    play(1, async |ensemble| {
        let server = &ensemble.servers()[0];
        let (holder, locks) = (connect(&ensemble).await, connect(&ensemble).await);
        let operator = operator(&ensemble).await;
        let guard = holder.mutex("k").ttl(LONG).lock().await.unwrap();
        lengthen(&operator, MANY).await;
        let before = received(server);
        let waited = locks.mutex("k").ttl(LONG).try_lock_for(Duration::from_secs(1)).await;
        assert!(waited.unwrap().is_none(), "it is held");
        locks.flush().await;
        let asked = received(server) - before;
        println!("who came behind {MANY} and went away took {asked} packets");
        assert!(asked <= 40, "{asked} packets");
        assert_eq!(tickets(&operator).await.len(), MANY, "it left");

        lengthen(&operator, LINE_TICKETS_MAX).await;
        let refused = locks.mutex("k").ttl(LONG).lock().await.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
        assert!(refused.to_string().contains("full"), "{refused}");
        assert_eq!(tickets(&operator).await.len(), LINE_TICKETS_MAX, "nothing is left of it");
        guard.check().expect("the servers live");
        guard.release().await.unwrap();
    });
}

#[test]
fn watches_that_nobody_waits_for_make_room_for_others() {
    const KEYS: usize = 130;
    play(1, async |ensemble| {
        let server = &ensemble.servers()[0];
        // Long paths, so that there is room for about a hundred watches.
        let chroot = long_chroot();
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        operator(&ensemble).await.create(&chroot, b"", &open).await.unwrap();
        let of = async || tenure_zookeeper::connect(format!("{}{chroot}", ensemble.url())).await;
        let (holder, crowd) = (of().await.unwrap(), of().await.unwrap());
        let mut held = Vec::new();
        for at in 0..KEYS {
            held.push(holder.mutex(format!("k{at}")).ttl(LONG).lock().await.unwrap());
        }
        for at in 0..KEYS {
            let mutex = crowd.mutex(format!("k{at}")).ttl(LONG);
            let mut waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
            until_line(&holder, &format!("k{at}"), 2).await;
            let given_up = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
            assert!(given_up.is_err(), "{given_up:?}");
            waiting.abort();
        }
        soon("nothing is left to do", crowd.flush()).await;
        let paths = || -> HashSet<String> {
            let said = said(server, "wchp");
            said.lines().filter(|line| line.starts_with('/')).map(str::to_owned).collect()
        };
        // Each new waiter watches a node of its own, like all others.
        for at in 0..KEYS {
            let before = paths();
            let mutex = crowd.mutex(format!("k{at}")).ttl(LONG);
            let waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
            soon("it is watched", async {
                while paths().is_subset(&before) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
            .await;
            waiting.abort();
        }
    });
}

#[test]
fn callers_who_give_up_early_are_served_in_between_and_the_line_stays_short() {
    const CALLERS: usize = 48;
    const SERVED: usize = 40;
    play(1, async |ensemble| {
        let (crowd, other) = (connect(&ensemble).await, connect(&ensemble).await);
        let (served, mut callers) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
        for _ in 0..CALLERS {
            let (mutex, served) = (crowd.mutex("k").ttl(LONG), served.clone());
            callers.spawn(async move {
                loop {
                    // Its future is dropped wherever it is.
                    let lock = timeout(Duration::from_millis(40), mutex.lock());
                    if let Ok(guard) = lock.await {
                        guard.unwrap().release().await.unwrap();
                        served.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        soon("some are served", async {
            while served.load(Ordering::SeqCst) < SERVED {
                let line = other.line("k").await.unwrap().len();
                assert!(line <= CALLERS * 2, "{line} tickets of {CALLERS} callers");
            }
        })
        .await;
        callers.shutdown().await;
        // The last ones of them are taken out ahead of it.
        let guard = soon("the line is passed on", other.mutex("k").ttl(LONG).lock()).await.unwrap();
        guard.release().await.unwrap();
    });
}
