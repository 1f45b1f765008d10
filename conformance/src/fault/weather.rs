//! The weather between one client and one store, which a story may change at any time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::TicketId;

use super::asked::{Asked, Verb};

/// How a network treats what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// How many requests in a thousand never arrive.
    pub lost_requests: u32,
    /// How many replies in a thousand never arrive.
    pub lost_replies: u32,
    /// How many requests in a thousand arrive a second time, later.
    pub doubled: u32,
    /// How many messages in a thousand are very late.
    pub late: u32,
    /// The longest that a message usually takes.
    pub delay: Duration,
    /// The longest that a very late one takes.
    pub late_by: Duration,
}

impl Weather {
    /// Everything arrives, and at once.
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
    /// What is asked is done, and nobody hears of it.
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
    /// A network with this weather.
    pub fn new(weather: Weather) -> Self {
        Self(Arc::new(Mutex::new(Air {
            weather,
            verbs: BTreeMap::new(),
            tickets: BTreeMap::new(),
            cut: false,
        })))
    }

    /// From now on the weather is this, for everything.
    pub fn set(&self, weather: Weather) {
        let mut air = self.air();
        air.weather = weather;
        air.verbs.clear();
        air.tickets.clear();
    }

    /// From now on one verb has a weather of its own.
    pub fn set_for(&self, verb: Verb, weather: Weather) {
        self.air().verbs.insert(verb, weather);
    }

    /// From now on whatever is asked for one ticket has a weather of its own.
    pub fn set_for_ticket(&self, id: TicketId, weather: Weather) {
        self.air().tickets.insert(id, weather);
    }

    /// A partition begins: nothing passes, and what is under way is lost.
    pub fn cut(&self) {
        self.air().cut = true;
    }

    /// The partition ends.
    pub fn heal(&self) {
        self.air().cut = false;
    }

    /// Whether there is a partition.
    pub fn is_cut(&self) -> bool {
        self.air().cut
    }

    /// The weather for one question.
    pub fn weather(&self, asked: Asked<'_>) -> Weather {
        self.weather_for(asked.verb, asked.id())
    }

    pub(super) fn weather_for(&self, verb: Verb, id: Option<TicketId>) -> Weather {
        let air = self.air();
        let own = id.and_then(|id| air.tickets.get(&id));
        own.or_else(|| air.verbs.get(&verb)).copied().unwrap_or(air.weather)
    }

    fn air(&self) -> MutexGuard<'_, Air> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
