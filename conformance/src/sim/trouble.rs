//! The faults of a story: pauses, sleeping machines, partitions, lossy networks, stepped clocks,
//! broken tickets, deaths.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_core::{Engine as _, Key, LeaveMode, Memory, Runtime as _};

use super::plan::Plan;
use super::referee::Referee;
use super::{SimHost, World};
use crate::fault::{Network, Weather};

/// A client, as a target of faults.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) host: Arc<SimHost>,
    /// Its network to each store.
    pub(super) networks: Vec<Network>,
    /// It is dead.
    pub(super) dead: bool,
}

/// Injects faults for this time, and then heals all that is still alive.
pub(super) async fn trouble(
    world: &World,
    referee: &Referee,
    plan: &Plan,
    targets: &mut [Target],
    stores: &[Memory],
    time: Duration,
) {
    let end = world.passed() + time;
    while world.passed() < end && referee.violation().is_none() {
        world.store().sleep(part(world, plan.ttl)).await;
        let whom = pick(world, targets.len());
        let troubled = Troubled { world, referee, plan, client: &mut targets[whom] };
        match world.random() % 16 {
            0..=3 => troubled.pause(),
            4 | 5 => troubled.let_machine_sleep(),
            6 => troubled.jump(),
            7..=9 => troubled.cut(),
            10 | 11 => troubled.storm(),
            12 => troubled.set_clock(),
            13 | 14 => break_a_ticket(world, referee, plan, stores),
            _ => troubled.die(),
        }
    }
    for client in targets.iter() {
        client.host.resume();
        for network in &client.networks {
            network.set(plan.fair());
            network.heal();
        }
    }
}

struct Troubled<'a> {
    world: &'a World,
    referee: &'a Referee,
    plan: &'a Plan,
    client: &'a mut Target,
}

impl Troubled<'_> {
    fn pause(self) {
        let time = part(self.world, self.plan.ttl * 3);
        self.referee.note(|| format!("{} is paused for {time:?}", self.client.name));
        let host = self.client.host.clone();
        host.pause();
        self.later(time, move || host.resume());
    }

    fn let_machine_sleep(self) {
        let time = part(self.world, self.plan.ttl * 3);
        self.referee.note(|| format!("the machine of {} sleeps for {time:?}", self.client.name));
        let host = self.client.host.clone();
        self.world.store().spawn(Box::pin(async move { host.sleep_machine(time).await }));
    }

    fn jump(self) {
        let time = part(self.world, self.plan.ttl * 2);
        self.referee.note(|| format!("the boot clock of {} jumps {time:?}", self.client.name));
        self.client.host.wake_from_sleep(time);
    }

    fn cut(self) {
        let time = part(self.world, self.plan.ttl * 2);
        let networks = self.some_networks();
        self.referee.note(|| {
            format!("{} is cut off from {} store(s) for {time:?}", self.client.name, networks.len())
        });
        networks.iter().for_each(Network::cut);
        self.later(time, move || networks.iter().for_each(Network::heal));
    }

    fn storm(self) {
        let time = part(self.world, self.plan.ttl * 2);
        let weather = Weather {
            lost_requests: 300,
            lost_replies: 400,
            late: 400,
            late_by: self.plan.ttl * 2,
            ..self.plan.weather
        };
        let (networks, before) = (self.some_networks(), self.plan.weather);
        self.referee
            .note(|| format!("the network of {} loses messages for {time:?}", self.client.name));
        for network in &networks {
            network.set(weather);
        }
        self.later(time, move || networks.iter().for_each(|network| network.set(before)));
    }

    fn set_clock(self) {
        let by_us = i64::try_from(self.world.random() % 7_200_000_000).unwrap_or(0) - 3_600_000_000;
        self.referee
            .note(|| format!("the wall clock of {} is set by {by_us} µs", self.client.name));
        self.client.host.step_wall_clock(by_us);
    }

    fn die(self) {
        if self.plan.clients > 2 && self.client.name == "c0" {
            self.referee.note(|| format!("{} dies", self.client.name));
            self.client.dead = true;
            self.client.host.kill();
        }
    }

    /// The networks to the only store, or to a minority of a quorum.
    fn some_networks(&self) -> Vec<Network> {
        let all = &self.client.networks;
        let few = if all.len() == 1 { 1 } else { (all.len() - 1) / 2 };
        let first = pick(self.world, all.len());
        (0..few).map(|at| all[(first + at) % all.len()].clone()).collect()
    }

    fn later(&self, time: Duration, act: impl FnOnce() + Send + 'static) {
        let store = self.world.store();
        let clock = store.clone();
        store.spawn(Box::pin(async move {
            clock.sleep(time).await;
            act();
        }));
    }
}

fn break_a_ticket(world: &World, referee: &Referee, plan: &Plan, stores: &[Memory]) {
    let (name, _) = &plan.keys[pick(world, plan.keys.len())];
    let key = Key::new(name).expect("the key is valid");
    let line = stores[0].line(&key).now_or_never().and_then(Result::ok).unwrap_or_default();
    if line.is_empty() {
        return;
    }
    let at = pick(world, line.len());
    referee.note(|| format!("an operator breaks ticket {} of {} of {name}", at + 1, line.len()));
    for store in stores {
        let _ = store.leave(&line[at].0, LeaveMode::Graceful).now_or_never();
    }
}

fn pick(world: &World, count: usize) -> usize {
    let count = u64::try_from(count.max(1)).unwrap_or(1);
    usize::try_from(world.random() % count).unwrap_or(0)
}

/// A random part of this time.
pub(super) fn part(world: &World, of: Duration) -> Duration {
    let part = u32::try_from(world.random() % 1000).unwrap_or(0) + 1;
    of / 1000 * part
}
