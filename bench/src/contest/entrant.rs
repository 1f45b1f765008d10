//! Those who take part in a comparison, and their rounds.

use std::time::Duration;

use super::kind::Kind;
use crate::figures::{median, median_ratio, per_second, us};
use crate::processor;

/// What one round came to.
pub(crate) struct Round {
    pub(crate) time: Duration,
    /// How many pairs of lock and release it had.
    pub(crate) pairs: u64,
}

/// One who takes part: what a pair took in each round.
pub(crate) struct Entrant<'a> {
    name: String,
    round: Box<dyn FnMut() -> Round + 'a>,
    /// The process that locks and releases, if it is not this one.
    client: Option<u32>,
    /// How much quicker ours is to be.
    wanted: &'static str,
    took: Vec<Duration>,
    /// Processor time.
    used: Vec<Usage>,
}

/// The processor time of both sides.
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

    /// Ours is wanted to be ahead of it only where it does what ours does.
    pub(crate) fn of(kind: Kind, round: impl FnMut() -> Round + 'a) -> Self {
        let entrant = Self::new(kind.to_string(), round);
        if kind.renews { entrant } else { Self { wanted: "–", ..entrant } }
    }

    /// The same for one whose work is done by another process.
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
        // The first is only to warm up.
        (self.round)();
        let before = self.usage(servers);
        let Round { time, pairs } = (self.round)();
        let after = self.usage(servers);
        let pairs = u32::try_from(pairs.max(1)).unwrap();
        self.took.push(time / pairs);
        self.used.push(Usage {
            client: after.client.saturating_sub(before.client) / pairs,
            server: after.server.saturating_sub(before.server) / pairs,
        });
    }

    fn usage(&self, servers: &[u32]) -> Usage {
        Usage {
            client: self.client.map_or_else(processor::own, processor::of),
            server: servers.iter().map(|pid| processor::of(*pid)).sum(),
        }
    }

    pub(crate) fn median(&self) -> Duration {
        median(&mut self.took.clone())
    }

    pub(crate) fn rate(&self) -> String {
        per_second(self.median())
    }

    /// How many times as fast as the other one it is, round by round.
    pub(crate) fn speed_beside(&self, other: &Self) -> f64 {
        median_ratio(&other.took, &self.took)
    }

    /// What it uses of the processor, in the median.
    pub(crate) fn usage_of_a_pair(&self) -> String {
        let of = |side: fn(&Usage) -> Duration| us(median(&mut self.used_by(side)));
        let (client, server) = (of(|used| used.client), of(|used| used.server));
        format!("{} (client {client}, server {server})", of(Usage::both))
    }

    /// How many times as much of the processor it uses as the other one, round by round.
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

/// Lets all have their rounds in turn, so that whatever else goes on meets them all alike. Who follows whom
/// is another matter each time: whoever comes before leaves the cores awake, or fast asleep.
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
