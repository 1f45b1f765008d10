//! Joining, changing and leaving.

use std::time::Instant;

use futures_util::future::{OptionFuture, join};
use tenure_core::{Error, LINE_TICKETS_MAX, Loss, Result, served};
use tenure_queue::{
    Enter, Entered, Node, Precondition, Register, RegisterValue, Remove, Removed, SessionId,
    TicketName,
};
use zookeeper_client::{Acls, CreateMode, Error as Said, MultiWriteResult};

use crate::client::ZooKeeper;
use crate::names::{Child, Listing, taken, zxid};
use crate::node_cache::Read;
use crate::put::Put;
use crate::session::ServerSession;
use crate::trouble;

/// Maximum bytes of the paths of all nodes of a session. The default of `jute.maxbuffer` is
/// 1,048,575.
const SESSION_BYTES_MAX: usize = 1_000_000;
/// Bytes of the tail of a name, and of its length field.
const TAIL_BYTES: usize = 15;
/// Maximum tail of a line. Behind the last tails ZooKeeper counts from zero again.
const TAIL_MAX: u32 = u32::MAX - (1 << 20);

impl ZooKeeper {
    pub(crate) async fn come_in(&self, enter: &Enter<'_>) -> Result<Entered> {
        let (name, session) = (enter.name, enter.session);
        let wire = self.session(session).ok_or_else(|| Error::lost(Loss::SessionGone))?;
        let ticket = Node::read(name.clone(), session, 0, 0, enter.body)
            .ok_or_else(|| Error::invalid("what is to be put into a line is no ticket"))?;
        // From here on, a caller that gives the ticket up finds it here, and removes it.
        let was_asked = self.asked.lock().insert(name.id, session).is_some();
        let newest = self.newest();
        let most = self.nodes_max(&ticket);
        let entered = if self.nodes.make(name.id, session, most) {
            let entered = self.come_in_over(&wire, enter, &ticket, was_asked).await;
            entered.map_err(|said| match said {
                Said::RuntimeInconsistent => tail_is_used_up(&ticket),
                said => self.said(&said),
            })
        } else {
            Err(self.too_many(most))
        };
        if !entered.as_ref().is_err_and(Error::is_retryable) {
            self.asked.lock().remove(&name.id);
            if !matches!(entered, Ok(Entered::In { .. } | Entered::Existing(_))) {
                self.nodes.forget(name.id);
            }
        }
        if let Ok(Entered::In { node, .. }) = &entered {
            self.refuse_older(node, newest).await?;
        }
        entered
    }

    /// Refuses a ticket whose number is not above the newest known one: the servers have older
    /// data, and would give numbers again.
    async fn refuse_older(&self, node: &Node, newest: u64) -> Result<()> {
        if node.created > newest {
            self.hear_of(node.created);
            return Ok(());
        }
        self.take_out(&Remove::just(node)).await?;
        Err(trouble::went_back(&self.settings))
    }

    /// Returns the maximum nodes of a session. The end of a session is one transaction that names
    /// all of its nodes. If that is larger than servers read, they fail.
    fn nodes_max(&self, ticket: &Node) -> usize {
        let beginning = self.keys.beginning(&ticket.name, ticket.ticket.share.take());
        SESSION_BYTES_MAX / (self.settings.chroot.len() + beginning.len() + TAIL_BYTES)
    }

    fn too_many(&self, most: usize) -> Error {
        Error::rejected(format!(
            "this client has {most} tickets of one ttl in {}, whose servers fail when a session of more than that ends: ask for fewer at a time, or use another client",
            self.settings.whom()
        ))
    }

    async fn come_in_over(
        &self,
        wire: &ServerSession,
        enter: &Enter<'_>,
        ticket: &Node,
        was_asked: bool,
    ) -> Result<Entered, Said> {
        let (name, share) = (enter.name, ticket.ticket.share);
        let is_open = enter.precondition == Precondition::SameCapacity;
        if !is_open || was_asked {
            let listing = self.list(wire, &name.line).await?;
            if let Some(child) = listing.find(name.id) {
                return self.is_in(wire, child).await;
            }
            if !is_open && !served(taken(&listing.children), share) {
                return self.is_out(wire, enter, &listing).await;
            }
        }
        let put = self.put(wire, enter, ticket).await?;
        let own = put.own.clone();
        let entered = self.stand(wire, enter, ticket, put).await;
        if entered.as_ref().is_err_and(|said| !self.said(said).is_retryable()) {
            // A refused ticket is not in the line, and no task looks for it there.
            self.take_back(wire, &own).await?;
        }
        entered
    }

    /// Returns where a ticket stands whose node was made, or removes it.
    async fn stand(
        &self,
        wire: &ServerSession,
        enter: &Enter<'_>,
        ticket: &Node,
        put: Put,
    ) -> Result<Entered, Said> {
        let (name, share) = (enter.name, ticket.ticket.share);
        let is_open = enter.precondition == Precondition::SameCapacity;
        let Put { own, created, listing } = put;
        let listing = listing?;
        if own.order() > TAIL_MAX {
            self.take_back(wire, &own).await?;
            return Err(Said::RuntimeInconsistent);
        }
        if let Some(first) = listing.find(name.id).filter(|first| first.tail != own.tail) {
            // An earlier create succeeded after all.
            self.take_back(wire, &own).await?;
            return self.is_in(wire, first).await;
        }
        let base = self.base_of(wire, &name.line, &listing).await?;
        let is_mixed = listing.children.first().is_some_and(|first| first.name.of != name.of);
        let waits = !served(taken(listing.before(&own)), share);
        if is_mixed || base.version != enter.base_version || (waits && !is_open) {
            self.take_back(wire, &own).await?;
            let children = listing.children.into_iter().filter(|child| *child != own).collect();
            return self.is_out(wire, enter, &Listing { children, ..listing }).await;
        }
        let mut node = ticket.clone();
        (node.created, node.version) = (created, created);
        let (child, at) = (own.clone(), Instant::now());
        self.roll.put(Read { child, node: node.clone(), changes: 0, at });
        let (_, position) = self.position_of(wire, &listing, &own).await?;
        Ok(Entered::In { node, position, total: listing.children.len() })
    }

    /// Returns the outcome for a ticket that was there before.
    async fn is_in(&self, wire: &ServerSession, child: &Child) -> Result<Entered, Said> {
        let mut read = self.read(wire, std::slice::from_ref(child)).await?;
        let existing = read.pop().flatten().map(|read| Entered::Existing(read.node_of(child)));
        // Without a node, it left between two answers.
        Ok(existing.unwrap_or(Entered::Again))
    }

    async fn is_out(
        &self,
        wire: &ServerSession,
        enter: &Enter<'_>,
        listing: &Listing,
    ) -> Result<Entered, Said> {
        let mut capacities = listing.children.iter().map(|child| child.name.of);
        let other_capacity = capacities.find(|of| *of != enter.name.of);
        let base = self.base_of(wire, &enter.name.line, listing).await?;
        Ok(Entered::Out { at: listing.at, taken: taken(&listing.children), other_capacity, base })
    }

    async fn base_of(
        &self,
        wire: &ServerSession,
        line: &tenure_queue::LineId,
        listing: &Listing,
    ) -> Result<RegisterValue, Said> {
        if !listing.has_base {
            return Ok(RegisterValue::default());
        }
        self.written(wire, &Register::Base(line.clone())).await
    }

    async fn take_back(&self, wire: &ServerSession, own: &Child) -> Result<(), Said> {
        let turn = wire.turn().await?;
        match wire.in_time(turn.delete(&self.keys.ticket(own), None)).await? {
            Ok(()) | Err(Said::NoNode) => Ok(()),
            Err(said) => Err(said),
        }
    }

    /// Ensures that no further request for a ticket is sent, and waits until the earlier ones are
    /// answered: a later request on their connection shows that.
    pub(crate) async fn wait_out(
        &self,
        name: &TicketName,
        session: SessionId,
    ) -> Result<Option<Node>> {
        self.asked.lock().remove(&name.id);
        let found = match self.session(session) {
            Some(wire) => self.wait_out_over(&wire, name).await,
            // Its session is closed, and none of its nodes is left.
            None => Ok(None),
        };
        match found {
            Ok(found) => Ok(found),
            Err(Said::SessionExpired | Said::ClientClosed) => Ok(None),
            Err(said) => Err(self.said(&said)),
        }
    }

    async fn wait_out_over(
        &self,
        wire: &ServerSession,
        name: &TicketName,
    ) -> Result<Option<Node>, Said> {
        let listing = self.list(wire, &name.line).await?;
        let mut own = listing.children.iter().filter(|child| child.name.id == name.id);
        let Some(first) = own.next() else { return Ok(None) };
        for twin in own {
            self.take_back(wire, twin).await?;
        }
        let mut read = self.read(wire, std::slice::from_ref(first)).await?;
        Ok(read.pop().flatten().map(|read| read.node_of(first)))
    }

    pub(crate) async fn take_out(&self, remove: &Remove<'_>) -> Result<Removed> {
        let wire = self.wire_of(remove.node.session).await?;
        let removed = self.take_out_over(&wire, remove).await;
        removed.map_err(|said| self.said(&said))
    }

    async fn take_out_over(
        &self,
        wire: &ServerSession,
        remove: &Remove<'_>,
    ) -> Result<Removed, Said> {
        let Remove { node, provided, front, .. } = *remove;
        let absent = Removed { gone: false, front: None };
        let (line, id) = (&node.name.line, node.name.id);
        let found = self.find(wire, &node.name).await?;
        let Some(read) = found.filter(|read| read.node.created == node.created) else {
            return Ok(absent);
        };
        let Some(checks) = self.unchanged(wire, provided).await? else { return Ok(absent) };
        let (path, line_path) = (self.keys.ticket(&read.child), self.keys.line(line));
        let turn = wire.turn().await?;
        let is_plain = checks.is_empty() && read.node.ticket.share.take() == read.child.asked;
        let mut both = turn.new_multi_writer();
        for (path, changes) in &checks {
            both.add_check_version(path, *changes)?;
        }
        both.add_delete(&path, None)?;
        if read.node.ticket.share.take() < read.child.asked {
            both.add_delete(&self.keys.less(&node.name, read.node.ticket.share.take()), None)?;
        }
        let plain: OptionFuture<_> = is_plain.then(|| turn.delete(&path, None)).into();
        let several: OptionFuture<_> = (!is_plain).then(|| both.commit()).into();
        let list: OptionFuture<_> = front.map(|_| turn.get_children(&line_path)).into();
        let all = join(join(plain, several), list);
        let ((plain, several), listed) = wire.in_time(all).await?;
        // The read below takes another turn, and a caller that waits for one must not keep one.
        drop(turn);
        let done = match (plain, several) {
            (Some(done), _) => done,
            (None, Some(done)) => done.map(drop).map_err(Said::from),
            (None, None) => Ok(()),
        };
        match done {
            Ok(()) => {}
            Err(Said::NoNode | Said::BadVersion) => {
                self.roll.forget(line, id);
                return Ok(absent);
            }
            Err(said) => return Err(said),
        }
        self.roll.forget(line, id);
        let front = match listed {
            // The line exists as long as a ticket is in it.
            Some(Err(Said::NoNode)) => Some(tenure_queue::Front::default()),
            Some(listed) => {
                let (names, stat) = listed?;
                let listing = self.listing(line, &names, &stat);
                let most = front.unwrap_or(0).min(listing.served());
                Some(self.front_of(wire, &listing, most).await?)
            }
            None => None,
        };
        Ok(Removed { gone: true, front })
    }

    /// Returns the comparison that these nodes are unchanged; `None` if one is not.
    async fn unchanged(
        &self,
        wire: &ServerSession,
        nodes: &[Node],
    ) -> Result<Option<Vec<(String, i32)>>, Said> {
        let mut checks = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Some(known) = self.find(wire, &node.name).await? else { return Ok(None) };
            let mut read = self.read(wire, std::slice::from_ref(&known.child)).await?;
            let Some(read) = read.pop().flatten() else { return Ok(None) };
            if (read.node.created, read.node.version) != (node.created, node.version) {
                return Ok(None);
            }
            checks.push((self.keys.ticket(&read.child), read.changes));
        }
        Ok(Some(checks))
    }

    pub(crate) async fn rewrite(&self, node: &Node, body: &[u8]) -> Result<Option<Node>> {
        let wire = self.wire_of(node.session).await?;
        let next = Node::read(node.name.clone(), node.session, node.created, 0, body);
        let takes_less = |next: Node| next.ticket.share.take() < node.ticket.share.take();
        let most = self.nodes_max(node);
        if next.is_some_and(takes_less) && !self.nodes.make_less(node.name.id, most) {
            return Err(self.too_many(most));
        }
        let written = self.rewrite_over(&wire, node, body).await;
        written.map_err(|said| self.said(&said))
    }

    async fn rewrite_over(
        &self,
        wire: &ServerSession,
        node: &Node,
        body: &[u8],
    ) -> Result<Option<Node>, Said> {
        let Some(known) = self.find(wire, &node.name).await? else { return Ok(None) };
        let same = (known.node.created, known.node.version) == (node.created, node.version);
        let next = Node::read(node.name.clone(), node.session, node.created, 0, body);
        let Some(next) = next.filter(|_| same) else {
            self.roll.forget(&node.name.line, node.name.id);
            return Ok(None);
        };
        let (before, takes) = (known.node.ticket.share.take(), next.ticket.share.take());
        let path = self.keys.ticket(&known.child);
        let turn = wire.turn().await?;
        let mut writer = turn.new_multi_writer();
        writer.add_set_data(&path, body, Some(known.changes))?;
        if takes < before {
            let ephemeral = CreateMode::Ephemeral.with_acls(Acls::new(&self.acls));
            writer.add_create(&self.keys.less(&node.name, takes), b"", &ephemeral)?;
            if before < known.child.asked {
                writer.add_delete(&self.keys.less(&node.name, before), None)?;
            }
        }
        // Without the answer the client does not know what the ticket takes.
        self.roll.forget(&node.name.line, node.name.id);
        let results = match wire.in_time(writer.commit()).await?.map_err(Said::from) {
            Ok(results) => results,
            Err(Said::NoNode | Said::BadVersion) => return Ok(None),
            Err(said) => return Err(said),
        };
        let Some(MultiWriteResult::SetData { stat }) = results.first() else {
            return Err(Said::BadArguments(&"an answer to another question"));
        };
        let node = Node { version: zxid(stat.mzxid), ..next };
        let child = Child { takes, ..known.child };
        let (changes, at) = (stat.version, Instant::now());
        self.roll.put(Read { child, node: node.clone(), changes, at });
        Ok(Some(node))
    }
}

fn tail_is_used_up(ticket: &Node) -> Error {
    Error::rejected(format!(
        "the line of {:?} was never empty for a minute while {TAIL_MAX} tickets came: leave it in peace for two minutes, and it begins anew",
        ticket.ticket.key
    ))
}

const _: () = assert!(LINE_TICKETS_MAX < 1 << 20, "what is not given is more than a line has");
