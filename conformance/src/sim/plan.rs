//! The plan of a story: everything that its seed decides before it starts.

use std::fmt;
use std::time::Duration;

use super::Chance;
use crate::fault::Weather;

/// The kind of lock of a key, the same for all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A mutex, a reader-writer lock, a semaphore, or an election.
    Mutex,
    RwLock,
    Semaphore(u32),
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) ttl: Duration,
    pub(super) clients: usize,
    pub(super) tasks: usize,
    pub(super) steps: u64,
    pub(super) keys: Vec<(String, Use)>,
    /// The number of stores; more than one is a quorum.
    pub(super) nodes: usize,
    /// Whether the waiters of a quorum have a line.
    pub(super) turns: bool,
    pub(super) wraps: Wraps,
    pub(super) weather: Weather,
    /// Duration of faults. `None`: no faults, so nothing may be lost.
    pub(super) trouble: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wraps {
    pub(super) retry: bool,
    pub(super) hosted: bool,
}

const TTLS_MS: [u64; 4] = [600, 1_000, 3_000, 10_000];

impl Plan {
    pub(super) fn of(seed: u64, mutexes_only: bool) -> Self {
        let mut chance = Chance::new(seed ^ 0x7E17_0AE5_11FE_0001);
        let mut below = |limit: u64| chance.next() % limit;
        let ttl = Duration::from_millis(TTLS_MS[usize::try_from(below(4)).unwrap_or(0)]);
        let nodes = match below(8) {
            _ if mutexes_only => 1,
            0 => 3,
            1 if below(2) == 0 => 5,
            _ => 1,
        };
        let clients = 2 + usize::try_from(below(if nodes > 1 { 3 } else { 5 })).unwrap_or(0);
        let calm = below(8) == 0;
        let keys = (0..=below(3))
            .map(|at| {
                let kind = match below(4) {
                    _ if mutexes_only => Use::Mutex,
                    0 => Use::RwLock,
                    1 if nodes == 1 => Use::Semaphore(2 + u32::try_from(below(3)).unwrap_or(0)),
                    _ => Use::Mutex,
                };
                (format!("{at}-{}", kind.word()), kind)
            })
            .collect();
        let wraps = Wraps { retry: below(3) == 0, hosted: below(4) == 0 };
        let weather = if calm { fair(ttl) } else { foul(ttl, &mut below) };
        let trouble = (!calm).then(|| ttl * u32::try_from(4 + below(12)).unwrap_or(4));
        let tasks = 1 + usize::try_from(below(2)).unwrap_or(0);
        Self {
            seed,
            ttl,
            clients,
            tasks,
            steps: 2 + below(3),
            keys,
            nodes,
            turns: seed.is_multiple_of(2),
            wraps,
            weather,
            trouble,
        }
    }

    /// The network without faults.
    pub(super) fn fair(&self) -> Weather {
        fair(self.ttl)
    }

    /// The time that a client waits for an answer.
    pub(super) fn patience(&self) -> Duration {
        self.ttl / 6
    }
}

fn fair(ttl: Duration) -> Weather {
    Weather { delay: ttl / 200, ..Weather::STILL }
}

fn foul(ttl: Duration, below: &mut impl FnMut(u64) -> u64) -> Weather {
    let mut rate = |limit: u64| {
        let rate = if below(3) == 0 { 0 } else { below(limit) };
        u32::try_from(rate).unwrap_or(0)
    };
    Weather {
        lost_requests: rate(200),
        lost_replies: rate(200),
        doubled: rate(200),
        late: rate(250),
        delay: ttl / 50,
        late_by: ttl / 2 * rate(6),
    }
}

impl Use {
    fn word(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rwlock",
            Self::Semaphore(_) => "semaphore",
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {} clients × {} tasks × {} steps, ttl {:?}, {} store(s), turns {}, keys {:?}, {:?}, {:?}, trouble {:?}",
            self.seed,
            self.clients,
            self.tasks,
            self.steps,
            self.ttl,
            self.nodes,
            self.turns,
            self.keys,
            self.wraps,
            self.weather,
            self.trouble
        )
    }
}
