//! Callers on threads of their own: some stop polling in the middle of a verb, and many go on at
//! the same time.

#[path = "map/store.rs"]
mod store;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{join_all, join3};
use store::{Map, Shared};
use tenure_core::event::Scope;
use tenure_core::{
    BackgroundRuntime, BoxFuture, Clock, Engine as _, Key, LeaveMode, LeaveOutcome, Locks, Runtime,
    Share, Ticket, TicketState, Time, WaitMode, Wake, blocking::block_on,
};
use tenure_queue::SessionEngine;
use tokio::task::JoinSet;

const KEYS: usize = 3;
const CALLERS: usize = 16;
const ROUNDS: usize = 60;

/// A runtime on which ten seconds take 100 ms, half a minute as long, and two minutes five times
/// that.
struct Hasty(BackgroundRuntime);

impl Clock for Hasty {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn wall_us(&self) -> u64 {
        self.0.wall_us()
    }
}

impl Runtime for Hasty {
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        self.0.sleep(match duration.as_secs() {
            10 | 30 => Duration::from_millis(100),
            120 => Duration::from_millis(500),
            _ => duration,
        })
    }

    fn random(&self) -> u64 {
        self.0.random()
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.0.spawn(task);
    }
}

fn ticket() -> Ticket {
    Ticket::new(Key::new("k").unwrap(), Share::WHOLE)
}

fn queue() -> (Arc<Shared>, Arc<BackgroundRuntime>, SessionEngine<Map>) {
    let host = Arc::new(BackgroundRuntime::for_timers());
    let store = Shared::on(host.clone());
    let queue = SessionEngine::new(Map::connect(&store), host.clone());
    (store, host, queue)
}

#[test]
fn a_look_whose_caller_stands_still_keeps_nobody_else_from_looking() {
    let (store, _host, queue) = queue();
    let ticket = ticket();
    block_on(async {
        queue.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
        store.take_steps(true);
        // It is asked once, and then no more. It may have its answer by then.
        let mut still = pin!(queue.renew(&ticket));
        let _ = still.as_mut().now_or_never();
        let place = queue.renew(&ticket).await.unwrap().expect("it is in the line");
        assert_eq!(place.state, TicketState::Holding);
    });
}

#[test]
fn renewals_of_one_ticket_at_the_same_time_share_their_reads() {
    const RENEWALS: usize = 100;
    let (store, host, queue) = queue();
    let ticket = ticket();
    block_on(async {
        queue.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
        store.take_steps(true);
        // The runtime stands still until all have asked.
        let (asked, all_asked) = std::sync::mpsc::channel::<()>();
        host.spawn(Box::pin(async move {
            all_asked.recv().expect_err("the sender is dropped");
        }));
        let mut renewals = pin!(join_all((0..RENEWALS).map(|_| queue.renew(&ticket))));
        assert!(renewals.as_mut().now_or_never().is_none(), "they are under way");
        drop(asked);
        let renewals = renewals.await;
        assert!(renewals.iter().all(|renewed| matches!(renewed, Ok(Some(_)))));
    });
    // The first reads, and all others share the read after it.
    let reads = store.position_requests();
    assert!(reads <= 2, "{reads} reads for {RENEWALS} renewals");
}

#[test]
fn a_session_that_is_opened_by_a_caller_who_stands_still_is_there_for_the_others() {
    let (store, _host, queue) = queue();
    let (one, other) = (ticket(), Ticket { key: Key::new("other").unwrap(), ..ticket() });
    block_on(async {
        store.take_steps(true);
        let mut still = pin!(queue.join(&one, WaitMode::Wait));
        assert!(still.as_mut().now_or_never().is_none(), "it is under way");
        let place = queue.join(&other, WaitMode::Wait).await.unwrap().expect("it waits");
        assert_eq!(place.state, TicketState::Holding);
    });
}

#[test]
fn a_join_while_the_only_other_ticket_leaves_is_woken() {
    let (store, _host, queue) = queue();
    let (holder, next) = (ticket(), ticket());
    block_on(async {
        queue.join(&holder, WaitMode::Wait).await.unwrap().expect("it waits");
        store.take_steps(true);
        let mut leaving = pin!(queue.leave(&holder, LeaveMode::Now));
        assert!(leaving.as_mut().now_or_never().is_none(), "it is under way");
        store.take_steps(false);
        let place = queue.join(&next, WaitMode::Wait).await.unwrap().expect("it waits");
        assert_eq!(place.state, TicketState::Waiting);
        let told = Arc::new(WatchEvent(AtomicBool::new(false)));
        let waker = Waker::from(told.clone());
        let mut woken = pin!(queue.watch(&next, TicketState::Waiting));
        assert!(woken.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(leaving.await.unwrap(), LeaveOutcome::Holding);
        assert!(told.0.load(Ordering::SeqCst), "it need not wait until it looks by itself");
        assert_eq!(woken.await.unwrap(), Wake::Served(place.number));
    });
}

#[test]
fn an_onlooker_is_told_that_the_store_is_silent() {
    let host = Arc::new(Hasty(BackgroundRuntime::for_timers()));
    let store = Shared::on(host.clone());
    let (queue, pace) = (SessionEngine::new(Map::connect(&store), host.clone()), host);
    let scope = Scope::Prefix(String::new());
    block_on(async {
        store.be_deaf(true);
        let error = queue.events(&scope, None).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        store.be_deaf(false);
        let cursor = queue.events(&scope, None).await.unwrap().cursor;
        store.be_deaf(true);
        let error = queue.events(&scope, Some(cursor)).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        store.be_deaf(false);
        let joined = ticket();
        queue.join(&joined, WaitMode::Wait).await.unwrap().expect("it waits");
        // Until the next request or push, an onlooker gets the store's last answer.
        let news = loop {
            match queue.events(&scope, Some(cursor)).await {
                Ok(news) => break news,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
            pace.sleep(Duration::from_millis(10)).await;
        };
        assert_eq!(news.events[0].ticket.id, joined.id, "nothing was missed meanwhile");
    });
}

#[test]
fn a_store_is_not_followed_for_onlookers_who_have_gone_however_much_happens_in_it() {
    let host = Arc::new(Hasty(BackgroundRuntime::for_timers()));
    let store = Shared::on(host.clone());
    let [queue, other] = [(), ()].map(|()| SessionEngine::new(Map::connect(&store), host.clone()));
    block_on(async {
        queue.events(&Scope::Prefix(String::new()), None).await.unwrap();
        assert_eq!(store.followers(), 1);
        while store.followers() > 0 {
            let ticket = ticket();
            other.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
            other.leave(&ticket, LeaveMode::Now).await.unwrap();
            host.sleep(Duration::from_millis(50)).await;
        }
    });
}

#[test]
fn an_onlooker_misses_nothing_where_nothing_happens_however_much_happens_elsewhere() {
    /// More events than are kept.
    const TURNS: usize = 2_000;
    let (store, host, queue) = queue();
    let other = SessionEngine::new(Map::connect(&store), host.clone());
    let quiet = Scope::Prefix("quiet".into());
    block_on(async {
        let cursor = queue.events(&quiet, None).await.unwrap().cursor;
        let mut looks = pin!(queue.events(&quiet, Some(cursor)));
        for turn in 0..TURNS {
            let ticket = ticket();
            other.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
            other.leave(&ticket, LeaveMode::Now).await.unwrap();
            if turn % 50 == 0 {
                host.sleep(Duration::from_millis(5)).await;
                assert!(looks.as_mut().now_or_never().is_none(), "nothing happened there");
            }
        }
        let joined = Ticket { key: Key::new("quiet").unwrap(), ..ticket() };
        other.join(&joined, WaitMode::Wait).await.unwrap().expect("it waits");
        let news = looks.await.unwrap();
        assert!(!news.missed && news.events[0].ticket.id == joined.id);
    });
}

/// Tickets of one key with this share.
fn tickets(share: Share, count: usize) -> Vec<Ticket> {
    (0..count).map(|_| Ticket { share, ..ticket() }).collect()
}

#[test]
fn readers_who_would_not_wait_all_come_in_however_many_try_at_once() {
    let (store, _host, queue) = queue();
    let tries = tickets(Share::READER, 80);
    block_on(async {
        store.take_steps(true);
        let joins = tries.iter().map(|ticket| queue.join(ticket, WaitMode::NoWait));
        for place in join_all(joins).await {
            assert_eq!(place.unwrap().expect("others only read").state, TicketState::Holding);
        }
    });
}

#[test]
fn a_reader_who_would_not_wait_comes_in_behind_more_readers_than_one_page_has() {
    let (store, host, queue) = queue();
    let other = SessionEngine::new(Map::connect(&store), host);
    let reads = tickets(Share::READER, 150);
    block_on(async {
        for ticket in &reads {
            other.join(ticket, WaitMode::NoWait).await.unwrap().expect("others only read");
        }
        let (write, read) = (ticket(), &tickets(Share::READER, 1)[0]);
        let tried = queue.join(&write, WaitMode::NoWait).await.unwrap();
        assert_eq!(tried, None, "from now on this client looks first");
        let place = queue.join(read, WaitMode::NoWait).await.unwrap();
        assert_eq!(place.expect("others only read").state, TicketState::Holding);
        other.join(&write, WaitMode::Wait).await.unwrap().expect("it waits");
        let tried = queue.join(&tickets(Share::READER, 1)[0], WaitMode::NoWait).await.unwrap();
        assert_eq!(tried, None, "a writer waits");
        let line = other.line(&write.key).await.unwrap();
        assert_eq!(line.len(), reads.len() + 2, "nothing is left of refused tickets");
    });
}

#[test]
fn of_those_who_try_at_once_as_many_come_in_as_there_are_permits_and_the_others_leave_nothing() {
    const PERMITS: u32 = 4;
    let (store, _host, queue) = queue();
    let one = Share::new(1, PERMITS).unwrap();
    block_on(async {
        queue.join(&Ticket { share: one, ..ticket() }, WaitMode::Wait).await.unwrap();
        store.take_steps(true);
        let tries = tickets(one, 20);
        let places = join_all(tries.iter().map(|it| queue.join(it, WaitMode::NoWait))).await;
        let places = places.into_iter().map(Result::unwrap);
        let (served, turned_away): (Vec<_>, Vec<_>) =
            tries.iter().zip(places).partition(|(_, place)| place.is_some());
        assert_eq!(served.len(), PERMITS as usize - 1);
        for (ticket, place) in &served {
            assert_eq!(place.as_ref().unwrap().state, TicketState::Holding);
            assert!(queue.renew(ticket).await.unwrap().is_some());
        }
        for (ticket, _) in turned_away {
            assert_eq!(queue.renew(ticket).await.unwrap(), None);
            assert_eq!(queue.leave(ticket, LeaveMode::Now).await.unwrap(), LeaveOutcome::Absent);
        }
        assert_eq!(queue.line(&ticket().key).await.unwrap().len(), PERMITS as usize);
        assert_eq!(store.knows(), PERMITS as usize);
    });
}

#[test]
fn a_late_request_to_take_out_a_ticket_that_would_not_wait_does_not_take_it_out_when_it_holds() {
    let (store, host, queue) = queue();
    let others = SessionEngine::new(Map::connect(&store), host);
    let one = Share::new(1, 2).unwrap();
    let held = tickets(one, 2);
    let tries = Ticket { share: one, ..ticket() };
    block_on(async {
        for ticket in &held {
            others.join(ticket, WaitMode::Wait).await.unwrap().expect("it waits");
        }
        let arrives = store.hold_next_leave();
        let error = queue.join(&tries, WaitMode::NoWait).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        others.leave(&held[0], LeaveMode::Now).await.unwrap();
        // The join is repeated, as after each lost answer.
        let place = queue.join(&tries, WaitMode::NoWait).await.unwrap().expect("there is room");
        assert_eq!(place.state, TicketState::Holding);
        let before = queue.line(&tries.key).await.unwrap();
        arrives.arrive().await;
        assert_eq!(queue.line(&tries.key).await.unwrap().len(), before.len());
        assert!(queue.renew(&tries).await.unwrap().is_some(), "it holds");
    });
}

#[test]
fn callers_of_one_client_who_count_at_once_get_numbers_in_the_order_in_which_they_asked() {
    /// More than one request takes numbers for.
    const CALLERS: u64 = 1500;
    let (store, _host, queue) = queue();
    let key = Key::new("k").unwrap();
    block_on(async {
        store.take_steps(true);
        let blocks: Vec<u64> = (0..CALLERS).map(|caller| caller % 3 + 1).collect();
        let counts = join_all(blocks.iter().map(|by| queue.add(&key, *by, None))).await;
        let mut last = 0;
        for (by, count) in blocks.iter().zip(counts) {
            last += by;
            assert_eq!(count.unwrap().value, last);
        }
        assert_eq!(queue.add(&key, 0, None).await.unwrap().value, last);
    });
}

#[test]
fn clients_who_count_at_once_get_each_number_once_and_each_caller_ever_higher_ones() {
    let (store, host, queue) = queue();
    store.take_steps(true);
    let mut queues = vec![Arc::new(queue)];
    queues.resize_with(3, || Arc::new(SessionEngine::new(Map::connect(&store), host.clone())));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let mut given = runtime.block_on(async {
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS * queues.len() {
            let queue = queues[caller % queues.len()].clone();
            callers.spawn(async move {
                let (key, mut given) = (Key::new("k").unwrap(), Vec::new());
                for _ in 0..ROUNDS {
                    given.push(queue.add(&key, 1, None).await.unwrap().value);
                }
                assert!(given.is_sorted_by(|before, after| before < after), "{given:?}");
                given
            });
        }
        callers.join_all().await.concat()
    });
    given.sort_unstable();
    assert!(given.into_iter().eq(1..=(CALLERS * queues.len() * ROUNDS) as u64));
}

#[test]
fn two_who_listen_for_one_ticket_are_both_told() {
    let (store, host, queue) = queue();
    let others = SessionEngine::new(Map::connect(&store), host);
    let (holder, next) = (ticket(), ticket());
    block_on(async {
        others.join(&holder, WaitMode::Wait).await.unwrap().expect("it waits");
        let place = queue.join(&next, WaitMode::Wait).await.unwrap().expect("it waits");
        // The watch that both wait for is opened once.
        store.take_steps(true);
        let listen = || queue.watch(&next, TicketState::Waiting);
        let leave = async {
            store.take_steps(false);
            others.leave(&holder, LeaveMode::Now).await
        };
        let (one, other, left) = join3(listen(), listen(), leave).await;
        assert_eq!(left.unwrap(), LeaveOutcome::Holding);
        assert_eq!(
            (one.unwrap(), other.unwrap()),
            (Wake::Served(place.number), Wake::Served(place.number))
        );
    });
}

/// Whether a future was woken.
struct WatchEvent(AtomicBool);

impl std::task::Wake for WatchEvent {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn many_who_come_and_go_at_the_same_time_are_served_one_at_a_time_and_leave_nothing() {
    let (store, host, queue) = queue();
    store.take_steps(true);
    let locks = Locks::on(queue, host.clone());
    let held: Arc<[AtomicBool; KEYS]> = Arc::default();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (locks, held, host) = (locks.clone(), held.clone(), host.clone());
            callers.spawn(async move {
                for round in 0..ROUNDS {
                    let at = usize::try_from(host.random() % KEYS as u64).unwrap();
                    let lock = locks.mutex(format!("{at}"));
                    let patience = Duration::from_micros(host.random() % 2000);
                    let guard = if (caller + round) % 3 == 0 {
                        Some(lock.lock().await.unwrap())
                    } else {
                        // Its future is dropped wherever it is.
                        tokio::time::timeout(patience, lock.lock()).await.ok().map(Result::unwrap)
                    };
                    let Some(guard) = guard else { continue };
                    assert!(!held[at].swap(true, Ordering::SeqCst), "two are served at once");
                    tokio::task::yield_now().await;
                    held[at].store(false, Ordering::SeqCst);
                    if round % 2 == 0 {
                        guard.release().await.unwrap();
                    }
                }
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended.unwrap();
        }
        locks.flush().await;
        for at in 0..KEYS {
            assert_eq!(locks.line(format!("{at}")).await.unwrap().len(), 0, "of {at}");
        }
        assert_eq!(store.knows(), 0, "no ticket is known any more");
    });
}
