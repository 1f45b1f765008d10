//! The entrants of a comparison, and their rounds.

use std::time::Duration;

use super::kind::Kind;
use crate::figures::{median, median_ratio, per_second, us};
use crate::processor;

/// The time and the pairs of one round.
pub(crate) struct Round {
    pub(crate) time: Duration,
    /// Pairs of lock and release.
    pub(crate) pairs: u64,
}

/// An entrant, with the time of a pair in each round.
pub(crate) struct Entrant<'a> {
    name: String,
    round: Box<dyn FnMut() -> Round + 'a>,
    /// The process of the client, if it is another one.
    client: Option<u32>,
    /// The goal for the speed of Tenure beside it.
    wanted: &'static str,
    took: Vec<Duration>,
    /// Processor time of a pair.
    used: Vec<Usage>,
}

/// The processor time of client and server.
#[derive(Clone, Copy)]
struct Usage {
    client: Duration,
    server: Duration,
}

impl<'a> Entrant<'a> {
    pub(crate) fn new(name: impl Into<String>, round: impl FnMut() -> Round + 'a) -> Self {
        let (took, used) = (Vec::new(), Vec::new());
        let (name, round, wanted) = (name.into(), Box::new(round), "> 1 ×");
        Self { name, round, client: None, wanted, took, used }
    }

    /// An entrant of a kind. Tenure has a goal beside it only if it renews, as Tenure does.
    pub(crate) fn of(kind: Kind, round: impl FnMut() -> Round + 'a) -> Self {
        let entrant = Self::new(kind.to_string(), round);
        if kind.renews { entrant } else { Self { wanted: "–", ..entrant } }
    }

    /// The same, with the client in another process.
    pub(crate) fn in_process(self, pid: u32) -> Self {
        Self { client: Some(pid), ..self }
    }

    pub(crate) fn wanted(&self) -> &'static str {
        self.wanted
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn take_part(&mut self, servers: &[u32]) {
        // The first round warms up.
        (self.round)();
        // Now the servers have their processes for the connections of this entrant.
        let servers = processor::with_children(servers);
        let server = processor::of_all(&servers);
        let client = self.client_used();
        let Round { time, pairs } = (self.round)();
        let client = self.client_used().saturating_sub(client);
        let server = processor::of_all(&servers).saturating_sub(server);
        let pairs = u32::try_from(pairs.max(1)).unwrap();
        self.took.push(time / pairs);
        self.used.push(Usage { client: client / pairs, server: server / pairs });
    }

    fn client_used(&self) -> Duration {
        self.client.map_or_else(processor::own, processor::of)
    }

    pub(crate) fn median(&self) -> Duration {
        median(&mut self.took.clone())
    }

    pub(crate) fn rate(&self) -> String {
        per_second(self.median())
    }

    /// Its speed as a multiple of the other, the median over the rounds.
    pub(crate) fn speed_beside(&self, other: &Self) -> f64 {
        median_ratio(&other.took, &self.took)
    }

    /// The median processor time of a pair.
    pub(crate) fn usage_of_a_pair(&self) -> String {
        let of = |side: fn(&Usage) -> Duration| us(median(&mut self.used_by(side)));
        let (client, server) = (of(|used| used.client), of(|used| used.server));
        format!("{} (client {client}, server {server})", of(Usage::both))
    }

    /// Its processor time as a multiple of the other, the median over the rounds.
    pub(crate) fn usage_beside(&self, other: &Self) -> f64 {
        median_ratio(&self.used_by(Usage::both), &other.used_by(Usage::both))
    }

    fn used_by(&self, side: fn(&Usage) -> Duration) -> Vec<Duration> {
        self.used.iter().map(side).collect()
    }
}

impl Usage {
    fn both(&self) -> Duration {
        self.client + self.server
    }
}

/// Runs the rounds of all entrants in turn, so that other load on the machine meets them alike.
///
/// The order changes each time, because an entrant leaves the cores awake or asleep for the next.
pub(crate) fn alternate(entrants: &mut [Entrant<'_>], servers: &[u32], rounds: usize) {
    let mut order: Vec<usize> = (0..entrants.len()).collect();
    let mut chance = 0x7E17_0AE5_u64;
    for _ in 0..rounds {
        for last in (1..order.len()).rev() {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(last, (chance >> 33) as usize % (last + 1));
        }
        for entrant in &order {
            entrants[*entrant].take_part(servers);
        }
    }
}
