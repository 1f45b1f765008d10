//! A cluster is being changed: slots move while locks are held, and nodes die.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_core::{
    Engine as _, ErrorKind, Key, LeaveMode, Locks, MutexGuard, Ticket, TicketState, WaitMode,
};
use tenure_redis::RedisCluster;
use tenure_servers::redis::{Cluster, Server};
use tokio::task::{JoinHandle, JoinSet};

use super::stage::{
    LONG, assert_refused, cluster_store, connect, head, play, soon, ticket, until, until_line,
};

/// A waiter that could not look while its line was on its way tries again after a twelfth of this.
const TTL: Duration = Duration::from_secs(60);

/// Waits in the line, and repeats the call while the cluster reports that the line is being moved.
fn waiting(locks: &Locks, key: &str) -> JoinHandle<MutexGuard> {
    let mutex = locks.mutex(key).ttl(TTL);
    tokio::spawn(async move {
        loop {
            match mutex.lock().await {
                Ok(guard) => return guard,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    assert!(error.to_string().contains("is being changed"), "{error}");
                }
            }
        }
    })
}

fn another<'a>(cluster: &'a Cluster, than: &Server) -> &'a Server {
    cluster.nodes().iter().find(|it| it.port() != than.port()).unwrap()
}

#[test]
fn a_lock_that_is_alone_is_kept_and_given_while_its_slot_moves() {
    play(async || {
        let cluster = Cluster::start().unwrap();
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let slot = cluster.slot_of(&head("a")).unwrap();
        let to = another(&cluster, cluster.owner_of(slot).unwrap());
        let mut guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let mut step = async |what: &str| {
            guard.extend().await.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(other.mutex("a").try_lock().await.unwrap().is_none(), "{what}");
            let token = guard.token();
            // Releases one lock, and takes another.
            let held = guard.handle();
            let free = locks.mutex("free").lock().await.unwrap();
            std::mem::replace(&mut guard, free).release().await.unwrap();
            assert!(held.check().is_err());
            let next = other.mutex("a").ttl(LONG).lock().await.unwrap();
            assert!(next.token() > token, "{what}");
            assert_eq!(other.line("a").await.unwrap().len(), 1, "{what}");
            std::mem::replace(&mut guard, next).release().await.unwrap();
        };
        step("before it moves").await;
        let relocation = cluster.relocate(slot, to).unwrap();
        step("when it begins to move").await;
        relocation.carry().unwrap();
        step("when the line has moved").await;
        relocation.finish().unwrap();
        step("when the slot has moved").await;
        assert_eq!(locks.keys("").await.unwrap().len(), 1);
    });
}

#[test]
fn who_waits_while_a_slot_moves_is_served_on_the_other_side() {
    play(async || {
        for carried_before in [false, true] {
            let cluster = Cluster::start().unwrap();
            let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
            let slot = cluster.slot_of(&head("a")).unwrap();
            let to = another(&cluster, cluster.owner_of(slot).unwrap());
            let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
            let waiter = waiting(&other, "a");
            until_line(&locks, "a", 2).await;
            let relocation = cluster.relocate(slot, to).unwrap();
            if carried_before {
                relocation.carry().unwrap();
            }
            let late = waiting(&other, "a");
            assert_refused(guard.extend().await, ErrorKind::Unavailable, &["is being changed"]);
            guard.check().unwrap();
            relocation.finish().unwrap();
            until_line(&locks, "a", 3).await;
            let token = guard.token();
            guard.release().await.unwrap();
            let second = soon("the waiter is served", waiter).await.unwrap();
            assert!(second.token() > token);
            second.release().await.unwrap();
            soon("the late one is served", late).await.unwrap().release().await.unwrap();
            assert!(locks.keys("").await.unwrap().is_empty());
        }
    });
}

#[test]
fn a_line_that_is_carried_over_in_pieces_stays_whole() {
    play(async || {
        let cluster = Cluster::start().unwrap();
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        for (key, first) in [("a", ""), ("b", ":l"), ("c", ":e"), ("d", ":t")] {
            let slot = cluster.slot_of(&head(key)).unwrap();
            let from = cluster.owner_of(slot).unwrap();
            let to = another(&cluster, from);
            let guard = locks.mutex(key).ttl(LONG).lock().await.unwrap();
            let mut waiters = Vec::new();
            for count in 2..=4 {
                waiters.push(waiting(&other, key));
                until_line(&locks, key, count).await;
            }
            let relocation = cluster.relocate(slot, to).unwrap();
            let there = to.port().to_string();
            let moves = ["MIGRATE", "127.0.0.1", &there, &(head(key) + first), "0", "5000"];
            from.command(&moves).unwrap();
            let late = waiting(&locks, key);
            for asked in [guard.extend().await, locks.line(key).await.map(drop)] {
                assert_refused(asked, ErrorKind::Unavailable, &["is being changed"]);
            }
            relocation.finish().unwrap();
            until_line(&locks, key, 5).await;
            let mut newest = guard.token();
            guard.release().await.unwrap();
            for waiter in waiters.into_iter().chain([late]) {
                let served = soon("it is served", waiter).await.unwrap();
                assert!(served.token() > newest);
                newest = served.token();
                assert_eq!(locks.line(key).await.unwrap()[0].id, served.id());
                served.release().await.unwrap();
            }
        }
    });
}

#[test]
fn no_answer_goes_to_another_question_while_slots_move() {
    play(async || {
        const LINES: usize = 12;
        const COUNTERS: usize = 32;
        let cluster = Cluster::start().unwrap();
        let store = Arc::new(cluster_store(&cluster.url()).await);
        let (from, to) = (&cluster.nodes()[0], &cluster.nodes()[1]);
        let is_there = |part: &str, key: &String| {
            let slot = cluster.slot_of(&(head(key) + part)).unwrap();
            cluster.owner_of(slot).unwrap().port() == from.port()
        };
        // `LINES` lines have a waiter, so the engine subscribes to the channel of each.
        let lines = (0..).map(|number| format!("line {number}")).filter(|it| is_there("", it));
        let lines: Vec<String> = lines.take(LINES).collect();
        let mut watchers = JoinSet::new();
        for line in &lines {
            let (holder, waiter) = (ticket(line, LONG), ticket(line, LONG));
            store.join(&holder, WaitMode::Wait).await.unwrap();
            store.join(&waiter, WaitMode::Wait).await.unwrap();
            let store = store.clone();
            watchers.spawn(async move {
                loop {
                    // A wake is only a hint, and may have no cause.
                    let _ = store.watch(&waiter, TicketState::Waiting).await;
                    tokio::task::yield_now().await;
                }
            });
        }
        until("all channels are open", async || {
            let channels = from.command(&["PUBSUB", "SHARDCHANNELS"]).unwrap();
            channels.list().unwrap().len() == LINES
        })
        .await;
        // Others count meanwhile at the same server: each has numbers of its own.
        let over = Arc::new(AtomicBool::new(false));
        let counts = (0..).map(|number| format!("count {number}")).filter(|it| is_there(":n", it));
        let mut counters = JoinSet::new();
        for (by, key) in (1000..).zip(counts.take(COUNTERS)) {
            let (store, over) = (store.clone(), over.clone());
            let key = Key::new(key).unwrap();
            counters.spawn(async move {
                let mut last = 0;
                while !over.load(Ordering::Relaxed) {
                    match store.add(&key, by, None).await {
                        Ok(count) => {
                            assert!(count.value > last, "{} came after {last}", count.value);
                            assert_eq!(count.value % by, 0, "{} is another's", count.value);
                            last = count.value;
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
                    }
                }
            });
        }
        for line in &lines {
            let slot = cluster.slot_of(&head(line)).unwrap();
            cluster.relocate(slot, to).unwrap().finish().unwrap();
        }
        over.store(true, Ordering::Relaxed);
        while let Some(ended) = soon("they end", counters.join_next()).await {
            ended.unwrap();
        }
    });
}

#[test]
fn channels_where_nobody_waits_any_more_are_given_up() {
    channels_are_given_up(LONG, &async |store, waiter| {
        store.leave(waiter, LeaveMode::Now).await.unwrap();
    });
}

#[test]
fn channels_of_tickets_that_ended_by_themselves_are_given_up() {
    // As if their owner gave up the leave while no server answered.
    channels_are_given_up(Duration::from_millis(200), &async |_, _| {});
}

/// Waits in `LINES` lines, one after the other. Each ticket has this ttl, and each wait ends by
/// `ends`.
fn channels_are_given_up(ttl: Duration, ends: &impl AsyncFn(&RedisCluster, &Ticket)) {
    play(async || {
        // More than may stay subscribed.
        const LINES: usize = 300;
        let cluster = Cluster::start().unwrap();
        let store = cluster_store(&cluster.url()).await;
        let subscribed = |names: &str| {
            let of = |node: &Server| {
                node.command(&["PUBSUB", "SHARDCHANNELS", names]).unwrap().list().unwrap().len()
            };
            cluster.nodes().iter().map(of).sum::<usize>()
        };
        for count in 0..LINES {
            let (holder, waiter) =
                (ticket(&format!("{count}"), LONG), ticket(&format!("{count}"), ttl));
            store.join(&holder, WaitMode::Wait).await.unwrap();
            store.join(&waiter, WaitMode::Wait).await.unwrap();
            // Other channels are closed meanwhile, so only this line's channel is counted.
            let own = head(&format!("{count}")) + ":*";
            let watching = store.watch(&waiter, TicketState::Waiting);
            tokio::select! {
                _ = watching => {}
                () = until("the channel is open", async || subscribed(&own) == 1) => {}
            }
            ends(&store, &waiter).await;
            store.leave(&holder, LeaveMode::Now).await.unwrap();
        }
        until("the idle ones are given up", async || subscribed("*") < LINES / 2).await;
    });
}

#[test]
fn a_node_that_dies_leaves_its_locks_to_its_replica() {
    play(async || {
        let cluster = Cluster::with_replicas(1).unwrap();
        let url = format!("{}?acks=1&timeout=1s&connect_timeout=500ms", cluster.url());
        let plain = format!("{}?timeout=1s&connect_timeout=500ms", cluster.url());
        let (locks, other) = (connect(&url).await, connect(&plain).await);
        let guard = locks.mutex("a").ttl(TTL).lock().await.unwrap();
        let slot = cluster.slot_of(&head("a")).unwrap();
        let owner = cluster.owner_of(slot).unwrap();
        owner.kill().unwrap();
        cluster.next_owner(slot, owner).unwrap();
        until("the line is there again", async || {
            other.line("a").await.is_ok_and(|line| line.len() == 1 && line[0].id == guard.id())
        })
        .await;
        guard.check().unwrap();
        let asked = other.mutex("a").try_lock().await;
        assert!(asked.unwrap().is_none());
        let token = guard.token();
        until("it is released", async || match other.force_unlock("a", guard.id()).await {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                false
            }
        })
        .await;
        let next = soon("it is free", other.mutex("a").lock()).await.unwrap();
        assert!(next.token() > token);
    });
}
