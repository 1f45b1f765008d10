//! `SessionStore`, the contract of a queue, implemented by etcd.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::{join_all, select_all, try_join_all};
use tenure_core::{Error, ErrorKind, Guarantees, Key, Loss, Result, TicketId, served};
use tenure_queue::{
    Enter, Entered, Followed, Front, Granted, Hint, LineId, Node, OpenWatch, Position, Register,
    RegisterValue, Remove, Removed, SessionId, SessionStore, Sought, TextValue, TicketName,
};

use crate::client::{Etcd, PAGE};
use crate::entry::{EnterReply, ReadTickets};
use crate::names::{answered_at, revision, value};
use crate::request_fences::RequestFence;
use crate::wire::{KeyValue, RangeResponse, TxnResponse};
use crate::{ask, entry, journal};

impl SessionStore for Etcd {
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
        let session = granted.id.cast_unsigned();
        if let Err(error) = self.cluster.txn(entry::open(&self.keys, session)).await {
            // If that is not answered, the lease ends by itself.
            let _ = self.revoke(granted.id).await;
            return Err(error);
        }
        self.ordinals.open(session);
        self.fences.open(session);
        let ttl = Duration::from_secs(granted.ttl.unsigned_abs());
        Ok(Granted { session, ttl, every: ttl / 3 })
    }

    async fn keep(&self, session: SessionId, within: Duration) -> Result<Option<Duration>> {
        self.keep_alive(session, within).await
    }

    async fn end(&self, session: SessionId) -> Result<()> {
        self.ordinals.end(session);
        self.fences.end(session);
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
        let fence = self.fences.of(name.id, session);
        let (ordinal, asking) = self.ordinals.take(name, session, fence.raised)?;
        let key = self.keys.ticket(name, session, ordinal);
        let txn = self.cluster.txn(entry::enter(&self.keys, enter, &key, &fence)).await;
        let reply = txn.and_then(|answer| entry::entered(&self.keys, enter, &key, &fence, answer));
        let reply = match reply {
            Err(error) => {
                if self.is_out_for(name, &error).await {
                    asking.answered();
                    return Err(error);
                }
                // A member may have carried out what it refused, and the ticket may be in its line.
                return Err(error.into_retryable());
            }
            Ok(reply) => reply,
        };
        let entered = match reply {
            EnterReply::Joined(node, last) => match self.stands(&node, last).await {
                Ok(entered) => Ok(entered),
                Err(error) => Err(self.take_back(&node, error).await?),
            },
            EnterReply::Unreadable(node, error) => Err(self.take_back(&node, error).await?),
            EnterReply::Decided(entered) => Ok(*entered),
            // The ticket may have been given up meanwhile: only a caller that still wants it may
            // retry.
            EnterReply::Fenced(now, at) => {
                self.fences.was_seen(now, at);
                Ok(Entered::Again)
            }
            // It must not join twice: the earlier caller removes it first.
            EnterReply::KeyTaken if asking.was_asked_before() => return Err(self.silence()),
            EnterReply::KeyTaken => self.ordinals.elsewhere(name, session).map(|()| Entered::Again),
            EnterReply::Malformed => return Err(self.cluster.strange()),
        };
        asking.answered();
        entered
    }

    async fn front(&self, line: &LineId, most: usize) -> Result<Front> {
        if most > PAGE {
            return self.front_in_pages(line, most).await;
        }
        let (range, at) = self.cluster.range(ask::first(self.keys.line(line), most)).await?;
        Ok(entry::front(&self.keys, &range, at))
    }

    async fn position(&self, sought: Sought<'_>) -> Result<Option<(Node, Position)>> {
        let name = sought.name();
        let front = self.front(&name.line, entry::PAGE).await?;
        let own = front.nodes.iter().find(|node| node.name == *name);
        entry::refuse_unreadable(front.unreadable, own.map_or(u64::MAX, |own| own.created))?;
        if let Some(own) = own {
            return Ok(Some((own.clone(), front.position_of(own))));
        }
        if front.nodes.len() >= front.total {
            return Ok(None);
        }
        let Some(own) = self.look(&[sought]).await?.0.pop().flatten() else { return Ok(None) };
        let position = self.far_back(&own, &front).await?;
        Ok(Some((own, position)))
    }

    async fn look(&self, sought: &[Sought<'_>]) -> Result<(Vec<Option<Node>>, u64)> {
        let key = |sought: &Sought<'_>| match *sought {
            Sought::Seen(node) => node.key.to_vec(),
            Sought::Own(name) => self.key_of(name).unwrap_or_else(|| self.keys.nowhere(name)),
        };
        let (ranges, at) = self.gets(sought.iter().map(key)).await?;
        let node = |(range, sought): (RangeResponse, &Sought<'_>)| {
            let node = range.kvs.first().and_then(|kept| self.keys.node(kept));
            // Another ticket may have the same key since.
            node.filter(|node| node.name == *sought.name())
        };
        Ok((ranges.into_iter().zip(sought).map(node).collect(), at))
    }

    async fn orphans(&self, session: SessionId) -> Result<Vec<Node>> {
        self.orphans_of(session).await
    }

    fn forget(&self, ticket: TicketId) {
        self.ordinals.forget(ticket);
    }

    async fn change(&self, node: &Node, body: &[u8]) -> Result<Option<Node>> {
        let kept = value(node.name.id, body);
        let answer = self.cluster.txn(entry::change(node.key.to_vec(), kept, node.version)).await?;
        let at = answered_at(answer.header);
        if !answer.succeeded {
            return Ok(None);
        }
        let now = Node::read(node.name.clone(), node.session, node.created, at, body);
        Ok(now.map(|now| Node { key: node.key.clone(), ..now }))
    }

    async fn remove(&self, remove: &Remove<'_>) -> Result<Removed> {
        let id = remove.node.name.id;
        let is_doubtful = self.ordinals.is_doubtful(id);
        let fence = is_doubtful.then(|| self.fences.of(id, remove.node.session));
        let txn = entry::remove(&self.keys, remove, fence.as_ref());
        let answer = match self.cluster.txn(txn).await {
            Err(error) if is_over(&error) => TxnResponse::default(),
            Err(error) if error.kind() == ErrorKind::Rejected => {
                return self.remove_only(remove).await;
            }
            answer => answer?,
        };
        if let Some(fence) = fence {
            self.was_raised(id, fence, &answer);
        }
        Ok(entry::removed(&self.keys, answer))
    }

    async fn fence_out(&self, name: &TicketName, session: SessionId) -> Result<Option<Node>> {
        let (fence, key) = (self.fences.of(name.id, session), self.key_of(name));
        let answer = match self.cluster.txn(entry::fence_out(&self.keys, key, &fence)).await {
            // It would join with that session, or never.
            Err(error) if is_over(&error) => TxnResponse::default(),
            // A full member raises no fence. A ticket that has joined already can be removed there
            // all the same.
            Err(error) if error.kind() == ErrorKind::Rejected => {
                let node = self.look(&[Sought::Own(name)]).await?.0.pop().flatten();
                return node.map(Some).ok_or(error);
            }
            answer => answer?,
        };
        self.was_raised(name.id, fence, &answer);
        let there = ask::ranges(answer).next().and_then(|range| range.kvs.into_iter().next());
        let node = there.and_then(|kept| self.keys.node(&kept));
        Ok(node.filter(|node| node.name == *name))
    }

    async fn watch(&self, nodes: &[Node]) -> Result<OpenWatch> {
        let connection = self.cluster.link.connection().await?;
        // All at once: one after the other would take a round trip each.
        let watch = |node: &Node| connection.watches.key(node.key.to_vec(), node.version);
        let begun = try_join_all(nodes.iter().map(watch)).await;
        let begun = begun.map_err(|status| self.cluster.failed(&connection, &status))?;
        let at = begun.iter().map(|watch| revision(watch.at)).max().unwrap_or(0);
        let all =
            begun.into_iter().map(|mut watch| Box::pin(async move { drop(watch.next().await) }));
        let changed = select_all(all);
        let changed = Box::pin(async move {
            changed.await;
            Hint::Changed
        });
        Ok(OpenWatch { at, changed })
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

    async fn read(&self, register: &Register) -> Result<RegisterValue> {
        let (range, _) = self.cluster.range(ask::get(self.keys.register(register))).await?;
        entry::written(range)
    }

    async fn write(
        &self,
        register: &Register,
        value: u64,
        version: u64,
    ) -> Result<(RegisterValue, bool)> {
        let key = self.keys.register(register);
        let answer =
            self.cluster.txn(entry::write(key, value.to_string().into_bytes(), version)).await?;
        let at = answered_at(answer.header);
        if answer.succeeded {
            return Ok((RegisterValue { value, version: at }, true));
        }
        Ok((entry::written(ask::ranges(answer).next().unwrap_or_default())?, false))
    }

    async fn read_text(&self, register: &Register) -> Result<TextValue> {
        let (range, _) = self.cluster.range(ask::get(self.keys.register(register))).await?;
        entry::text(range)
    }

    async fn write_text(
        &self,
        register: &Register,
        text: &str,
        version: u64,
    ) -> Result<(TextValue, bool)> {
        let key = self.keys.register(register);
        let answer = self.cluster.txn(entry::write(key, text.into(), version)).await?;
        let at = answered_at(answer.header);
        if answer.succeeded {
            return Ok((TextValue { text: text.to_owned(), version: at }, true));
        }
        Ok((entry::text(ask::ranges(answer).next().unwrap_or_default())?, false))
    }

    async fn follow(&self) -> Result<Option<Followed>> {
        journal::follow(self).await.map(Some)
    }

    async fn now(&self) -> Result<u64> {
        self.now_at().await
    }
}

/// Returns whether the lease of the request is gone, with all keys bound to it.
fn is_over(error: &Error) -> bool {
    error.loss() == Some(Loss::SessionGone)
}

impl Etcd {
    /// Returns the key of a ticket of this client, if it has one.
    fn key_of(&self, name: &TicketName) -> Option<Vec<u8>> {
        let (session, ordinal) = self.ordinals.of(name.id)?;
        Some(self.keys.ticket(name, session, ordinal))
    }

    pub(crate) async fn front_in_pages(&self, line: &LineId, most: usize) -> Result<Front> {
        let mut tickets = ReadTickets::default();
        let at = self.list(self.keys.line(line), |kept| tickets.add(&self.keys, kept)).await?;
        let ReadTickets { mut nodes, unreadable } = tickets;
        nodes.sort_by_key(|node| node.created);
        let total = nodes.len();
        nodes.truncate(most);
        Ok(Front { nodes, total, at, unreadable })
    }

    /// Reads these keys. Returns each as it was at a moment after the call, and the first of these
    /// moments. No transaction reads them: a member before 3.4.23 or 3.5.7 may crash when the
    /// client of such a transaction goes away.
    pub(crate) async fn gets(
        &self,
        keys: impl Iterator<Item = Vec<u8>>,
    ) -> Result<(Vec<RangeResponse>, u64)> {
        let answers = try_join_all(keys.map(|key| self.cluster.range(ask::get(key)))).await?;
        let at = answers.iter().map(|(_, at)| *at).min().unwrap_or(0);
        Ok((answers.into_iter().map(|(range, _)| range).collect(), at))
    }

    /// Removes a ticket that joined and is refused all the same. Returns the refusal.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the ticket may still be in its line.
    async fn take_back(&self, node: &Node, refused: Error) -> Result<Error> {
        if refused.is_retryable() {
            return Err(refused);
        }
        self.remove_only(&Remove::just(node)).await.map_err(|_| self.silence())?;
        Ok(refused)
    }

    /// Returns where a ticket stands that joined, and that these are the last tickets of its line.
    /// Removes it if another client, or a copy of this process, has one of the same id there.
    async fn stands(&self, node: &Node, last: Front) -> Result<Entered> {
        if let Some(twin) = entry::twin(&last, &node.name, node.created) {
            self.remove(&Remove::just(node)).await?;
            return Ok(Entered::Existing(twin));
        }
        let position = match entry::position(&last, node) {
            Some(position) => position,
            None => self.in_whole_line(node).await?,
        };
        Ok(Entered::In { node: node.clone(), position, total: last.total })
    }

    /// Returns where a ticket stands that is not among the first of its line.
    async fn far_back(&self, own: &Node, first: &Front) -> Result<Position> {
        let share = own.ticket.share;
        let most = if share.take() == share.of() { 1 } else { entry::PAGE };
        let (range, _) = self.cluster.range(entry::ahead(&self.keys, own, most)).await?;
        let near = ReadTickets::of(&self.keys, &range);
        entry::refuse_unreadable(near.unreadable, own.created)?;
        let taken: u64 = near.nodes.iter().map(Node::take).sum();
        if served(taken, share) {
            return self.in_whole_line(own).await;
        }
        let first_taken: u64 = first.nodes.iter().map(Node::take).sum();
        let ahead = (first.nodes.len(), first_taken.max(taken));
        Ok(Position::new(first.at, ahead, near.nodes, share))
    }

    async fn in_whole_line(&self, own: &Node) -> Result<Position> {
        let front = self.front(&own.name.line, usize::MAX).await?;
        entry::refuse_unreadable(front.unreadable, own.created)?;
        Ok(front.position_of(own))
    }

    /// Notes that requests for this ticket with the fence, or with an earlier one, are refused.
    fn was_raised(&self, id: TicketId, fence: RequestFence, answer: &TxnResponse) {
        let at = answer.header.map(|header| revision(header.revision));
        if let Some(at) = at {
            self.fences.was_raised(fence, at);
        }
        // If nothing was put, the session is over.
        self.ordinals.fenced_out(id, at.unwrap_or(u64::MAX));
    }
}
