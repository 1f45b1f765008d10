//! The contract of a queue, filled in by etcd.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::{join_all, select_all, try_join_all};
use tenure_core::{Error, ErrorKind, Guarantees, Key, Loss, Result, TicketId};
use tenure_queue::{
    Distance, Door, Enter, Entered, Followed, Front, Granted, LineId, Name, Node, Register, Remove,
    Removed, SessionId, Sought, Store, Told, Watching, Why, Written,
};
use tokio::sync::oneshot;

use crate::berths::Asking;
use crate::client::{Etcd, PAGE};
use crate::entry::{Came, Tickets};
use crate::keys::{Berth, answered_at, revision, value};
use crate::latches::Latch;
use crate::neighbours::{Ear, is_put_again};
use crate::wire::{KeyValue, RangeResponse, TxnResponse};
use crate::{ask, entry, facts, journal};

/// Maximum operations of one transaction. A member takes 128 by default.
const OPERATIONS_MAX: usize = 100;

impl Store for Etcd {
    fn profile(&self) -> Guarantees {
        self.profile.clone()
    }

    fn silence(&self) -> Error {
        self.cluster.silence()
    }

    fn place_of_line(&self, line: &LineId) -> String {
        let from = self.keys.line(line).from;
        let whom = self.cluster.settings().whom();
        format!("in a key that begins with {} by {whom}", String::from_utf8_lossy(&from))
    }

    fn place_of_register(&self, register: &Register) -> String {
        let key = self.keys.register(register);
        let whom = self.cluster.settings().whom();
        format!("in the key {} by {whom}", String::from_utf8_lossy(&key))
    }

    async fn open(&self, ttl: Duration) -> Result<Granted> {
        let granted = self.grant(ttl.max(self.cluster.settings().session_ttl)).await?;
        let number = match self.claim(granted.id).await {
            Ok(number) => number,
            Err(error) => {
                if self.revoke(granted.id).await.is_ok() {
                    self.asked_lease().take();
                }
                return Err(error);
            }
        };
        let session = granted.id.cast_unsigned();
        self.berths.open(session, number);
        self.latches.open(session);
        self.asked_lease().take();
        let ttl = Duration::from_secs(granted.ttl.unsigned_abs());
        Ok(Granted { session, ttl, every: ttl / 3 })
    }

    async fn keep(&self, session: SessionId, within: Duration) -> Result<Option<Duration>> {
        self.sign(session, within).await
    }

    async fn end(&self, session: SessionId) -> Result<()> {
        self.berths.end(session);
        self.latches.end(session);
        self.revoke(session.cast_signed()).await
    }

    async fn lives(&self, sessions: &[SessionId]) -> Vec<Option<Duration>> {
        let life = async |session: &SessionId| {
            let answer = self.lease(*session, false).await.ok()?;
            // A lease that is gone has a negative ttl.
            u64::try_from(answer.ttl).ok().map(Duration::from_secs)
        };
        join_all(sessions.iter().map(life)).await
    }

    async fn enter(&self, enter: &Enter<'_>) -> Result<Entered> {
        let Enter { name, session, .. } = *enter;
        let latch = self.latches.of(name.id, session);
        let (berth, asking) = self.berths.take(name, session, latch.shut)?;
        let came = match self.enter_at(enter, berth, &latch, &asking).await {
            Err(error) => {
                if self.is_out_for(name, &error).await {
                    asking.answered();
                }
                return Err(error);
            }
            Ok(came) => came,
        };
        match came {
            Came::To(entered) => {
                // A ticket that joined stays in doubt until its place is known. If it is refused
                // before that, it is removed.
                let entered = self.stands(name, *entered).await?;
                asking.answered();
                return Ok(entered);
            }
            Came::Shut(now, at) => self.latches.was_seen(now, at),
            // It stays in doubt, and is removed.
            Came::Behind(error) => return Err(error),
            Came::Strange => return Err(self.cluster.strange()),
            // It must not join twice: the earlier caller removes it first.
            Came::Elsewhere if asking.was_asked_before() => return Err(self.silence()),
            Came::Elsewhere => self.berths.elsewhere(name, session)?,
        }
        asking.answered();
        // The ticket may have been given up meanwhile: only a caller that still wants it may retry.
        Ok(Entered::Again)
    }

    async fn front(&self, line: &LineId, most: usize, whose: Option<&Name>) -> Result<Front> {
        let front = if most > PAGE {
            self.front_in_pages(line, most).await?
        } else {
            let (range, at) = self.cluster.range(ask::first(self.keys.line(line), most)).await?;
            entry::front(&self.keys, &range, at)
        };
        if let Some(name) = whose {
            let own = front.nodes.iter().find(|node| node.name == *name);
            let before = own.map_or(u64::MAX, |node| node.created);
            entry::refuse_unreadable(front.unreadable, before)?;
            self.neighbours.note(name.id, &front.nodes);
        }
        Ok(front)
    }

    async fn ahead(&self, node: &Node, most: usize) -> Result<Vec<Node>> {
        let (range, _) = self.cluster.range(entry::ahead(&self.keys, node, most)).await?;
        let ahead = Tickets::of(&self.keys, &range);
        entry::refuse_unreadable(ahead.unreadable, node.created)?;
        Ok(ahead.nodes)
    }

    async fn look(&self, sought: &[Sought<'_>]) -> Result<(Vec<Option<Node>>, u64)> {
        let key = |sought: &Sought<'_>| match *sought {
            Sought::Seen(node) => self.keys.seen(node),
            Sought::Own(name) => match self.berths.of(name.id) {
                Some(berth) => self.keys.ticket(name, berth),
                None => self.keys.nowhere(name),
            },
        };
        let (ranges, at) = self.gets(sought.iter().map(key)).await?;
        let node = |(range, sought): (RangeResponse, &Sought<'_>)| {
            let node = range.kvs.first().and_then(|kept| self.keys.node(kept));
            // Another ticket may have taken the same berth since.
            node.filter(|node| node.name == *sought.name())
        };
        Ok((ranges.into_iter().zip(sought).map(node).collect(), at))
    }

    async fn orphans(&self, session: SessionId) -> Result<Vec<Node>> {
        self.orphans_of(session).await
    }

    fn is_doubtful(&self, ticket: TicketId) -> bool {
        self.berths.is_doubtful(ticket)
    }

    fn forget(&self, ticket: TicketId) {
        self.berths.forget(ticket);
        self.neighbours.forget(ticket);
    }

    async fn change(&self, node: &Node, body: &[u8]) -> Result<Option<Node>> {
        let kept = value(node.name.id, body);
        let answer =
            self.cluster.txn(entry::change(self.keys.seen(node), kept, node.version)).await?;
        let at = answered_at(answer.header);
        if !answer.succeeded {
            return Ok(None);
        }
        let now = Node::read(node.name.clone(), node.session, node.created, at, body);
        Ok(now.map(|now| Node { berth: node.berth, ..now }))
    }

    async fn remove(&self, remove: &Remove<'_>) -> Result<Removed> {
        let id = remove.node.name.id;
        self.berths.leaves(id);
        let is_doubtful = self.berths.is_doubtful(id);
        let latch = is_doubtful.then(|| self.latches.of(id, remove.node.session));
        let next = remove.next.is_none() && remove.is_all;
        let next = next.then(|| self.neighbours.next_of(remove.node)).flatten();
        let is_plain = latch.is_none() && remove.provided.is_empty() && remove.why == Why::Left;
        let send = async |next: Option<&Node>| {
            let txn = entry::remove(&self.keys, remove, latch.as_ref(), next);
            let line = &remove.node.name.line;
            if is_plain && next.is_none() {
                return self.together.release(line, txn).await;
            }
            self.together.part(line);
            self.cluster.txn(txn).await
        };
        let answer = match send(next.as_ref()).await {
            // The expected next ticket has left.
            Ok(answer) if next.is_some() && !answer.succeeded => send(None).await,
            answer => answer,
        };
        let answer = match answer {
            Err(error) if is_over(&error) => TxnResponse::default(),
            Err(error) if error.kind() == ErrorKind::Rejected => {
                return self.remove_only(remove).await;
            }
            answer => answer?,
        };
        if let Some(latch) = latch {
            self.was_shut(id, latch, &answer);
        }
        Ok(entry::removed(&self.keys, remove, answer))
    }

    async fn forestall(&self, name: &Name, session: SessionId) -> Result<Option<Node>> {
        let (latch, berth) = (self.latches.of(name.id, session), self.berths.of(name.id));
        let answer = match self.cluster.txn(entry::forestall(&self.keys, name, berth, &latch)).await
        {
            // It would join with that session, or never.
            Err(error) if is_over(&error) => TxnResponse::default(),
            // A full member shuts no latch. A ticket that has joined already can be removed there
            // all the same.
            Err(error) if error.kind() == ErrorKind::Rejected => {
                let node = self.look(&[Sought::Own(name)]).await?.0.pop().flatten();
                return node.map(Some).ok_or(error);
            }
            answer => answer?,
        };
        self.was_shut(name.id, latch, &answer);
        let there = ask::ranges(answer).next().and_then(|range| range.kvs.into_iter().next());
        let node = there.and_then(|kept| self.keys.node(&kept));
        Ok(node.filter(|node| node.name == *name))
    }

    async fn watch(&self, nodes: &[Node], distance: Distance) -> Result<Watching> {
        if let ([own, ahead], Distance::Next | Distance::Near) = (nodes, distance) {
            return self.watch_line(own, ahead).await;
        }
        let connection = self.cluster.link.connection().await?;
        // All at once: one after the other would take a round trip each.
        let watch = |node: &Node| connection.watches.key(self.keys.seen(node), node.version);
        let begun = try_join_all(nodes.iter().map(watch)).await;
        let begun = begun.map_err(|status| self.cluster.failed(&connection, &status))?;
        let at = begun.iter().map(|news| revision(news.watch.at)).max().unwrap_or(0);
        let all = begun.into_iter().zip(nodes).map(|(mut news, node)| {
            let (keys, known) = (self.keys.clone(), node.clone());
            Box::pin(async move {
                // A release of the one ahead of it puts a key again, which is no news for the
                // ticket behind.
                while let Some(answer) = news.next().await
                    && answer.events.iter().all(|event| is_put_again(&keys, event, &known))
                    && !answer.canceled
                    && answer.compact_revision == 0
                {}
            })
        });
        let changed = select_all(all);
        let changed = Box::pin(async move {
            changed.await;
            Told::Change
        });
        Ok(Watching { at, changed })
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let mut keys = BTreeSet::new();
        let each = |kept: &KeyValue| {
            let key = self.keys.node(kept).map(|node| node.ticket.key);
            keys.extend(key.filter(|key| key.as_str().starts_with(prefix)));
        };
        self.list(self.keys.tickets(), each).await?;
        Ok(keys.into_iter().collect())
    }

    async fn read(&self, register: &Register) -> Result<Written> {
        let (range, _) = self.cluster.range(ask::get(self.keys.register(register))).await?;
        entry::written(range)
    }

    async fn write(
        &self,
        register: &Register,
        value: u64,
        version: u64,
    ) -> Result<(Written, bool)> {
        let key = self.keys.register(register);
        let answer =
            self.cluster.txn(entry::write(key, value.to_string().into_bytes(), version)).await?;
        let at = answered_at(answer.header);
        if answer.succeeded {
            return Ok((Written { value, version: at }, true));
        }
        Ok((entry::written(ask::ranges(answer).next().unwrap_or_default())?, false))
    }

    async fn follow(&self) -> Result<Option<Followed>> {
        journal::follow(self).await.map(Some)
    }

    async fn now(&self) -> Result<u64> {
        self.now_at().await
    }

    async fn close(&self) {
        let asked = self.asked_lease().take();
        if let Some(id) = asked {
            // If that is not answered, the lease ends by itself.
            let _ = self.revoke(id).await;
        }
    }
}

/// Returns whether the lease of the request is gone, with all keys bound to it.
fn is_over(error: &Error) -> bool {
    error.loss() == Some(Loss::SessionGone)
}

impl Etcd {
    async fn front_in_pages(&self, line: &LineId, most: usize) -> Result<Front> {
        let mut tickets = Tickets::default();
        let at = self.list(self.keys.line(line), |kept| tickets.add(&self.keys, kept)).await?;
        let Tickets { mut nodes, unreadable } = tickets;
        nodes.sort_by_key(|node| node.created);
        let total = nodes.len();
        nodes.truncate(most);
        Ok(Front { nodes, total, at, unreadable, ahead: None })
    }

    /// Watches a short line for one of its tickets. The watch goes on when the ticket is served.
    async fn watch_line(&self, own: &Node, ahead: &Node) -> Result<Watching> {
        let connection = self.cluster.link.connection().await?;
        let ((tell, told), behind) = (oneshot::channel(), self.neighbours.behind(own.name.id));
        let (keys, own_now, ahead) = (self.keys.clone(), own.clone(), ahead.clone());
        let mut ear = Ear::new(keys, own_now, ahead, behind.clone(), tell);
        let (line, id) = (self.keys.line(&own.name.line), own.name.id);
        let watch = connection.watches.tell(line, own.created, move |events| ear.hear(events));
        let watch = watch.await.map_err(|status| self.cluster.failed(&connection, &status))?;
        let at = revision(watch.at);
        self.neighbours.keep(id, watch, behind);
        if self.berths.of(id).is_none() {
            // The ticket was forgotten meanwhile.
            self.neighbours.forget(id);
        }
        let changed = Box::pin(async move { told.await.unwrap_or(Told::Change) });
        Ok(Watching { at, changed })
    }

    /// Reads these keys. Returns each as it was at a moment after the call, and the first of these
    /// moments. Uses as few transactions as a member takes, unless it could end by that.
    pub(crate) async fn gets(
        &self,
        keys: impl Iterator<Item = Vec<u8>>,
    ) -> Result<(Vec<RangeResponse>, u64)> {
        if facts::survives_lost_readers(self.cluster.version().await?.as_deref()) {
            let keys: Vec<_> = keys.collect();
            let looks = keys.chunks(OPERATIONS_MAX).map(|some| entry::look(some.iter().cloned()));
            let answers = try_join_all(looks.map(|look| self.cluster.txn(look))).await?;
            let at = answers.iter().map(|answer| answered_at(answer.header)).min().unwrap_or(0);
            return Ok((answers.into_iter().flat_map(ask::ranges).collect(), at));
        }
        let answers = try_join_all(keys.map(|key| self.cluster.range(ask::get(key)))).await?;
        let at = answers.iter().map(|(_, at)| *at).min().unwrap_or(0);
        Ok((answers.into_iter().map(|(range, _)| range).collect(), at))
    }

    async fn enter_at(
        &self,
        enter: &Enter<'_>,
        berth: Berth,
        latch: &Latch,
        asking: &Asking<'_>,
    ) -> Result<Came> {
        let line = &enter.name.line;
        let is_plain = enter.door == Door::Open && enter.base_version == 0 && asking.is_alone();
        let asks_alone = is_plain && self.free.seems(line);
        if asks_alone {
            let answer =
                self.cluster.txn(entry::enter_alone(&self.keys, enter, berth, latch)).await?;
            if let Some(entered) = entry::entered_alone(enter, berth, &answer)? {
                return Ok(Came::To(Box::new(entered)));
            }
        }
        let is_first_try = enter.door == Door::Unchanged(0) && enter.base_version == 0;
        if is_first_try
            && !asking.was_asked_before()
            && !self.free.seems(line)
            && let Some(out) = self.look_first(enter.name).await?
        {
            return Ok(Came::To(Box::new(out)));
        }
        let txn = entry::enter(&self.keys, enter, berth, latch);
        // A ticket that takes the whole capacity is served after those in any case.
        let is_behind = asking.has_others() && enter.door == Door::Open && enter.is_all;
        let answer = if is_behind {
            self.together.join(line, txn).await?
        } else {
            self.cluster.txn(txn).await?
        };
        let came = entry::entered(&self.keys, enter, berth, latch, answer)?;
        if let Came::To(entered) = &came {
            let is_free = match &**entered {
                // If the line is empty, and the request for an empty line was refused, the line has
                // a base, which stays.
                Entered::In { front, .. } => front.total < 2 && !asks_alone,
                Entered::Out { front, .. } => front.total == 0,
                Entered::Again => false,
            };
            self.free.note(line, is_free);
        }
        Ok(came)
    }

    /// Returns where a ticket stands that is in its line.
    async fn stands(&self, name: &Name, entered: Entered) -> Result<Entered> {
        let entered = self.once(entered).await?;
        if let Entered::In { node, .. } = &entered {
            self.berths.came_in(name.id, node.created);
        }
        self.with_front(entered).await
    }

    /// Notes that requests for this ticket with the latch, or with an earlier one, are refused.
    fn was_shut(&self, id: TicketId, latch: Latch, answer: &TxnResponse) {
        let at = answer.header.map(|header| revision(header.revision));
        if let Some(at) = at {
            self.latches.was_shut(latch, at);
        }
        // If nothing was put, the session is over.
        self.berths.forestalled(id, at.unwrap_or(u64::MAX));
    }

    /// Reads the whole line if its last tickets do not show where a new ticket stands.
    async fn with_front(&self, entered: Entered) -> Result<Entered> {
        match entered {
            Entered::In { node, front, fresh: true } if !entry::tells_enough(&front) => {
                let name = &node.name;
                let front = self.front(&name.line, front.total, Some(name)).await?;
                Ok(Entered::In { node, front, fresh: true })
            }
            entered => Ok(entered),
        }
    }

    /// Removes a ticket that joined although a copy of its process has one of the same id there.
    async fn once(&self, entered: Entered) -> Result<Entered> {
        let Entered::In { node, front, fresh: true } = &entered else { return Ok(entered) };
        let Some(twin) = entry::twin(front, &node.name, node.created) else { return Ok(entered) };
        self.remove(&Remove::just(node)).await?;
        Ok(Entered::In { node: twin, front: front.clone(), fresh: false })
    }
}
