//! The server does not answer: every call returns within `timeout`, and waiting calls are bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure_conformance::fault::{Outage, Proxy};
use tenure_core::{Engine as _, ErrorKind, Key, LeaveMode, WaitMode, Window};
use tenure_servers::redis::{Cluster, Server, Setup};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::stage::{
    LONG, PATIENCE, cluster_store, connect, play, proxy_to, script_calls, soon, store, ticket,
    until,
};

/// The most that may be written to a connection and not be answered, in calls.
const UNDER_WAY_MAX: u64 = 128;

#[test]
fn forty_callers_at_once_have_their_answers_in_the_promised_time() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let promised = locks.guarantees().answers_within;
        assert_eq!(promised, Duration::from_secs(4), "twice the timeout, which is 2 s");
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        for round in 0..2 {
            server.freeze().unwrap();
            let mut callers = JoinSet::new();
            for caller in 0..40 {
                let locks = locks.clone();
                callers.spawn(async move {
                    let began = Instant::now();
                    let key = format!("{round} {caller}");
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
            server.thaw().unwrap();
            until("it answers again", async || locks.line("a").await.is_ok()).await;
        }
    });
}

#[test]
fn what_callers_gave_up_is_not_carried_out_in_bulk_when_the_server_wakes() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        let before = script_calls(&server);
        server.freeze().unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let mut callers = JoinSet::new();
        for caller in 0..64 {
            let (locks, asked) = (locks.clone(), asked.clone());
            callers.spawn(async move {
                for round in 0..100 {
                    let mutex = locks.mutex(format!("{caller} {round}"));
                    // The server is frozen: the caller gives up.
                    let _ = tokio::time::timeout(Duration::from_millis(5), mutex.lock()).await;
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended.unwrap();
        }
        server.thaw().unwrap();
        until("it answers again", async || locks.line("a").await.is_ok()).await;
        let calls = script_calls(&server) - before;
        println!("{asked:?} were asked in vain, {calls} calls were carried out");
        // The calls in flight on its two connections, and those that clean up after them.
        assert!(calls <= 4 * UNDER_WAY_MAX, "{calls} calls were carried out");
        soon("all are given back", locks.flush()).await;
    });
}

#[test]
fn a_caller_that_waits_costs_little_memory() {
    play(async || {
        const VERB_BYTES_MAX: usize = 8 * 1024;
        let server = Server::start().unwrap();
        let (store, ticket) = (store(&server.url()).await, ticket("a", LONG));
        for (verb, bytes) in [
            ("join", size_of_val(&store.join(&ticket, WaitMode::Wait))),
            ("renew", size_of_val(&store.renew(&ticket))),
            ("leave", size_of_val(&store.leave(&ticket, LeaveMode::Now))),
            ("line", size_of_val(&store.line(&ticket.key))),
        ] {
            println!("a caller of {verb} takes {bytes} bytes");
            assert!(bytes <= VERB_BYTES_MAX, "a caller of {verb} takes {bytes} bytes");
        }
    });
}

#[test]
fn memory_is_flat_while_the_server_stands_still() {
    play(async || {
        let server = Server::start().unwrap();
        Outage::of(&server.url()).runs("frozen", || server.freeze().unwrap());
    });
}

#[test]
fn memory_is_flat_while_nobody_listens() {
    play(async || {
        let server = Server::start().unwrap();
        Outage::of(&server.url()).runs("refusing", || server.kill().unwrap());
    });
}

#[test]
fn memory_is_flat_while_nothing_passes() {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        let url = format!("redis://{}", proxy.address());
        Outage::of(&url).runs("black-holed", || proxy.black_hole());
    });
}

#[test]
fn memory_is_flat_while_one_of_three_does_not_answer() {
    play(async || {
        type Trouble = fn(&Server, &Proxy);
        let troubles: [(&str, Trouble); 3] = [
            ("one of three frozen", |server, _| server.freeze().unwrap()),
            ("one of three refusing", |server, _| server.kill().unwrap()),
            ("one of three black-holed", |_, proxy| proxy.black_hole()),
        ];
        for (name, trouble) in troubles {
            let servers: Vec<Server> = (0..3).map(|_| Setup::new().start().unwrap()).collect();
            let proxy = proxy_to(&servers[2]);
            let third = if name.ends_with("holed") { proxy.port() } else { servers[2].port() };
            let (one, two) = (servers[0].port(), servers[1].port());
            let hosts = [one, two, third].map(|port| format!("127.0.0.1:{port}")).join(",");
            let url = format!("redlock://{hosts}?after_restart=trust");
            Outage { patience: Duration::from_secs(60), tasks: 8, ..Outage::of(&url) }
                .runs(name, || trouble(&servers[2], &proxy));
        }
    });
}

#[test]
fn memory_is_flat_while_a_node_of_a_cluster_stands_still() {
    play(async || {
        let cluster = Cluster::start().unwrap();
        let freeze = || cluster.nodes()[0].freeze().unwrap();
        Outage::of(&cluster.url()).runs("a node of a cluster frozen", freeze);
    });
}

#[test]
fn calls_of_a_silent_cluster_that_connect_first_leave_no_tasks_behind() {
    play(async || {
        let cluster = Cluster::start().unwrap();
        let store = Arc::new(cluster_store(&format!("{}?timeout=1s", cluster.url())).await);
        for node in cluster.nodes() {
            node.freeze().unwrap();
        }
        // Counts have a connection of their own, which is made for the first of them.
        let window = Some(Window { per: LONG, limit: None });
        let mut callers = JoinSet::new();
        for caller in 0..100 {
            let store = store.clone();
            callers.spawn(async move {
                let key = Key::new(format!("mails/{caller}")).unwrap();
                loop {
                    let counted = store.add(&key, 1, window).await;
                    assert_eq!(counted.unwrap_err().kind(), ErrorKind::Unavailable);
                    sleep(Duration::from_millis(100)).await;
                }
            });
        }
        // They call and pause in step: the most that there are in a whole round.
        let tasks = async || {
            let mut most = 0;
            for _ in 0..60 {
                most = most.max(Handle::current().metrics().num_alive_tasks());
                sleep(Duration::from_millis(50)).await;
            }
            most
        };
        sleep(Duration::from_secs(3)).await;
        let before = tasks().await;
        sleep(Duration::from_secs(6)).await;
        let after = tasks().await;
        println!("{before} tasks after 6 s, {after} after 15 s");
        assert!(after <= before + 50, "{before} tasks after 6 s, {after} after 15 s");
    });
}

/// Not a test: where the client's process begins.
#[test]
fn client_process() {
    Outage::be_client(connect);
}
