//! The faults of the network between one client and one store, which a test may change at any time.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tenure_core::TicketId;
use tenure_core::sync::Mutex;

use super::asked::{Asked, Verb};

/// The faults of a network, as probabilities per thousand and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// Requests in a thousand that never arrive.
    pub lost_requests: u32,
    /// Replies in a thousand that never arrive.
    pub lost_replies: u32,
    /// Requests in a thousand that arrive a second time, later.
    pub doubled: u32,
    /// Messages in a thousand that are very late.
    pub late: u32,
    /// The longest usual time of a message.
    pub delay: Duration,
    /// The longest time of a very late message.
    pub late_by: Duration,
}

impl Weather {
    /// Everything arrives, at once.
    pub const STILL: Self = Self {
        lost_requests: 0,
        lost_replies: 0,
        doubled: 0,
        late: 0,
        delay: Duration::ZERO,
        late_by: Duration::ZERO,
    };
    /// Nothing arrives.
    pub const DEAD: Self = Self { lost_requests: 1000, ..Self::STILL };
    /// Requests arrive, replies do not.
    pub const DEAF: Self = Self { lost_replies: 1000, ..Self::STILL };
}

/// The network between one client and one store. Clones are the same network.
#[derive(Clone)]
pub struct Network(Arc<Mutex<Air>>);

struct Air {
    weather: Weather,
    verbs: BTreeMap<Verb, Weather>,
    tickets: BTreeMap<TicketId, Weather>,
    cut: bool,
}

impl Network {
    /// A network with these faults.
    pub fn new(weather: Weather) -> Self {
        Self(Arc::new(Mutex::new(Air {
            weather,
            verbs: BTreeMap::new(),
            tickets: BTreeMap::new(),
            cut: false,
        })))
    }

    /// Sets the faults of all requests.
    pub fn set(&self, weather: Weather) {
        let mut air = self.air();
        air.weather = weather;
        air.verbs.clear();
        air.tickets.clear();
    }

    /// Sets the faults of one method.
    pub fn set_for(&self, verb: Verb, weather: Weather) {
        self.air().verbs.insert(verb, weather);
    }

    /// Sets the faults of all requests for one ticket.
    pub fn set_for_ticket(&self, id: TicketId, weather: Weather) {
        self.air().tickets.insert(id, weather);
    }

    /// Starts a partition: nothing passes, and messages on their way are lost.
    pub fn cut(&self) {
        self.air().cut = true;
    }

    /// Ends the partition.
    pub fn heal(&self) {
        self.air().cut = false;
    }

    /// Whether there is a partition.
    pub fn is_cut(&self) -> bool {
        self.air().cut
    }

    /// The faults for one request.
    pub fn weather(&self, asked: Asked<'_>) -> Weather {
        self.weather_for(asked.verb, asked.id())
    }

    pub(super) fn weather_for(&self, verb: Verb, id: Option<TicketId>) -> Weather {
        let air = self.air();
        let own = id.and_then(|id| air.tickets.get(&id));
        own.or_else(|| air.verbs.get(&verb)).copied().unwrap_or(air.weather)
    }

    fn air(&self) -> MutexGuard<'_, Air> {
        self.0.lock()
    }
}
