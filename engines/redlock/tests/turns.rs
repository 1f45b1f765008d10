//! The waiters of a quorum have a line: only the first attempts to hold, when it is notified.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{join, join_all};
use tenure_conformance::fault::{Distant, Network, Spied, Verb, Weather};
use tenure_conformance::sim::{SimHost, World};
use tenure_core::layers::AnyEngine;
use tenure_core::*;
use tenure_redlock::Quorum;

const STORES: usize = 3;
const PATIENCE: Duration = Duration::from_millis(50);

/// Three stores and three lines of waiters, each behind a network of its own.
struct Stage {
    /// The quorum of the first client.
    quorum: Quorum,
    stores: Vec<Memory>,
    /// Joins at the stores.
    joins: Arc<AtomicUsize>,
    turns: Vec<(Memory, Network)>,
}

impl Stage {
    fn new(world: &World) -> Self {
        let joins = Count::default();
        let memory = || Memory::with_clock((*world.store()).clone());
        let stores: Vec<_> = (0..STORES).map(|_| memory()).collect();
        let turns: Vec<_> = (0..STORES).map(|_| (memory(), Network::new(Weather::STILL))).collect();
        let quorum = quorum(world, &world.process(), (&stores, &joins), &turns);
        Self { quorum, stores, joins, turns }
    }

    /// The locks of another client of the same stores.
    fn client(&self, world: &World) -> Locks {
        Locks::on(self.other(world), world.process())
    }

    /// The quorum of another client.
    fn other(&self, world: &World) -> Quorum {
        quorum(world, &world.process(), (&self.stores, &self.joins), &self.turns)
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
    turns: &[(Memory, Network)],
) -> Quorum {
    let counting = |memory: &Memory| {
        let joins = joins.clone();
        AnyEngine::new(Spied::new(memory.clone(), move |asked| {
            joins.fetch_add(usize::from(asked.verb == Verb::Join), Ordering::Relaxed);
        }))
    };
    let stores = stores.iter().map(counting);
    let lines = turns.iter().map(|(memory, network)| far(world, host, memory, network));
    Quorum::new(stores, host.clone(), PATIENCE).unwrap().with_wait_queues(lines)
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
        let (holder, waiters) = stage.held::<100>().await;
        let all_renew = async || {
            for waiter in &waiters {
                stage.renewed(waiter).await;
            }
        };
        assert_eq!(stage.joins_of(all_renew()).await.0, 0, "the holder is ahead of all");
        stage.quorum.leave(&holder, LeaveMode::Now).await.unwrap();
        assert_eq!(stage.joins_of(all_renew()).await.0, STORES, "one of them joined once");
        assert_eq!(stage.renewed(&waiters[0]).await, TicketState::Holding);
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
        let (holder, [first, second]) = stage.held().await;
        for leaves in [&holder, &first] {
            stage.quorum.leave(leaves, LeaveMode::Now).await.unwrap();
        }
        stage.quorum.watch(&second, TicketState::Waiting).await.unwrap();
        let (joins, standing) = stage.joins_of(stage.renewed(&second)).await;
        assert_eq!((joins, standing), (STORES, TicketState::Holding));
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

/// Readers keep coming, each as a client of its own, which knows no waiters: `count` of them, one
/// every `pause`, each for `held`. Returns how many released the lock before a writer was served
/// that came after the third.
async fn releases_before_the_writer(
    world: &World,
    count: u32,
    pause: Duration,
    held: Duration,
) -> usize {
    let (stage, host) = (Stage::new(world), world.process());
    let releases = Count::default();
    let reads = (0..count).map(|at| {
        let (stage, host, releases) = (&stage, &host, &releases);
        async move {
            host.sleep(pause * at).await;
            let guard = stage.client(world).rwlock("k").read().await.unwrap();
            host.sleep(held).await;
            releases.fetch_add(1, Ordering::Relaxed);
            guard.release().await.unwrap();
        }
    });
    let write = async {
        host.sleep(pause * 2 + pause / 2).await;
        let guard = stage.client(world).rwlock("k").write().await.unwrap();
        let before = releases.load(Ordering::Relaxed);
        guard.release().await.unwrap();
        before
    };
    join(join_all(reads), write).await.1
}

#[test]
fn a_writer_waits_only_for_the_readers_that_came_before_it() {
    let ms = Duration::from_millis;
    // Readers that overlap; readers of which one comes whenever the last has left; and both.
    for (pause, held) in [(20, 60), (20, 19), (20, 20), (20, 21), (1, 5), (500, 499), (500, 900)] {
        World::run(1, |world| async move {
            let before = releases_before_the_writer(&world, 200, ms(pause), ms(held)).await;
            assert!(before <= 3, "{before} readers of {held} ms each {pause} ms overtook it");
        });
    }
}

#[test]
fn a_reader_does_not_take_a_lock_that_was_just_released_ahead_of_a_writer() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let readers = [(); 3].map(|()| Ticket { share: Share::READER, ..ticket() });
        let (writer, late) = (ticket(), Ticket { share: Share::READER, ..ticket() });
        for reader in &readers {
            stage.quorum.join(reader, WaitMode::Wait).await.unwrap().unwrap();
        }
        stage.wait(&writer).await;
        for reader in &readers {
            stage.quorum.leave(reader, LeaveMode::Now).await.unwrap();
        }
        // The lock is free, and the writer was not woken yet.
        let other = stage.other(&world);
        assert_eq!(other.join(&late, WaitMode::NoWait).await.unwrap(), None);
        let place = other.join(&late, WaitMode::Wait).await.unwrap().unwrap();
        assert_eq!(place.state, TicketState::Waiting);
        assert_eq!(stage.renewed(&writer).await, TicketState::Holding);
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

#[test]
fn a_dead_waiter_keeps_others_from_a_free_lock_for_its_ttl_at_most() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let dead = ticket();
        for (line, _) in &stage.turns {
            line.join(&dead, WaitMode::Wait).await.unwrap().unwrap();
        }
        let locks = stage.client(&world);
        assert!(locks.mutex("k").try_lock().await.unwrap().is_none(), "it may be about to try");
        let began = world.passed();
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
        assert!(world.passed().saturating_sub(began) <= dead.ttl + PATIENCE);
    });
}

#[test]
fn silent_lines_cost_a_lock_the_time_limit_of_one_store_at_most() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        for (_, network) in &stage.turns {
            network.set(Weather::DEAD);
        }
        let locks = stage.client(&world);
        let guard = locks.mutex("k").try_lock_for(PATIENCE * 2).await.unwrap();
        guard.expect("a majority answers at once").release().await.unwrap();
    });
}

#[test]
fn a_silent_server_costs_the_time_limit_once_and_not_for_each_lock() {
    World::run(1, |world| async move {
        let (host, networks) =
            (world.process(), [(); STORES].map(|()| Network::new(Weather::STILL)));
        let engines = || {
            let memory = || Memory::with_clock((*world.store()).clone());
            networks.each_ref().map(|network| far(&world, &host, &memory(), network))
        };
        let quorum =
            Quorum::new(engines(), host.clone(), PATIENCE).unwrap().with_wait_queues(engines());
        let locks = Locks::on(quorum, host.clone());
        for network in &networks {
            network.set(Weather::DEAD);
            let began = world.passed();
            for key in 0..100 {
                let mutex = locks.mutex(format!("k{key}"));
                mutex.lock().await.unwrap().release().await.unwrap();
            }
            let took = world.passed().saturating_sub(began);
            assert!(took <= PATIENCE * 4, "{took:?} for 100 locks");
            network.set(Weather::STILL);
            host.sleep(PATIENCE * 2).await;
        }
    });
}
