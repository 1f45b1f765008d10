//! What happens to all lines, told from what happens to nodes: each line is kept as core's own state machine.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::event::{Cursor, Event, EventBatch, Scope};
use tenure_core::line::{LineEvent, Slot};
use tenure_core::{Error, LeaveMode, Line, Result, TicketId};
use tokio::sync::{Notify, mpsc};

use crate::contract::{Change, Followed, Store, Why};
use crate::node::{LineId, Node};
use crate::parts::Parts;

/// Onlookers who fall behind by more events than this miss some.
const EVENTS_MAX: usize = 4096;
/// After so long without news the store is asked whether it is there: nothing else tells peace from an outage.
const QUIET: Duration = Duration::from_secs(10);
/// In an outage it is asked again after so long.
const OUTAGE: Duration = Duration::from_secs(1);
/// The store is no longer followed when nobody has asked for so long.
const IDLE: Duration = Duration::from_secs(120);

type Moment = (u64, Vec<Change>);

/// Follows the store for as long as somebody looks on.
#[derive(Default)]
pub(crate) struct Onlooker {
    following: Mutex<Option<Arc<Following>>>,
    beginning: tokio::sync::Mutex<()>,
}

/// What has happened since the store was first followed, and the latest of it.
#[derive(Default)]
struct Following {
    seen: Mutex<Past>,
    news: Notify,
    stop: Notify,
    asked: Notify,
}

#[derive(Default)]
struct Past {
    /// Each with the moment at which it happened.
    events: VecDeque<(u64, Event)>,
    /// What happened up to this moment is not known any more.
    before: u64,
    /// What happened up to this moment is here.
    at: u64,
    /// Why the store did not answer when it was asked last.
    trouble: Option<Error>,
    ended: bool,
}

impl Onlooker {
    /// What happened in scope after the cursor; `None` if this store cannot be followed.
    pub(crate) async fn events<S: Store>(
        self: &Arc<Self>,
        parts: &Arc<Parts<S>>,
        scope: &Scope,
        after: Option<Cursor>,
    ) -> Result<Option<EventBatch>> {
        let Some(following) = self.following(parts).await? else { return Ok(None) };
        let Some(Cursor(mut after)) = after else {
            let cursor = Cursor(parts.in_time(parts.store.now()).await?);
            return Ok(Some(EventBatch { events: Vec::new(), cursor, missed: false }));
        };
        loop {
            let mut news = pin!(following.news.notified());
            news.as_mut().enable();
            following.asked.notify_one();
            {
                let seen = following.seen();
                if let Some(news) = seen.since(after, scope) {
                    return Ok(Some(news));
                }
                if let Some(trouble) = &seen.trouble {
                    return Err(trouble.clone());
                }
                // Nothing happened here until then, however much may happen elsewhere.
                after = after.max(seen.at);
            }
            match select(news, parts.host.sleep(IDLE / 4)).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
    }

    /// Nobody looks on any more.
    pub(crate) fn stop(&self) {
        if let Some(following) = self.slot().take() {
            following.stop.notify_one();
        }
    }

    async fn following<S: Store>(
        self: &Arc<Self>,
        parts: &Arc<Parts<S>>,
    ) -> Result<Option<Arc<Following>>> {
        if let Some(following) = self.begun() {
            return Ok(Some(following));
        }
        let (this, begins) = (self.clone(), parts.clone());
        parts.errand(async move { this.follow(&begins).await }).await
    }

    fn begun(&self) -> Option<Arc<Following>> {
        self.slot().clone().filter(|following| !following.seen().ended)
    }

    async fn follow<S: Store>(&self, parts: &Arc<Parts<S>>) -> Result<Option<Arc<Following>>> {
        let _alone = self.beginning.lock().await;
        if let Some(following) = self.begun() {
            return Ok(Some(following));
        }
        let Some(followed) = parts.store.follow().await? else { return Ok(None) };
        let following = Arc::new(Following::default());
        following.seen().begin(followed.at);
        let (task, asks) = (following.clone(), parts.clone());
        parts.host.spawn(Box::pin(async move { task.run(followed, &asks).await }));
        *self.slot() = Some(following.clone());
        Ok(Some(following))
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Following>>> {
        self.following.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Onlooker {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Following {
    async fn run<S: Store>(&self, followed: Followed, parts: &Parts<S>) {
        let host = &*parts.host;
        let Followed { nodes, at, mut changes } = followed;
        let mut lines = Lines::default();
        for node in nodes {
            lines.apply(vec![Change::Is(node)], 0, &mut |_| {});
        }
        let mut wall = host.wall_us();
        debug_assert_eq!(self.seen().at, at, "it was begun at the moment of the nodes");
        let mut unwanted = pin!(self.unwanted(host));
        loop {
            let next = pin!(self.next(&mut changes, parts));
            let Either::Left((Some((at, some)), _)) = select(next, &mut unwanted).await else {
                break;
            };
            wall = wall.max(host.wall_us());
            let mut events = Vec::new();
            lines.apply(some, wall, &mut |event| events.push(event));
            self.seen().add(at, events);
            self.news.notify_waiters();
        }
        self.seen().ended = true;
        self.news.notify_waiters();
    }

    /// The next moment. The store is asked now and then whether it is there, and those who look on are told if it is not.
    async fn next<S: Store>(
        &self,
        changes: &mut mpsc::Receiver<Moment>,
        parts: &Parts<S>,
    ) -> Option<Moment> {
        loop {
            let pause = if self.seen().trouble.is_some() { OUTAGE } else { QUIET };
            let there = async {
                parts.host.sleep(pause).await;
                parts.in_time(parts.store.now()).await
            };
            match select(pin!(changes.recv()), pin!(there)).await {
                Either::Left((moment, _)) => {
                    self.seen().trouble = None;
                    return moment;
                }
                Either::Right((there, _)) => {
                    let trouble = there.err();
                    let is_away = trouble.is_some();
                    self.seen().trouble = trouble;
                    if is_away {
                        self.news.notify_waiters();
                    }
                }
            }
        }
    }

    /// Ready when nobody looks on any more.
    async fn unwanted(&self, host: &dyn tenure_core::Runtime) {
        let mut stop = pin!(self.stop.notified());
        loop {
            let asked = pin!(self.asked.notified());
            match select(&mut stop, select(asked, host.sleep(IDLE))).await {
                Either::Right((Either::Left(_), _)) => {}
                Either::Left(_) | Either::Right((Either::Right(_), _)) => return,
            }
        }
    }

    fn seen(&self) -> MutexGuard<'_, Past> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Past {
    fn begin(&mut self, at: u64) {
        (self.before, self.at) = (at, at);
    }

    fn add(&mut self, at: u64, events: Vec<Event>) {
        self.at = at;
        self.events.extend(events.into_iter().map(|event| (at, event)));
        while self.events.len() > EVENTS_MAX
            && let Some((at, _)) = self.events.pop_front()
        {
            self.before = at;
        }
    }

    /// What happened in scope after a moment; `None` if nothing did.
    fn since(&self, after: u64, scope: &Scope) -> Option<EventBatch> {
        let cursor = Cursor(self.at.max(after));
        if self.ended || after < self.before {
            return Some(EventBatch { events: Vec::new(), cursor, missed: true });
        }
        let new = self.events.iter().filter(|(at, _)| *at > after);
        let new = new.filter(|(_, event)| scope.covers(&event.ticket.key));
        let events: Vec<Event> = new.map(|(_, event)| event.clone()).collect();
        (!events.is_empty()).then_some(EventBatch { events, cursor, missed: false })
    }
}

/// All lines, as what happened to their nodes makes them.
#[derive(Default)]
struct Lines(HashMap<LineId, Line>);

impl Lines {
    /// What happened at one moment. Those who expired together are out before anyone is served in their place.
    fn apply(&mut self, changes: Vec<Change>, at_us: u64, tell: &mut dyn FnMut(Event)) {
        let mut tell = |told: LineEvent<'_>| {
            let LineEvent { kind: what, slot: seat, .. } = told;
            tell(Event { at_us, kind: what, ticket: seat.ticket.clone(), number: seat.number });
        };
        let mut expired: BTreeMap<LineId, Vec<TicketId>> = BTreeMap::new();
        for change in changes {
            match change {
                Change::Is(node) => self.is(node, &mut tell),
                Change::Gone(line, id, Why::Expired) => expired.entry(line).or_default().push(id),
                Change::Gone(line, id, why) => self.gone(&line, id, why, &mut tell),
            }
        }
        for (id, tickets) in expired {
            if let Some(line) = self.0.get_mut(&id) {
                line.remove_where(|seat| tickets.contains(&seat.ticket.id), &mut tell);
            }
            self.forget_if_empty(&id);
        }
    }

    fn is(&mut self, node: Node, tell: &mut dyn FnMut(LineEvent<'_>)) {
        let (number, leaving, id) = (node.number(), node.told, node.name.id);
        let line = self.0.entry(node.name.line).or_default();
        if line.find_place(id, 0).is_none() {
            let seat = Slot { ticket: node.ticket, session: (), number, ends: None, leaving };
            if !line.restore(seat, tell) {
                tracing::debug!(%id, "a node that cannot be in its line is not told");
            }
            return;
        }
        line.renew(&node.ticket, 0, tell);
        if leaving {
            line.leave(id, LeaveMode::Graceful, 0, tell);
        }
    }

    fn gone(&mut self, line: &LineId, id: TicketId, why: Why, tell: &mut dyn FnMut(LineEvent<'_>)) {
        let how = if why == Why::Broken { LeaveMode::Graceful } else { LeaveMode::Now };
        if let Some(line) = self.0.get_mut(line) {
            line.leave(id, how, 0, tell);
        }
        self.forget_if_empty(line);
    }

    fn forget_if_empty(&mut self, line: &LineId) {
        if self.0.get(line).is_some_and(Line::is_empty) {
            self.0.remove(line);
        }
    }
}
