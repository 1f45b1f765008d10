//! Events of all lines, made from changes of nodes. Each line is one of core's state machines.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::event::{Cursor, Event, EventBatch, Scope};
use tenure_core::line::{LineEvent, Slot};
use tenure_core::sync::Mutex;
use tenure_core::{Error, LeaveMode, Line, Result, TicketId};
use tokio::sync::{Notify, mpsc};

use crate::contract::{ChangesAt, Followed, NodeChange, SessionStore, Why};
use crate::node::{LineId, Node};
use crate::parts::Parts;

/// Maximum events kept. An onlooker that falls behind by more misses some.
const EVENTS_MAX: usize = 4096;
/// Interval without events after which the client asks the store whether it is there. Otherwise it
/// cannot distinguish peace from an outage.
const QUIET: Duration = Duration::from_secs(10);
/// Interval of these requests in an outage.
const OUTAGE: Duration = Duration::from_secs(1);
/// Time without a call of an onlooker after which the subscription ends.
const IDLE: Duration = Duration::from_secs(120);

/// A subscription to the store for as long as there are onlookers.
#[derive(Default)]
pub(crate) struct EventFeed {
    following: Mutex<Option<Arc<ChangeSubscription>>>,
    beginning: tokio::sync::Mutex<()>,
}

/// The latest events since the subscription began.
#[derive(Default)]
struct ChangeSubscription {
    seen: Mutex<RecentEvents>,
    news: Notify,
    stop: Notify,
    asked: Notify,
}

#[derive(Default)]
struct RecentEvents {
    /// Events with the moments at which they happened.
    events: VecDeque<(u64, Event)>,
    /// Events up to this moment are not kept any more.
    before: u64,
    /// Events up to this moment are known.
    at: u64,
    /// The error of the last request, if the store did not answer it.
    trouble: Option<Error>,
    ended: bool,
}

impl EventFeed {
    /// Returns the events in scope after the cursor; `None` if this store cannot report changes.
    pub(crate) async fn events<S: SessionStore>(
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
                let seen = following.seen.lock();
                if let Some(news) = seen.since(after, scope) {
                    return Ok(Some(news));
                }
                if let Some(trouble) = &seen.trouble {
                    return Err(trouble.clone());
                }
                // No event in scope happened until then. There may be many elsewhere.
                after = after.max(seen.at);
            }
            match select(news, parts.host.sleep(IDLE / 4)).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
    }

    /// Ends the subscription.
    pub(crate) fn stop(&self) {
        if let Some(following) = self.following.lock().take() {
            following.stop.notify_one();
        }
    }

    async fn following<S: SessionStore>(
        self: &Arc<Self>,
        parts: &Arc<Parts<S>>,
    ) -> Result<Option<Arc<ChangeSubscription>>> {
        if let Some(following) = self.begun() {
            return Ok(Some(following));
        }
        let (this, begins) = (self.clone(), parts.clone());
        parts.errand(async move { this.follow(&begins).await }).await
    }

    fn begun(&self) -> Option<Arc<ChangeSubscription>> {
        self.following.lock().clone().filter(|following| !following.seen.lock().ended)
    }

    async fn follow<S: SessionStore>(
        &self,
        parts: &Arc<Parts<S>>,
    ) -> Result<Option<Arc<ChangeSubscription>>> {
        let _guard = self.beginning.lock().await;
        if let Some(following) = self.begun() {
            return Ok(Some(following));
        }
        let Some(followed) = parts.store.follow().await? else { return Ok(None) };
        let following = Arc::new(ChangeSubscription::default());
        following.seen.lock().begin(followed.at);
        let (task, asks) = (following.clone(), parts.clone());
        parts.host.spawn(Box::pin(async move { task.run(followed, &asks).await }));
        *self.following.lock() = Some(following.clone());
        Ok(Some(following))
    }
}

impl Drop for EventFeed {
    fn drop(&mut self) {
        self.stop();
    }
}

impl ChangeSubscription {
    async fn run<S: SessionStore>(&self, followed: Followed, parts: &Parts<S>) {
        let host = &*parts.host;
        let Followed { nodes, at, mut changes } = followed;
        let mut lines = LinesOfNodes::default();
        for node in nodes {
            lines.apply(vec![NodeChange::Is(node)], 0, &mut |_| {});
        }
        let mut wall = host.wall_us();
        debug_assert_eq!(self.seen.lock().at, at, "it was begun at the moment of the nodes");
        let mut unwanted = pin!(self.unwanted(host));
        loop {
            let next = pin!(self.next(&mut changes, parts));
            let Either::Left((Some((at, some)), _)) = select(next, &mut unwanted).await else {
                break;
            };
            wall = wall.max(host.wall_us());
            let mut events = Vec::new();
            lines.apply(some, wall, &mut |event| events.push(event));
            self.seen.lock().add(at, events);
            self.news.notify_waiters();
        }
        self.seen.lock().ended = true;
        self.news.notify_waiters();
    }

    /// Returns the next moment. Asks the store now and then whether it is there, and notifies
    /// onlookers if it is not.
    async fn next<S: SessionStore>(
        &self,
        changes: &mut mpsc::Receiver<ChangesAt>,
        parts: &Parts<S>,
    ) -> Option<ChangesAt> {
        loop {
            let pause = if self.seen.lock().trouble.is_some() { OUTAGE } else { QUIET };
            let there = async {
                parts.host.sleep(pause).await;
                parts.in_time(parts.store.now()).await
            };
            match select(pin!(changes.recv()), pin!(there)).await {
                Either::Left((moment, _)) => {
                    self.seen.lock().trouble = None;
                    return moment;
                }
                Either::Right((there, _)) => {
                    let trouble = there.err();
                    let is_away = trouble.is_some();
                    self.seen.lock().trouble = trouble;
                    if is_away {
                        self.news.notify_waiters();
                    }
                }
            }
        }
    }

    /// Ready when there are no onlookers any more.
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
}

impl RecentEvents {
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

    /// Returns the events in scope after a moment; `None` if there are none.
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

/// All lines, built from the changes of their nodes.
#[derive(Default)]
struct LinesOfNodes(HashMap<LineId, Line>);

impl LinesOfNodes {
    /// Applies the changes of one moment. Tickets that expired together are out before others are
    /// served in their place.
    fn apply(&mut self, changes: Vec<NodeChange>, at_us: u64, tell: &mut dyn FnMut(Event)) {
        let mut tell = |told: LineEvent<'_>| {
            let LineEvent { kind: what, slot: seat, .. } = told;
            tell(Event::new(what, at_us, seat.ticket.clone(), seat.number));
        };
        let mut expired: BTreeMap<LineId, Vec<TicketId>> = BTreeMap::new();
        for change in changes {
            match change {
                NodeChange::Is(node) => self.is(node, &mut tell),
                NodeChange::Gone(line, id, Why::Expired) => {
                    expired.entry(line).or_default().push(id);
                }
                NodeChange::Gone(line, id, why) => self.gone(&line, id, why, &mut tell),
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
                tracing::debug!(%id, "no event for a node that cannot be in its line");
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
