//! An observer of an election sees each leader once, also if the store reports other events.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use futures_util::FutureExt as _;
use tenure_core::blocking::block_on;
use tenure_core::event::{Cursor, Event, EventBatch, EventKind, Scope};
use tenure_core::layers::Layer;
use tenure_core::{
    Engine as _, Key, Leader, Leaders, LeaveMode, Locks, Memory, Result, Share, Ticket, WaitMode,
};

/// A memory store with scripted events.
#[derive(Clone, Default)]
struct Store {
    memory: Memory,
    news: Arc<Mutex<VecDeque<EventBatch>>>,
}

impl Layer for Store {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    async fn events(&self, _: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        if after.is_none() {
            return Ok(EventBatch { events: Vec::new(), cursor: Cursor(0), missed: false });
        }
        let told = || self.news.lock().unwrap().pop_front();
        poll_fn(|_| told().map_or(Poll::Pending, |news| Poll::Ready(Ok(news)))).await
    }
}

/// A leader and an observer.
struct Stage {
    store: Store,
    leader: Ticket,
    number: u64,
    leaders: Leaders,
}

impl Stage {
    fn new() -> Self {
        let (store, leader) = (Store::default(), ticket());
        block_on(async {
            let number = store.memory.join(&leader, WaitMode::Wait).await.unwrap().unwrap().number;
            let locks = Locks::new(store.clone());
            let mut leaders = locks.election("a").observe().await.unwrap();
            let first = leaders.next().await.unwrap();
            assert_eq!(first.map(|first| first.term), Some(number));
            Self { store, leader, number, leaders }
        })
    }

    fn tell(&self, events: Vec<Event>, missed: bool) {
        let news = EventBatch { events, cursor: Cursor(0), missed };
        self.store.news.lock().unwrap().push_back(news);
    }

    /// The events to report.
    fn told(&mut self, what: EventKind, ticket: &Ticket, number: u64) -> Vec<Option<Leader>> {
        self.tell(vec![Event::new(what, 0, ticket.clone(), number)], false);
        self.next()
    }

    /// The leader after this event.
    fn leads(&mut self, what: EventKind, ticket: &Ticket, number: u64) -> Leader {
        let told = self.told(what, ticket, number);
        let [Some(leader)] = &told[..] else { panic!("{told:?} is told") };
        leader.clone()
    }

    fn next(&mut self) -> Vec<Option<Leader>> {
        let next = || self.leaders.next().now_or_never();
        std::iter::from_fn(next).map(Result::unwrap).collect()
    }
}

fn ticket() -> Ticket {
    Ticket::new(Key::new("a").unwrap(), Share::WHOLE)
}

#[test]
fn only_what_a_newer_leader_or_the_one_of_now_does_is_news() {
    let mut stage = Stage::new();
    let (leader, number, other) = (stage.leader.clone(), stage.number, ticket());
    assert_eq!(stage.told(EventKind::Served, &leader, number), [], "it was seen at the start");
    assert_eq!(stage.told(EventKind::Served, &other, number - 1), [], "that was before");
    for what in [EventKind::Changed, EventKind::Left, EventKind::Expired] {
        assert_eq!(stage.told(what, &other, number + 1), [], "it does not lead");
    }
    assert_eq!(stage.told(EventKind::Broken, &leader, number), [], "it leads until it has left");
    assert_eq!(stage.told(EventKind::Changed, &leader, number), [], "its note is the same");
    let noted = leader.with_note("nearly done").unwrap();
    let now = stage.leads(EventKind::Changed, &noted, number);
    assert_eq!((now.term, &*now.note), (number, "nearly done"));
    let now = stage.leads(EventKind::Served, &other, number + 1);
    assert_eq!((now.term, now.id), (number + 1, other.id));
    assert_eq!(stage.told(EventKind::Left, &noted, number), [], "it led before");
    assert_eq!(stage.told(EventKind::Expired, &other, number + 1), [None]);
    assert_eq!(stage.told(EventKind::Left, &other, number + 1), [], "nobody leads any more");
}

#[test]
fn after_a_gap_only_what_is_new_is_told() {
    let mut stage = Stage::new();
    stage.tell(Vec::new(), true);
    assert_eq!(stage.next(), [], "the same one leads");
    block_on(stage.store.memory.leave(&stage.leader, LeaveMode::Now)).unwrap();
    stage.tell(Vec::new(), true);
    assert_eq!(stage.next(), [None], "nobody leads any more");
}
