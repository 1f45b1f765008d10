//! A story: a world of clients, faults and programs from a seed, and whether every promise was
//! kept.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::layers::{AnyEngine, OnRuntime, Retries};
use tenure_core::{Locks, Memory, Runtime};
use tenure_redlock::Quorum;

use super::plan::Plan;
use super::program::{Player, Program};
use super::referee::{Counts, Referee};
use super::trouble::{Target, trouble};
use super::{SimHost, World};
use crate::fault::{Distant, Network, Spied, Verb};
use crate::sim::holder::Holder;

/// The result of a story.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Its seed.
    pub seed: u64,
    /// Its counts.
    pub counts: Counts,
    /// Its duration in simulated time.
    pub passed: Duration,
    /// Its log, if that was requested.
    pub log: Vec<String>,
    /// The promise that was broken, if one was.
    pub violation: Option<String>,
}

/// The options of a story.
#[derive(Clone, Default)]
pub struct Tale {
    holder: Option<Arc<dyn Holder>>,
    keeps_log: bool,
}

impl Tale {
    /// Stories of Tenure's own holders, with all their methods.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stories of another library, whose holders have mutexes only.
    #[must_use]
    pub fn of(holder: Arc<dyn Holder>) -> Self {
        Self { holder: Some(holder), keeps_log: false }
    }

    /// Keeps a log.
    #[must_use]
    pub fn with_log(mut self) -> Self {
        self.keeps_log = true;
        self
    }

    /// Runs the story of this seed.
    pub fn play(&self, seed: u64) -> Ending {
        let plan = Arc::new(Plan::of(seed, self.holder.is_some()));
        World::run(seed, |world| run(world, plan, self.clone()))
    }

    /// Runs the story of this seed. Panics, with the command that replays it, if a promise is
    /// broken.
    pub fn check(&self, seed: u64) -> Ending {
        let ending = self.play(seed);
        assert!(ending.violation.is_none(), "{ending}");
        ending
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.log {
            writeln!(f, "{line}")?;
        }
        let Counts { grants, losses, errors, refused } = self.counts;
        writeln!(
            f,
            "seed {}: {:?} passed; {grants} grants, {losses} losses, {errors} errors, {refused} writes refused",
            self.seed, self.passed
        )?;
        match &self.violation {
            None => write!(f, "every promise was kept"),
            Some(violation) => write!(
                f,
                "BROKEN: {violation}\nreplay it: cargo run --release -p tenure-conformance --example sim -- --seed {}",
                self.seed
            ),
        }
    }
}

/// One node of the store: its process, and its data.
struct Node {
    host: Arc<SimHost>,
    memory: Memory,
    /// The line of the waiters of a quorum, which decides nothing.
    turns: Memory,
}

async fn run(world: World, plan: Arc<Plan>, tale: Tale) -> Ending {
    let nodes = open_stores(&world, &plan);
    let stores = nodes.iter().map(|node| node.memory.clone()).collect();
    let referee = Referee::new(world.clone(), stores, tale.keeps_log);
    referee.note(|| plan.to_string());
    let mut targets = Vec::new();
    let mut programs = Vec::new();
    for number in 0..plan.clients {
        let host = world.process();
        host.set_drift_ppm(drift(&world));
        let networks: Vec<_> = nodes.iter().map(|_| Network::new(plan.weather)).collect();
        let engine = engine(&plan, &host, &nodes, &networks).await;
        let name = format!("c{number}");
        let (observer, who) = (referee.clone(), name.clone());
        let retries = plan.wraps.retry.then(|| Retries::times(2).after(plan.ttl / 100));
        let engine = Spied::new(engine, move |asked| {
            // A renewal that is sent again may come after the release of its ticket.
            if retries.is_none() || asked.verb != Verb::Renew {
                observer.observe(&who, asked);
            }
        });
        let player = match (&tale.holder, retries) {
            (None, None) => Player::Tenure(Locks::on(engine, host.clone())),
            (None, Some(retries)) => {
                Player::Tenure(Locks::with_retries(engine, host.clone(), retries))
            }
            (Some(holder), _) => {
                Player::Other(holder.connect(AnyEngine::new(engine), host.clone()))
            }
        };
        for task in 0..plan.tasks {
            let name = format!("{name}.{task}");
            programs.push(Program {
                player: player.with_owner(&name),
                name,
                host: host.clone(),
                referee: referee.clone(),
                plan: plan.clone(),
            });
        }
        targets.push(Target { name, host, networks, dead: false });
    }
    let stage = Stage { world, plan, referee, nodes, targets };
    stage.play(programs).await
}

/// The parts of a running story.
struct Stage {
    world: World,
    plan: Arc<Plan>,
    referee: Referee,
    nodes: Vec<Node>,
    targets: Vec<Target>,
}

impl Stage {
    async fn play(mut self, programs: Vec<Program>) -> Ending {
        let mut started = Vec::new();
        for program in programs {
            let (name, host) = (program.name.clone(), program.host.clone());
            let done = super::program::start(program);
            started.push((name, host, done));
        }
        if let Some(time) = self.plan.trouble {
            let memories: Vec<_> = self.nodes.iter().map(|node| node.memory.clone()).collect();
            trouble(&self.world, &self.referee, &self.plan, &mut self.targets, &memories, time)
                .await;
        }
        self.referee.note(|| "the trouble is over".to_owned());
        self.finish(|| started.iter().all(|(_, host, done)| done.is_set() || self.is_dead(host)))
            .await;
        for (name, host, done) in &started {
            if !done.is_set() && !self.is_dead(host) && self.referee.violation().is_none() {
                self.referee.object(format!("{name} still waits for {}", done.waits_for()));
            }
        }
        self.expect_empty_lines().await;
        self.end()
    }

    fn is_dead(&self, host: &Arc<SimHost>) -> bool {
        self.targets.iter().any(|target| target.dead && Arc::ptr_eq(&target.host, host))
    }

    /// Waits until the programs have ended, for far longer than they may take.
    async fn finish(&self, is_done: impl Fn() -> bool) {
        let host = self.world.store();
        for _ in 0..2_000 {
            if is_done() || self.referee.violation().is_some() {
                return;
            }
            host.sleep(self.plan.ttl / 4).await;
        }
    }

    /// Checks that nothing is left behind, except pending requests and tickets that expire.
    async fn expect_empty_lines(&self) {
        if self.referee.violation().is_some() {
            return;
        }
        let host = self.world.store();
        let names = || self.plan.keys.iter().map(|(name, _)| name.clone());
        let within = match self.plan.trouble {
            // No client died, and no pending request can join a line.
            None => self.plan.ttl / 2,
            Some(_) => self.plan.ttl * 3 + self.plan.weather.late_by * 2 + Duration::from_secs(6),
        };
        let end = self.world.passed() + within;
        while self.world.passed() < end {
            if self.referee.left_behind(names()).is_empty() {
                return;
            }
            host.sleep(self.plan.ttl / 8).await;
        }
        let left = self.referee.left_behind(names());
        self.referee.object(format!("left behind {within:?} after the end: {}", left.join(", ")));
    }

    fn end(self) -> Ending {
        Ending {
            seed: self.plan.seed,
            counts: self.referee.counts(),
            passed: self.world.passed(),
            log: self.referee.take_log(),
            violation: self.referee.violation(),
        }
    }
}

fn open_stores(world: &World, plan: &Plan) -> Vec<Node> {
    let open = |at| {
        let host = if at == 0 { world.store() } else { world.process() };
        host.set_drift_ppm(drift(world));
        let [memory, turns] = [(); 2].map(|()| Memory::with_clock((*host).clone()));
        Node { host, memory, turns }
    };
    (0..plan.nodes).map(open).collect()
}

/// Any two clocks stay within the promised one percent.
fn drift(world: &World) -> i64 {
    i64::try_from(world.random() % 9_001).unwrap_or(0) - 4_500
}

async fn engine(
    plan: &Plan,
    host: &Arc<SimHost>,
    nodes: &[Node],
    networks: &[Network],
) -> AnyEngine {
    let far = |which: fn(&Node) -> &Memory| -> Vec<AnyEngine> {
        let far = |(node, network): (&Node, &Network)| {
            let (memory, there) = (which(node).clone(), node.host.clone());
            AnyEngine::new(Distant::new(
                memory,
                there,
                host.clone(),
                network.clone(),
                plan.patience(),
            ))
        };
        nodes.iter().zip(networks).map(far).collect()
    };
    let mut stores = far(|node| &node.memory);
    let engine = if stores.len() == 1 {
        stores.remove(0)
    } else {
        let quorum = Quorum::new(stores, host.clone(), plan.ttl / 20)
            .expect("a quorum has three stores or more");
        let turns = if plan.turns { far(|node| &node.turns) } else { Vec::new() };
        AnyEngine::new(quorum.with_wait_queues(turns))
    };
    wrapped(plan, host, engine).await
}

async fn wrapped(plan: &Plan, host: &Arc<SimHost>, engine: AnyEngine) -> AnyEngine {
    if !plan.wraps.hosted {
        return engine;
    }
    let made = OnRuntime::make(host.clone(), async move { Ok(engine) }).await;
    AnyEngine::new(made.expect("the runtime of a simulated process runs"))
}
