//! The operations that the crate asks of a store, also while the store stands still or loses
//! notices.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, join, join_all, select};
use tenure_conformance::sim::{SimHost, World};
use tenure_core::{
    Clock as _, Engine as _, ErrorKind, Key, LeaveMode, LeaveOutcome, Place, Reason, Runtime as _,
    Share, ThisRuntime, Ticket, TicketState, WaitMode, Wake,
};
use tenure_record::{POLL_MAX, RecordEngine, RecordStore as _, SWEEP_PAUSE};

use crate::store::{CALLS_MAX, Scripted};

/// More callers than a store has connections.
pub(crate) const CALLERS: usize = 40;
const TTL: Duration = Duration::from_secs(30);

pub(crate) struct Stage {
    pub(crate) store: Scripted,
    pub(crate) host: Arc<SimHost>,
    pub(crate) client: RecordEngine<Scripted>,
}

pub(crate) fn play<F: Future<Output = ()>>(pushes: bool, act: impl Fn(Stage) -> F) {
    for seed in 0..3 {
        World::run(seed, |world| {
            let (store, host) = (Scripted::on(world.store(), pushes), world.process());
            let client = store.client(host.clone());
            act(Stage { store, host, client })
        });
    }
}

pub(crate) fn ticket(key: &str) -> Ticket {
    Ticket { ttl: TTL, ..Ticket::new(Key::new(key).unwrap(), Share::WHOLE) }
}

/// Whether this is pending after a moment.
pub(crate) async fn is_pending<F: Future + Unpin>(host: &SimHost, future: &mut F) -> bool {
    matches!(select(future, host.sleep(Duration::from_millis(1))).await, Either::Right(_))
}

async fn join_as(client: &RecordEngine<Scripted>, ticket: &Ticket) -> Place {
    client.join(ticket, WaitMode::Wait).await.unwrap().expect("it waits")
}

#[test]
fn a_free_lock_its_renewal_and_its_release_cost_one_operation_each() {
    play(true, async |Stage { store, host, client }: Stage| {
        for round in 1..=2 {
            let ticket = ticket("k");
            let place = join_as(&client, &ticket).await;
            assert_eq!((place.state, place.life), (TicketState::Holding, Some(TTL)));
            let record = store.read(&ticket.key).await.unwrap().record.expect("it is there");
            assert_eq!((record.holder, record.last), (place.number, place.number));
            host.sleep(TTL / 2).await;
            let renewed = client.renew(&ticket).await.unwrap().expect("it holds");
            assert_eq!(renewed, place);
            let (_, listed) = client.line(&ticket.key).await.unwrap().remove(0);
            assert_eq!(listed, place, "the whole ttl again");
            assert_eq!(client.leave(&ticket, LeaveMode::Now).await.unwrap(), LeaveOutcome::Holding);
            let counts = (store.lone_steps.load(SeqCst), store.steps.load(SeqCst));
            assert_eq!(counts, (3 * round, 3 * round));
        }
    });
}

#[test]
fn what_a_hundred_tasks_ask_at_once_goes_in_a_few_steps() {
    play(true, async |Stage { store, client, .. }: Stage| {
        let tickets: Vec<_> = (0..100).map(|_| ticket("k")).collect();
        let places = join_all(tickets.iter().map(|ticket| join_as(&client, ticket))).await;
        let steps = store.steps.load(SeqCst);
        assert!(steps <= 3, "64 at a time: {steps}");
        let holders = places.iter().filter(|place| place.state == TicketState::Holding).count();
        assert_eq!(holders, 1);
        join_all(tickets.iter().map(|ticket| client.renew(ticket))).await;
        assert!(store.steps.load(SeqCst) <= 5);
    });
}

#[test]
fn forty_callers_of_a_store_that_stands_still_get_an_error_and_occupy_its_connections_only() {
    for keys in [1, CALLERS] {
        play(true, async |Stage { store, host, client }: Stage| {
            store.freeze(true);
            let tickets: Vec<_> =
                (0..CALLERS).map(|at| ticket(&format!("{}", at % keys))).collect();
            let began = host.now();
            let joins = tickets.iter().map(|ticket| client.join(ticket, WaitMode::Wait));
            for refused in join_all(joins).await {
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
            }
            let took = began.until(host.now());
            let within = client.guarantees().answers_within;
            assert!(took <= within + Duration::from_millis(1), "{took:?}");
            assert!(store.in_flight_max.load(SeqCst) <= CALLS_MAX.min(keys));
            store.freeze(false);
            // The abandoned requests are not sent when the store is back.
            let sent = store.steps.load(SeqCst);
            let key = ticket("later").key;
            assert_eq!(client.line(&key).await.unwrap().len(), 0);
            let place = join_as(&client, &ticket("later")).await;
            assert_eq!(place.state, TicketState::Holding);
            let more = store.steps.load(SeqCst) - sent;
            assert!(more <= 1 + CALLS_MAX.min(keys), "{more}");
        });
    }
}

#[test]
fn more_requests_for_a_line_than_may_wait_are_refused_at_once() {
    play(true, async |Stage { store, host, client }: Stage| {
        store.freeze(true);
        let tickets: Vec<_> = (0..1200).map(|_| ticket("k")).collect();
        let began = host.now();
        let refused = join_all(tickets.iter().map(async |ticket| {
            let error = client.join(ticket, WaitMode::Wait).await.unwrap_err();
            (error.to_string(), began.until(host.now()))
        }));
        let refused = refused.await;
        let at_once = refused.iter().filter(|(_, after)| after.is_zero());
        assert!(at_once.clone().count() >= 1200 - 1024 - 64);
        assert!(
            at_once.clone().all(|(error, _)| error.contains("1024 requests of this client wait"))
        );
    });
}

#[test]
fn a_request_whose_caller_has_gone_is_not_sent() {
    play(true, async |Stage { store, client, .. }: Stage| {
        store.freeze(true);
        let (first, gone) = (ticket("k"), ticket("k"));
        let mut first = Box::pin(join_as(&client, &first));
        assert!(first.as_mut().now_or_never().is_none());
        let second = client.join(&gone, WaitMode::Wait);
        assert!(second.now_or_never().is_none());
        store.freeze(false);
        first.await;
        assert_eq!(client.line(&gone.key).await.unwrap().len(), 1);
    });
}

#[test]
fn a_waiter_of_another_client_is_woken_by_a_notice_and_without_one_by_a_poll() {
    for pushes in [true, false] {
        play(pushes, async |Stage { store, host, client }: Stage| {
            let other = store.client(host.clone());
            let (holds, waits) = (ticket("k"), ticket("k"));
            join_as(&client, &holds).await;
            let place = join_as(&other, &waits).await;
            let woken = other.watch(&waits, TicketState::Waiting);
            let released = async {
                host.sleep(Duration::from_secs(20)).await;
                let reads = store.reads.load(SeqCst);
                assert!(if pushes { reads <= 3 } else { reads <= 60 }, "{reads} reads in 20 s");
                client.leave(&holds, LeaveMode::Now).await.unwrap();
                host.now()
            };
            let (woken, at) = join(woken, released).await;
            let served = if pushes { Wake::Served(place.number) } else { Wake::Look };
            assert_eq!(woken.unwrap(), served);
            let after = at.until(host.now());
            let most = if pushes { Duration::from_millis(1) } else { POLL_MAX };
            assert!(after <= most, "{after:?}");
        });
    }
}

/// As while a transaction holds the line for the last holder, of which a read does not know.
#[test]
fn a_waiter_whose_reads_find_what_its_steps_refuse_polls_ever_less() {
    play(false, async |Stage { store, host, client }: Stage| {
        let (holds, waits) = (ticket("k"), ticket("k"));
        join_as(&client, &holds).await;
        join_as(&client, &waits).await;
        store.decides_twice.store(true, SeqCst);
        client.leave(&holds, LeaveMode::Now).await.unwrap();
        let (began, before) = (host.now(), store.steps.load(SeqCst));
        while began.until(host.now()) < Duration::from_secs(20) {
            assert_eq!(client.watch(&waits, TicketState::Waiting).await.unwrap(), Wake::Look);
            let place = client.renew(&waits).await.unwrap().expect("it is in the line");
            assert_eq!(place.state, TicketState::Waiting);
        }
        let steps = store.steps.load(SeqCst) - before;
        assert!(steps <= 60, "{steps} steps in 20 s");
    });
}

#[test]
fn after_notices_were_lost_a_waiter_looks_at_its_line_and_the_client_listens_again() {
    play(true, async |Stage { store, host, client }: Stage| {
        let other = store.client(host.clone());
        let (holds, waits) = (ticket("k"), ticket("k"));
        join_as(&client, &holds).await;
        join_as(&other, &waits).await;
        let woken = other.watch(&waits, TicketState::Waiting);
        let released = async {
            host.sleep(Duration::from_secs(1)).await;
            store.cut();
            client.leave(&holds, LeaveMode::Now).await.unwrap();
            host.now()
        };
        let (woken, at) = join(woken, released).await;
        assert_eq!(woken.unwrap(), Wake::Look);
        assert!(at.until(host.now()) <= POLL_MAX);
        other.renew(&waits).await.unwrap();
        let still = other.watch(&waits, TicketState::Holding);
        let asked = async {
            host.sleep(Duration::from_secs(1)).await;
            client.leave(&waits, LeaveMode::Graceful).await.unwrap();
            host.now()
        };
        let (woken, at) = join(still, asked).await;
        assert_eq!(woken.unwrap(), Wake::Look);
        assert_eq!((at.until(host.now()), store.listens.load(SeqCst)), (Duration::ZERO, 2));
    });
}

#[test]
fn a_client_listens_while_it_watches_and_ends_that_five_seconds_later() {
    play(true, async |Stage { store, host, client }: Stage| {
        let other = store.client(host.clone());
        let (holds, waits) = (ticket("k"), ticket("k"));
        join_as(&client, &holds).await;
        join_as(&other, &waits).await;
        assert_eq!(store.listens.load(SeqCst), 0, "no ticket is watched");
        for listens in 1..=2 {
            for _ in 0..3 {
                let watch = other.watch(&waits, TicketState::Waiting);
                let rest = host.sleep(Duration::from_secs(4));
                select(Box::pin(watch), rest).await;
            }
            assert_eq!(store.listens.load(SeqCst), listens);
            host.sleep(Duration::from_secs(6)).await;
            other.renew(&waits).await.unwrap();
            client.renew(&holds).await.unwrap();
        }
    });
}

#[test]
fn no_further_ticket_is_served_before_the_time_that_the_store_gives() {
    play(true, async |Stage { store, host, client }: Stage| {
        let (holds, waits, new) = (ticket("k"), ticket("k"), ticket("free"));
        let first = join_as(&client, &holds).await;
        join_as(&client, &waits).await;
        let now_us = store.read(&holds.key).await.unwrap().now_us;
        store.serve_from_us.store(now_us + 20_000_000, SeqCst);
        // Holders go on; a free lock and a release serve no ticket.
        assert_eq!(client.renew(&holds).await.unwrap().unwrap().state, TicketState::Holding);
        let place = join_as(&client, &new).await;
        assert_eq!(place.state, TicketState::Waiting);
        assert_eq!(place.look, Some(Duration::from_secs(20)));
        assert!(client.join(&ticket("try"), WaitMode::NoWait).await.unwrap().is_none());
        assert_eq!(client.leave(&holds, LeaveMode::Now).await.unwrap(), LeaveOutcome::Holding);
        let place = client.renew(&waits).await.unwrap().unwrap();
        assert_eq!(
            (place.state, place.look),
            (TicketState::Waiting, Some(Duration::from_secs(20)))
        );
        let record = store.read(&waits.key).await.unwrap().record.unwrap();
        assert_eq!(record.holder, 0);
        assert_eq!(
            client.leave(&new, LeaveMode::Graceful).await.unwrap(),
            LeaveOutcome::Waiting,
            "a ticket that is not served is removed at once"
        );
        host.sleep(Duration::from_secs(20)).await;
        let place = client.renew(&waits).await.unwrap().unwrap();
        assert_eq!(place.state, TicketState::Holding);
        assert!(place.number > first.number);
        let record = store.read(&waits.key).await.unwrap().record.unwrap();
        assert_eq!(record.holder, place.number);
    });
}

#[test]
fn the_first_ticket_that_is_not_served_yet_looks_for_all() {
    play(true, async |Stage { store, host, client }: Stage| {
        let now_us = store.read(&ticket("k").key).await.unwrap().now_us;
        store.serve_from_us.store(now_us + 20_000_000, SeqCst);
        let reader = || Ticket { share: Share::new(1, 9).unwrap(), ..ticket("k") };
        let [first, second] = [reader(), reader()];
        let looks = [join_as(&client, &first).await.look, join_as(&client, &second).await.look];
        assert_eq!(looks, [20, 160].map(|seconds| Some(Duration::from_secs(seconds))));
        let woken = client.watch(&second, TicketState::Waiting);
        let look = async {
            host.sleep(Duration::from_secs(20)).await;
            client.renew(&first).await.unwrap().unwrap()
        };
        let (woken, first) = join(woken, look).await;
        assert_eq!(first.state, TicketState::Holding);
        assert!(matches!(woken.unwrap(), Wake::Served(number) if number > first.number));
    });
}

#[test]
fn records_without_tickets_are_deleted_and_later_numbers_are_larger() {
    play(true, async |Stage { store, host, client }: Stage| {
        let (left, died) = (ticket("left"), ticket("died"));
        let numbers = join(join_as(&client, &left), join_as(&client, &died)).await;
        client.leave(&left, LeaveMode::Now).await.unwrap();
        host.sleep(SWEEP_PAUSE * 2).await;
        join_as(&client, &ticket("alive")).await;
        host.sleep(Duration::from_secs(1)).await;
        for key in [&left.key, &died.key] {
            assert!(store.read(key).await.unwrap().record.is_none(), "{key}");
        }
        assert_eq!(client.keys("").await.unwrap().len(), 1);
        let again =
            join(join_as(&client, &ticket("left")), join_as(&client, &ticket("died"))).await;
        assert!(again.0.number > numbers.0.number && again.1.number > numbers.1.number);
    });
}

#[test]
fn a_record_of_a_newer_version_is_refused_and_stays_as_it_is() {
    play(true, async |Stage { store, client, .. }: Stage| {
        let holds = ticket("k");
        join_as(&client, &holds).await;
        let before = store.read(&holds.key).await.unwrap().record;
        store.format.store(2, SeqCst);
        for refused in [
            client.join(&ticket("k"), WaitMode::Wait).await.unwrap_err(),
            client.renew(&holds).await.unwrap_err(),
            client.leave(&holds, LeaveMode::Now).await.unwrap_err(),
            client.line(&holds.key).await.unwrap_err(),
        ] {
            assert_eq!(refused.reason(), Some(Reason::UnreadableTicket));
            assert_eq!(refused.key(), Some(&holds.key));
        }
        store.format.store(0, SeqCst);
        assert_eq!(store.read(&holds.key).await.unwrap().record, before);
    });
}

#[test]
fn a_read_serves_no_ticket_because_the_record_still_names_the_holder_before() {
    play(false, async |Stage { store, host, client }: Stage| {
        let other = store.client(host.clone());
        let brief = Ticket { ttl: Duration::from_secs(1), ..ticket("k") };
        let (first, waits) = (join_as(&client, &brief).await, ticket("k"));
        join_as(&other, &waits).await;
        assert_eq!(other.watch(&waits, TicketState::Waiting).await.unwrap(), Wake::Look);
        let holder = async || store.read(&waits.key).await.unwrap().record.unwrap().holder;
        assert_eq!(holder().await, first.number);
        let place = other.renew(&waits).await.unwrap().unwrap();
        assert_eq!((place.state, place.number), (TicketState::Holding, holder().await));
    });
}

#[test]
fn a_waiter_of_the_same_client_looks_if_the_answer_to_a_release_is_lost() {
    play(true, async |Stage { store, host, client }: Stage| {
        let (holds, waits) = (ticket("k"), ticket("k"));
        join_as(&client, &holds).await;
        join_as(&client, &waits).await;
        let woken = client.watch(&waits, TicketState::Waiting);
        let released = async {
            host.sleep(Duration::from_secs(1)).await;
            store.loses_answer.store(true, SeqCst);
            client.leave(&holds, LeaveMode::Now).await.unwrap_err();
            host.now()
        };
        let (woken, at) = join(woken, released).await;
        assert_eq!(woken.unwrap(), Wake::Look);
        assert_eq!(at.until(host.now()), Duration::ZERO);
    });
}

#[test]
fn a_waiter_is_not_told_of_a_decision_whose_write_was_refused() {
    play(true, async |Stage { store, host, client }: Stage| {
        let other = store.client(host.clone());
        let brief = Ticket { ttl: Duration::from_secs(1), ..ticket("k") };
        let waits = ticket("k");
        join_as(&other, &brief).await;
        join_as(&client, &waits).await;
        host.sleep(Duration::from_secs(2)).await;
        // A look finds that the holder has expired, and serves no ticket.
        assert_eq!(client.watch(&waits, TicketState::Waiting).await.unwrap(), Wake::Look);
        store.decides_twice.store(true, SeqCst);
        let place = client.renew(&waits).await.unwrap().unwrap();
        assert_eq!((place.state, place.ahead), (TicketState::Waiting, 0));
        // The first decision serves the waiter, and the second changes nothing.
        assert_eq!(client.join(&ticket("k"), WaitMode::NoWait).await.unwrap(), None);
        let mut watch = Box::pin(client.watch(&waits, TicketState::Waiting));
        assert!(is_pending(&host, &mut watch).await, "the store has served no ticket");
    });
}

#[test]
fn each_watch_reports_a_request_to_leave_whose_notice_was_lost() {
    play(true, async |Stage { store, host, client }: Stage| {
        let other = store.client(host.clone());
        let holds = ticket("k");
        join_as(&client, &holds).await;
        // The client does not listen yet.
        other.leave(&holds, LeaveMode::Graceful).await.unwrap();
        for _ in 0..2 {
            let watch = client.watch(&holds, TicketState::Holding).await;
            assert_eq!(watch.unwrap(), Wake::Look);
        }
    });
}

#[test]
fn a_store_whose_channel_ends_at_once_is_asked_to_listen_less_and_less() {
    play(true, async |Stage { store, host, client }: Stage| {
        let other = store.client(host.clone());
        let (holds, waits) = (ticket("k"), ticket("k"));
        join_as(&client, &holds).await;
        join_as(&other, &waits).await;
        store.ends_channels.store(true, SeqCst);
        let watch = other.watch(&waits, TicketState::Waiting);
        let rest = host.sleep(Duration::from_secs(25));
        select(Box::pin(watch), rest).await;
        let listens = store.listens.load(SeqCst);
        assert!(listens < 20, "{listens} times in 25 s");
    });
}

#[test]
fn a_client_that_closes_waits_for_its_operations_and_sends_no_more() {
    play(true, async |Stage { store, host, client }: Stage| {
        store.freeze(true);
        let holds = ticket("k");
        let mut joins = Box::pin(client.join(&holds, WaitMode::Wait));
        assert!(is_pending(&host, &mut joins).await);
        let mut closes = Box::pin(client.close());
        assert!(is_pending(&host, &mut closes).await, "an operation is in flight");
        store.freeze(false);
        let (joined, ()) = join(joins, closes).await;
        joined.unwrap();
        let sent = store.steps.load(SeqCst);
        assert_eq!(client.renew(&holds).await.unwrap_err().reason(), Some(Reason::Closed));
        assert_eq!(client.line(&holds.key).await.unwrap_err().reason(), Some(Reason::Closed));
        assert_eq!(store.steps.load(SeqCst), sent);
    });
}

#[test]
fn a_request_that_comes_as_a_batch_ends_is_answered() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let host = Arc::new(ThisRuntime::new());
        let client = Arc::new(Scripted::on(host.clone(), true).client(host));
        let callers = (0..4).map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..5_000 {
                    assert!(client.renew(&ticket("k")).await.unwrap().is_none());
                }
            })
        });
        for caller in join_all(callers).await {
            caller.unwrap();
        }
    });
}
