//! The waiters of a quorum have a line: only the first attempts to hold, when it is notified.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, join, join_all, select};
use tenure_conformance::fault::{Distant, Network, Spied, Verb, Weather};
use tenure_conformance::sim::{SimHost, World};
use tenure_core::layers::{AnyEngine, Quorum};
use tenure_core::*;

const STORES: usize = 3;
const PATIENCE: Duration = Duration::from_millis(50);

/// Three stores and three lines of waiters, each behind a network of its own.
struct Stage {
    /// The quorum of the first client.
    quorum: Quorum,
    stores: Vec<Memory>,
    /// Joins at the stores.
    joins: Arc<AtomicUsize>,
    /// Reads of a line.
    looks: Arc<AtomicUsize>,
    turns: Vec<(Memory, Network)>,
}

impl Stage {
    fn new(world: &World) -> Self {
        let (joins, looks) = Default::default();
        let memory = || Memory::with_clock((*world.store()).clone());
        let stores: Vec<_> = (0..STORES).map(|_| memory()).collect();
        let turns: Vec<_> = (0..STORES).map(|_| (memory(), Network::new(Weather::STILL))).collect();
        let quorum = quorum(world, &world.process(), (&stores, &joins), (&turns, &looks));
        Self { quorum, stores, joins, looks, turns }
    }

    /// Another client of the same stores.
    fn client(&self, world: &World) -> Locks {
        let (host, turns) = (world.process(), (&self.turns[..], &self.looks));
        Locks::on(quorum(world, &host, (&self.stores, &self.joins), turns), host)
    }

    async fn wait(&self, ticket: &Ticket) {
        let place = self.quorum.join(ticket, WaitMode::Wait).await.unwrap().unwrap();
        assert_eq!(place.state, TicketState::Waiting);
    }

    /// A ticket that holds, and those that wait for it.
    async fn held<const WAITERS: usize>(&self) -> (Ticket, [Ticket; WAITERS]) {
        let (holder, waiters) = (ticket(), [(); WAITERS].map(|()| ticket()));
        self.quorum.join(&holder, WaitMode::Wait).await.unwrap().unwrap();
        for waiter in &waiters {
            self.wait(waiter).await;
        }
        (holder, waiters)
    }

    async fn renewed(&self, ticket: &Ticket) -> TicketState {
        self.quorum.renew(ticket).await.unwrap().unwrap().state
    }

    /// The number of joins of `work`.
    async fn joins_of<T>(&self, work: impl Future<Output = T>) -> (usize, T) {
        let before = self.joins.load(Ordering::Relaxed);
        let done = work.await;
        (self.joins.load(Ordering::Relaxed) - before, done)
    }

    async fn stand_in(&self, store: usize) -> usize {
        self.turns[store].0.line(&key()).await.unwrap().len()
    }
}

type Count = Arc<AtomicUsize>;

fn quorum(
    world: &World,
    host: &Arc<SimHost>,
    (stores, joins): (&[Memory], &Count),
    (turns, looks): (&[(Memory, Network)], &Count),
) -> Quorum {
    let counting = |engine: AnyEngine, verb: Verb, count: &Count| {
        let count = count.clone();
        AnyEngine::new(Spied::new(engine, move |asked| {
            count.fetch_add(usize::from(asked.verb == verb), Ordering::Relaxed);
        }))
    };
    let stores =
        stores.iter().map(|memory| counting(AnyEngine::new(memory.clone()), Verb::Join, joins));
    let lines = turns
        .iter()
        .map(|(memory, network)| counting(far(world, host, memory, network), Verb::Line, looks));
    Quorum::new(stores, host.clone(), PATIENCE).unwrap().with_turns(lines)
}

fn far(world: &World, host: &Arc<SimHost>, memory: &Memory, network: &Network) -> AnyEngine {
    let (memory, network) = (memory.clone(), network.clone());
    AnyEngine::new(Distant::new(memory, world.store(), host.clone(), network, PATIENCE))
}

fn key() -> Key {
    Key::new("k").unwrap()
}

fn ticket() -> Ticket {
    Ticket {
        id: TicketId::fresh(),
        key: key(),
        share: Share::WHOLE,
        ttl: Duration::from_secs(10),
        owner: Owner::shortened(""),
        note: Note::default(),
        floor: 0,
    }
}

#[test]
fn only_the_first_of_a_hundred_tries() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let (_holder, waiters) = stage.held::<100>().await;
        let all_renew = async {
            for waiter in &waiters {
                assert_eq!(stage.renewed(waiter).await, TicketState::Waiting);
            }
        };
        let (joins, ()) = stage.joins_of(all_renew).await;
        assert_eq!(joins, STORES, "one of them joined once");
    });
}

#[test]
fn a_leave_notifies_the_next_which_holds_at_its_first_attempt() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let (holder, [first, second]) = stage.held().await;
        assert_eq!(
            stage.quorum.leave(&holder, LeaveMode::Now).await.unwrap(),
            LeaveOutcome::Holding
        );
        assert_eq!(stage.renewed(&first).await, TicketState::Holding);
        let hand_over = async {
            let waiting = stage.quorum.watch(&second, TicketState::Waiting);
            let mut waiting = std::pin::pin!(waiting);
            assert!((&mut waiting).now_or_never().is_none(), "the waiter is not served yet");
            stage.quorum.leave(&first, LeaveMode::Now).await.unwrap();
            waiting.await.unwrap();
            stage.renewed(&second).await
        };
        let (joins, standing) = stage.joins_of(hand_over).await;
        assert_eq!((joins, standing), (STORES, TicketState::Holding));
    });
}

#[test]
fn a_waiter_that_is_removed_while_it_becomes_the_holder_is_asked_to_leave() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let (holder, [first]) = stage.held().await;
        stage.quorum.leave(&holder, LeaveMode::Now).await.unwrap();
        assert_eq!(stage.renewed(&first).await, TicketState::Holding);
        for (memory, _) in &stage.turns {
            for (seat, _) in memory.line(&key()).await.unwrap() {
                assert_eq!(
                    memory.leave(&seat, LeaveMode::Graceful).await.unwrap(),
                    LeaveOutcome::Requested
                );
            }
        }
        let place = stage.quorum.renew(&first).await.unwrap().unwrap();
        assert_eq!((place.state, place.leaving), (TicketState::Holding, true));
    });
}

#[test]
fn a_turn_that_is_given_up_goes_to_the_next() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let (_holder, [first, second]) = stage.held().await;
        assert_eq!(
            stage.quorum.leave(&first, LeaveMode::Now).await.unwrap(),
            LeaveOutcome::Waiting
        );
        stage.quorum.watch(&second, TicketState::Waiting).await.unwrap();
        let (joins, standing) = stage.joins_of(stage.renewed(&second)).await;
        assert_eq!((joins, standing), (STORES, TicketState::Waiting));
    });
}

#[test]
fn readers_have_their_turn_together() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let share = |take| Share::new(take, SHARE_OF_MAX).unwrap();
        let writer = Ticket { share: share(SHARE_OF_MAX), ..ticket() };
        let readers = [(); 5].map(|()| Ticket { share: share(1), ..ticket() });
        stage.quorum.join(&writer, WaitMode::Wait).await.unwrap().unwrap();
        for reader in &readers {
            stage.wait(reader).await;
        }
        stage.quorum.leave(&writer, LeaveMode::Now).await.unwrap();
        for reader in &readers {
            assert_eq!(stage.renewed(reader).await, TicketState::Holding);
        }
    });
}

#[test]
fn a_later_reader_does_not_overtake_a_writer_that_waits() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let reader = || Ticket { share: Share::READER, ..ticket() };
        let (first, late, later) = (reader(), reader(), reader());
        let writer = ticket();
        let joins = |ticket, patience| stage.quorum.join(ticket, patience);
        joins(&first, WaitMode::Wait).await.unwrap().unwrap();
        let second = reader();
        let (cost, place) = stage.joins_of(joins(&second, WaitMode::NoWait)).await;
        assert_eq!(place.unwrap().unwrap().state, TicketState::Holding, "there is no writer yet");
        assert_eq!(cost, STORES);
        stage.wait(&writer).await;
        stage.wait(&late).await;
        assert_eq!(
            joins(&later, WaitMode::NoWait).await.unwrap(),
            None,
            "a join that may not wait yields, too"
        );
        for reader in [&first, &second] {
            stage.quorum.leave(reader, LeaveMode::Now).await.unwrap();
        }
        assert_eq!(stage.renewed(&writer).await, TicketState::Holding);
        assert_eq!(stage.renewed(&late).await, TicketState::Waiting);
        stage.quorum.leave(&writer, LeaveMode::Now).await.unwrap();
        assert_eq!(stage.renewed(&late).await, TicketState::Holding);
        for store in &stage.stores {
            assert_eq!(store.line(&key()).await.unwrap().len(), 1, "an undone join leaves nothing");
        }
    });
}

#[test]
fn a_writer_is_served_although_readers_overlap_without_end() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let host = world.process();
        // Every reader is a client of its own, which knows no waiters.
        let reads = |offset: u64| {
            let (stage, world, host) = (&stage, &world, &host);
            async move {
                host.sleep(Duration::from_millis(20 * offset)).await;
                for _ in 0..200 {
                    let reader = stage.client(world).rwlock("k");
                    let guard = reader.read().await.unwrap();
                    host.sleep(Duration::from_millis(60)).await;
                    guard.release().await.unwrap();
                }
            }
        };
        let write = async {
            host.sleep(Duration::from_millis(100)).await;
            let writer = stage.client(&world).rwlock("k");
            writer.write().await.unwrap().release().await.unwrap();
        };
        let readers = std::pin::pin!(join_all([0, 1, 2].map(reads)));
        let write = std::pin::pin!(write);
        let first = select(readers, write).await;
        assert!(matches!(first, Either::Right(_)), "600 readers overtook the writer");
    });
}

#[test]
fn where_a_line_cannot_be_reached_they_stand_in_another() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let (holder, [waiter]) = stage.held().await;
        let mut lines = Vec::new();
        for _ in 0..STORES {
            let mut standing = Vec::new();
            for store in 0..STORES {
                if !lines.contains(&store) && stage.stand_in(store).await > 0 {
                    standing.push(store);
                }
            }
            let [store] = standing[..] else { panic!("the waiter is in {standing:?}") };
            lines.push(store);
            stage.turns[store].1.cut();
            world.process().sleep(waiter.ttl / 3).await;
            assert_eq!(stage.renewed(&holder).await, TicketState::Holding);
            assert_eq!(stage.renewed(&waiter).await, TicketState::Waiting);
        }
        // No line is left: the waiter polls.
        stage.quorum.watch(&waiter, TicketState::Waiting).await.unwrap();
        stage.quorum.leave(&holder, LeaveMode::Now).await.unwrap();
        assert_eq!(stage.renewed(&waiter).await, TicketState::Holding);
    });
}

/// Locks, holds and releases until `until`, and returns the number of turns.
async fn come_back(world: &World, locks: &Locks, held: Duration, until: Duration) -> u32 {
    let (mutex, mut turns) = (locks.mutex("k"), 0);
    while world.passed() < until {
        let guard = mutex.lock().await.unwrap();
        world.process().sleep(held).await;
        guard.release().await.unwrap();
        turns += 1;
    }
    turns
}

#[test]
fn a_client_that_locks_again_yields_to_the_waiters() {
    for held in [1, 20, 200, 5_000].map(Duration::from_millis) {
        World::run(1, |world| async move {
            let stage = Stage::new(&world);
            let clients: Vec<_> = (0..6).map(|_| stage.client(&world)).collect();
            let all = clients.iter().map(|locks| come_back(&world, locks, held, held * 600));
            let mut turns = join_all(all).await;
            turns.sort_unstable();
            assert!(turns[0] * 2 >= turns[5], "{turns:?} of {held:?}");
        });
    }
}

/// Two clients wanted the key at the same time. The first has seen the second wait, and both have
/// released it.
async fn has_seen_waiters(world: &World, stage: &Stage) -> Locks {
    let (locks, other) = (stage.client(world), stage.client(world));
    let guard = other.mutex("k").lock().await.unwrap();
    let behind = async {
        world.process().sleep(PATIENCE).await;
        assert!(locks.mutex("k").try_lock_for(PATIENCE * 4).await.unwrap().is_none());
    };
    let ahead = async {
        assert!(stage.client(world).mutex("k").try_lock_for(PATIENCE * 6).await.unwrap().is_none());
    };
    join(ahead, behind).await;
    guard.release().await.unwrap();
    locks
}

#[test]
fn a_dead_waiter_keeps_no_client_from_a_free_lock() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let locks = has_seen_waiters(&world, &stage).await;
        for (line, _) in &stage.turns {
            let dead = Ticket { ttl: Duration::from_secs(3600), ..ticket() };
            line.join(&dead, WaitMode::Wait).await.unwrap().unwrap();
        }
        world.process().sleep(Duration::from_secs(2)).await;
        assert!(locks.mutex("k").try_lock_for(PATIENCE).await.unwrap().is_some());
    });
}

#[test]
fn silent_lines_cost_a_client_that_saw_waiters_one_pause_at_most() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let locks = has_seen_waiters(&world, &stage).await;
        for (_, network) in &stage.turns {
            network.set(Weather::DEAD);
        }
        let mut got = 0;
        for _ in 0..4 {
            if let Ok(Some(guard)) = locks.mutex("k").try_lock_for(PATIENCE).await {
                guard.release().await.unwrap();
                got += 1;
            }
        }
        assert!(got >= 3, "{got} of 4");
    });
}

#[test]
fn only_a_client_that_locks_again_reads_lines_and_rarely() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let locks = stage.client(&world);
        let so_far = || stage.looks.load(Ordering::Relaxed);
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
        locks.mutex("other").lock().await.unwrap().release().await.unwrap();
        world.process().sleep(PATIENCE * 3).await;
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
        assert_eq!(so_far(), 0);
        let began = world.passed();
        let turns = come_back(&world, &locks, PATIENCE / 50, began + PATIENCE * 20).await;
        assert!(turns > 500 && so_far() <= 21, "{} reads for {turns} turns", so_far());
    });
}
