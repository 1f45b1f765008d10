//! Those who wait for a quorum stand in a line of their own: only its first one tries, and is told when to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_conformance::fault::{Distant, Network, Spied, Verb, Weather};
use tenure_conformance::sim::{SimHost, World};
use tenure_core::wrap::{AnyEngine, Quorum};
use tenure_core::*;

const STORES: usize = 3;
const PATIENCE: Duration = Duration::from_millis(50);

/// Three stores, and as many lines of those who wait, each behind a network of its own.
struct Stage {
    quorum: Quorum,
    /// How often a store was asked to let somebody in.
    joins: Arc<AtomicUsize>,
    turns: Vec<(Memory, Network)>,
}

impl Stage {
    fn new(world: &World) -> Self {
        let (host, joins) = (world.process(), Arc::new(AtomicUsize::new(0)));
        let memory = || Memory::with_clock((*world.store()).clone());
        let turns: Vec<_> = (0..STORES).map(|_| (memory(), Network::new(Weather::STILL))).collect();
        let stores = (0..STORES).map(|_| {
            let joins = joins.clone();
            AnyEngine::new(Spied::new(memory(), move |asked| {
                joins.fetch_add(usize::from(asked.verb == Verb::Join), Ordering::Relaxed);
            }))
        });
        let quorum = Quorum::new(stores, host.clone(), PATIENCE).unwrap();
        let lines = turns.iter().map(|(memory, network)| far(world, &host, memory, network));
        Self { quorum: quorum.with_turns(lines), joins, turns }
    }

    async fn wait(&self, ticket: &Ticket) {
        let place = self.quorum.join(ticket, Patience::Wait).await.unwrap().unwrap();
        assert_eq!(place.standing, Standing::Waiting);
    }

    /// A ticket that holds, and those that wait for it to leave.
    async fn held<const WAITERS: usize>(&self) -> (Ticket, [Ticket; WAITERS]) {
        let (holder, waiters) = (ticket(), [(); WAITERS].map(|()| ticket()));
        self.quorum.join(&holder, Patience::Wait).await.unwrap().unwrap();
        for waiter in &waiters {
            self.wait(waiter).await;
        }
        (holder, waiters)
    }

    async fn renewed(&self, ticket: &Ticket) -> Standing {
        self.quorum.renew(ticket).await.unwrap().unwrap().standing
    }

    /// How many joins `work` costs.
    async fn joins_of<T>(&self, work: impl Future<Output = T>) -> (usize, T) {
        let before = self.joins.load(Ordering::Relaxed);
        let done = work.await;
        (self.joins.load(Ordering::Relaxed) - before, done)
    }

    async fn stand_in(&self, store: usize) -> usize {
        self.turns[store].0.line(&key()).await.unwrap().len()
    }
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
        owner: "".into(),
        note: "".into(),
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
                assert_eq!(stage.renewed(waiter).await, Standing::Waiting);
            }
        };
        let (joins, ()) = stage.joins_of(all_renew).await;
        assert_eq!(joins, STORES, "one of them tried once");
    });
}

#[test]
fn whoever_leaves_tells_the_next_which_comes_in_at_its_first_try() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let (holder, [first, second]) = stage.held().await;
        assert_eq!(stage.quorum.leave(&holder, Leave::Now).await.unwrap(), Left::Holding);
        assert_eq!(stage.renewed(&first).await, Standing::Holding);
        let hand_over = async {
            let told = stage.quorum.watch(&second, Standing::Waiting);
            let mut told = std::pin::pin!(told);
            assert!((&mut told).now_or_never().is_none(), "it is not its turn yet");
            stage.quorum.leave(&first, Leave::Now).await.unwrap();
            told.await.unwrap();
            stage.renewed(&second).await
        };
        let (joins, standing) = stage.joins_of(hand_over).await;
        assert_eq!((joins, standing), (STORES, Standing::Holding));
    });
}

#[test]
fn who_was_taken_out_of_the_line_and_came_to_hold_at_that_moment_is_told() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let (holder, [first]) = stage.held().await;
        stage.quorum.leave(&holder, Leave::Now).await.unwrap();
        assert_eq!(stage.renewed(&first).await, Standing::Holding);
        for (memory, _) in &stage.turns {
            for (seat, _) in memory.line(&key()).await.unwrap() {
                assert_eq!(memory.leave(&seat, Leave::Soon).await.unwrap(), Left::Told);
            }
        }
        let place = stage.quorum.renew(&first).await.unwrap().unwrap();
        assert_eq!((place.standing, place.leaving), (Standing::Holding, true));
    });
}

#[test]
fn a_turn_that_is_given_up_goes_to_the_next() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let (_holder, [first, second]) = stage.held().await;
        assert_eq!(stage.quorum.leave(&first, Leave::Now).await.unwrap(), Left::Waiting);
        stage.quorum.watch(&second, Standing::Waiting).await.unwrap();
        let (joins, standing) = stage.joins_of(stage.renewed(&second)).await;
        assert_eq!((joins, standing), (STORES, Standing::Waiting));
    });
}

#[test]
fn readers_have_their_turn_together() {
    World::run(1, |world| async move {
        let stage = Stage::new(&world);
        let share = |take| Share::new(take, SHARE_OF_MAX).unwrap();
        let writer = Ticket { share: share(SHARE_OF_MAX), ..ticket() };
        let readers = [(); 5].map(|()| Ticket { share: share(1), ..ticket() });
        stage.quorum.join(&writer, Patience::Wait).await.unwrap().unwrap();
        for reader in &readers {
            stage.wait(reader).await;
        }
        stage.quorum.leave(&writer, Leave::Now).await.unwrap();
        for reader in &readers {
            assert_eq!(stage.renewed(reader).await, Standing::Holding);
        }
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
            let [store] = standing[..] else { panic!("it stands in {standing:?}") };
            lines.push(store);
            stage.turns[store].1.cut();
            world.process().sleep(waiter.ttl / 3).await;
            assert_eq!(stage.renewed(&holder).await, Standing::Holding);
            assert_eq!(stage.renewed(&waiter).await, Standing::Waiting);
        }
        // No line is left: it tries now and then.
        stage.quorum.watch(&waiter, Standing::Waiting).await.unwrap();
        stage.quorum.leave(&holder, Leave::Now).await.unwrap();
        assert_eq!(stage.renewed(&waiter).await, Standing::Holding);
    });
}
