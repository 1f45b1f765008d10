//! `SessionStore`, the contract of a queue, implemented by `ZooKeeper`.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{join, join_all, select_all};
use tenure_core::{Error, Guarantees, Key, Loss, Result, TicketId};
use tenure_queue::{
    Enter, Entered, Followed, Front, Granted, Hint, LineId, Node, OpenWatch, Position, Register,
    RegisterValue, Remove, Removed, SessionId, SessionStore, Sought, TextValue, TicketName,
};
use zookeeper_client::{Acls, CreateMode, Error as Said};

use crate::client::ZooKeeper;
use crate::names::{Child, zxid};
use crate::node_cache::NodeCache;
use crate::session::ServerSession;
use crate::trouble;
use crate::watches::NodeWatch;

/// In a line with more tickets than this, a read avoids a listing.
const LONG: usize = 128;

impl SessionStore for ZooKeeper {
    fn profile(&self) -> Guarantees {
        self.profile.clone()
    }

    fn silence(&self) -> Error {
        trouble::silence(&self.settings)
    }

    fn place_of_line(&self, line: &LineId) -> String {
        let (chroot, node) = (&self.settings.chroot, self.keys.line(line));
        format!("in a node below {chroot}{node} by {}", self.settings.whom())
    }

    fn place_of_register(&self, register: &Register) -> String {
        let (chroot, node) = (&self.settings.chroot, self.keys.register(register));
        format!("in the node {chroot}{node} by {}", self.settings.whom())
    }

    async fn open(&self, ttl: Duration) -> Result<Granted> {
        let wire = self.open_session(ttl).await?;
        let granted = wire.granted();
        // An ensemble is sure of a sign of life only a while later: so more than half of a life is
        // left when a server dies.
        let every = if self.facts.is_ensemble { granted / 6 } else { granted / 3 };
        Ok(Granted { session: wire.session(), ttl: self.facts.sure_of(granted), every })
    }

    async fn keep(&self, session: SessionId, _within: Duration) -> Result<Option<Duration>> {
        let wire = self.session(session).ok_or_else(|| Error::lost(Loss::SessionGone))?;
        let unsure = self.sign(&wire).await.map_err(|said| self.said(&said))?;
        let granted = wire.granted();
        Ok(Some(granted.saturating_sub(unsure).min(self.facts.sure_of(granted))))
    }

    async fn end(&self, session: SessionId) -> Result<()> {
        let wire = self.sessions.lock().remove(&session);
        self.asked.lock().retain(|_, with| *with != session);
        self.nodes.end(session);
        if let Some(wire) = wire {
            wire.close().await;
        }
        Ok(())
    }

    async fn lives(&self, sessions: &[SessionId]) -> Vec<Option<Duration>> {
        // A server does not report other clients' sessions.
        vec![None; sessions.len()]
    }

    async fn enter(&self, enter: &Enter<'_>) -> Result<Entered> {
        self.come_in(enter).await
    }

    async fn front(&self, line: &LineId, most: usize) -> Result<Front> {
        let wire = self.wire().await?;
        let listing = self.list(&wire, line).await.map_err(|said| self.said(&said))?;
        self.front_of(&wire, &listing, most).await.map_err(|said| self.said(&said))
    }

    async fn position(&self, sought: Sought<'_>) -> Result<Option<(Node, Position)>> {
        let TicketName { line, id, .. } = sought.name();
        let known = self.roll.get(line, *id);
        // A session's watch events come before the answers after them.
        let wire = self.wire_of(known.as_ref().map_or(0, |known| known.node.session)).await?;
        let listing = self.list(&wire, line).await.map_err(|said| self.said(&said))?;
        // A caller that asks for its own place needs the current state.
        if !known.is_some_and(|known| self.is_watched(&wire, &known)) {
            self.roll.forget(line, *id);
        }
        let Some(own) = listing.find(*id) else { return Ok(None) };
        let position = self.position_of(&wire, &listing, own).await;
        let (node, position) = position.map_err(|said| self.said(&said))?;
        Ok(node.map(|node| (node, position)))
    }

    async fn look(&self, sought: &[Sought<'_>]) -> Result<(Vec<Option<Node>>, u64)> {
        let names: Vec<&TicketName> = sought.iter().map(|one| one.name()).collect();
        let first = names.first();
        let known = first.and_then(|name| self.roll.get(&name.line, name.id));
        let wire = self.wire_of(known.map_or(0, |known| known.node.session)).await?;
        let at = first.map_or(0, |name| self.roll.at(&name.line));
        let nodes = self.look_at(&wire, &names).await.map_err(|said| self.said(&said))?;
        Ok((nodes, at))
    }

    fn forget(&self, ticket: TicketId) {
        self.nodes.forget(ticket);
    }

    async fn change(&self, node: &Node, body: &[u8]) -> Result<Option<Node>> {
        self.rewrite(node, body).await
    }

    async fn remove(&self, remove: &Remove<'_>) -> Result<Removed> {
        self.take_out(remove).await
    }

    async fn orphans(&self, _session: SessionId) -> Result<Vec<Node>> {
        // A request belongs to one connection of its session, and a server refuses requests of an
        // earlier one. No proxy between can deliver a create again.
        Ok(Vec::new())
    }

    async fn fence_out(&self, name: &TicketName, session: SessionId) -> Result<Option<Node>> {
        self.wait_out(name, session).await
    }

    async fn watch(&self, nodes: &[Node]) -> Result<OpenWatch> {
        let session = nodes.first().map_or(0, |node| node.session);
        let wire = self.wire_of(session).await?;
        let watching = nodes.iter().map(|node| self.watch_one(&wire, node));
        let all: Result<Vec<_>, Said> = join_all(watching).await.into_iter().collect();
        let all: Option<Vec<NodeWatch>> =
            all.map_err(|said| self.said(&said))?.into_iter().collect();
        let (nodes, roll) = (nodes.to_vec(), self.roll.clone());
        let changed = Box::pin(async move {
            // A node that has changed already counts as a change, so that none is missed in
            // between.
            let Some(mut all) = all else { return Hint::Changed };
            select_all(all.iter_mut().map(|watch| watch.changed().boxed())).await;
            match (&nodes[..], &all[..]) {
                ([own, ahead], watches) => {
                    released(own, ahead, watches, &roll).unwrap_or(Hint::Changed)
                }
                _ => Hint::Changed,
            }
        });
        Ok(OpenWatch { at: 0, changed })
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let wire = self.wire().await?;
        self.keys_of(&wire, prefix).await.map_err(|said| self.said(&said))
    }

    async fn read(&self, register: &Register) -> Result<RegisterValue> {
        let wire = self.wire().await?;
        self.written(&wire, register).await.map_err(|said| self.said(&said))
    }

    async fn write(
        &self,
        register: &Register,
        value: u64,
        version: u64,
    ) -> Result<(RegisterValue, bool)> {
        let wire = self.wire().await?;
        let text = value.to_string();
        let written = async {
            let ((bytes, version), is_written) =
                self.write_over(&wire, register, text.as_bytes(), version).await?;
            Ok((number(&bytes, version)?, is_written))
        };
        written.await.map_err(|said: Said| self.said(&said))
    }

    async fn read_text(&self, register: &Register) -> Result<TextValue> {
        let wire = self.wire().await?;
        let read = self.data(&wire, register).await.and_then(text);
        read.map_err(|said| self.said(&said))
    }

    async fn write_text(
        &self,
        register: &Register,
        value: &str,
        version: u64,
    ) -> Result<(TextValue, bool)> {
        let wire = self.wire().await?;
        let written = self.write_over(&wire, register, value.as_bytes(), version).await;
        let written = written.and_then(|(now, is_written)| Ok((text(now)?, is_written)));
        written.map_err(|said| self.said(&said))
    }

    async fn follow(&self) -> Result<Option<Followed>> {
        Ok(None)
    }

    async fn now(&self) -> Result<u64> {
        self.now_at().await
    }
}

impl ZooKeeper {
    /// Sends a sign of life. Returns the part of the life from now that is not sure. A refusal is
    /// no sign: a server may refuse a write by itself (`enableEagerACLCheck`).
    async fn sign(&self, wire: &ServerSession) -> Result<Duration, Said> {
        if !self.facts.is_ensemble {
            wire.ping(self.keys.root()).await?;
            return Ok(Duration::ZERO);
        }
        let (now, older) = (self.keys.now(), self.facts.unheard_for(wire.granted()));
        match wire.sign(&now, older).await {
            Err(Said::NoNode) => {
                self.make_roots_over(wire).await?;
                wire.sign(&now, older).await
            }
            signed => signed,
        }
    }

    /// Reads tickets of one line, of which the first is the own. The others are returned as known
    /// if they are watched. A short line is listed, once for all concurrent callers. In a long one,
    /// the own ticket is read.
    async fn look_at(
        &self,
        wire: &ServerSession,
        names: &[&TicketName],
    ) -> Result<Vec<Option<Node>>, Said> {
        let Some(line) = names.first().map(|name| &name.line) else { return Ok(Vec::new()) };
        let mut children: Vec<Option<Child>> = Vec::with_capacity(names.len());
        let is_long = self.roll.length(line) > LONG;
        if is_long {
            {
                let turn = wire.turn().await?;
                wire.in_time(self.sync_over(&turn)).await?.transpose()?;
            }
            for name in names {
                children.push(self.find(wire, name).await?.map(|read| read.child));
            }
        } else {
            let listing = self.list(wire, line).await?;
            children.extend(names.iter().map(|name| listing.find(name.id).cloned()));
        }
        let known = |(at, child): (usize, &Option<Child>)| {
            let child = child.as_ref().filter(|_| at > 0 || !is_long)?;
            let read = self.roll.get(line, child.name.id)?;
            self.is_watched(wire, &read).then(|| read.node_of(child))
        };
        let mut nodes: Vec<Option<Node>> = children.iter().enumerate().map(known).collect();
        let unknown = children.iter().zip(&nodes).filter(|(_, node)| node.is_none());
        let unknown: Vec<Child> = unknown.filter_map(|(child, _)| child.clone()).collect();
        let mut found = self.read(wire, &unknown).await?.into_iter();
        for (child, node) in children.iter().zip(&mut nodes).filter(|(_, node)| node.is_none()) {
            let Some(child) = child else { continue };
            *node = found.next().flatten().map(|read| read.node_of(child));
        }
        Ok(nodes)
    }

    /// Watches a node; `None` if it has changed.
    async fn watch_one(
        &self,
        wire: &ServerSession,
        node: &Node,
    ) -> Result<Option<NodeWatch>, Said> {
        let Some(known) = self.find(wire, &node.name).await? else { return Ok(None) };
        let path = self.keys.ticket(&known.child);
        if let Some(watch) = wire.watches.join(&path, node.version) {
            return Ok(Some(watch));
        }
        let Some(room) = wire.watches.room(self.settings.chroot.len() + path.len()) else {
            return Ok(Some(NodeWatch::none()));
        };
        let turn = wire.turn().await?;
        let states = wire.states();
        let set = wire.in_time(turn.get_and_watch_data(&path)).await?;
        let (body, stat, watcher) = match set {
            Ok(set) => set,
            Err(Said::NoNode) => {
                self.roll.forget(&node.name.line, node.name.id);
                return Ok(None);
            }
            Err(said) => return Err(said),
        };
        let watch = wire.watches.set(room, path, zxid(stat.mzxid), watcher, states);
        if let Some(read) = crate::client::read_node(&known.child, &body, &stat) {
            self.roll.put(read);
        }
        let same = (zxid(stat.czxid), zxid(stat.mzxid)) == (node.created, node.version);
        Ok(same.then_some(watch))
    }

    pub(crate) async fn written(
        &self,
        wire: &ServerSession,
        register: &Register,
    ) -> Result<RegisterValue, Said> {
        let (bytes, version) = self.data(wire, register).await?;
        number(&bytes, version)
    }

    /// Reads a register. Its version is 0 if it does not exist.
    async fn data(
        &self,
        wire: &ServerSession,
        register: &Register,
    ) -> Result<(Vec<u8>, u64), Said> {
        let path = self.keys.register(register);
        let turn = wire.turn().await?;
        let both = join(self.sync_over(&turn), turn.get_data(&path));
        let (synced, read) = wire.in_time(both).await?;
        synced.transpose()?;
        match read {
            Ok((bytes, stat)) => Ok((bytes, version(stat.version))),
            Err(Said::NoNode) => Ok((Vec::new(), 0)),
            Err(said) => Err(said),
        }
    }

    /// Writes a register if it still has this version. Returns it as it is now, and whether it was
    /// written.
    async fn write_over(
        &self,
        wire: &ServerSession,
        register: &Register,
        bytes: &[u8],
        seen: u64,
    ) -> Result<((Vec<u8>, u64), bool), Said> {
        let path = self.keys.register(register);
        let turn = wire.turn().await?;
        if seen > 0 {
            match wire.in_time(turn.set_data(&path, bytes, Some(changes(seen)))).await? {
                Ok(stat) => return Ok(((bytes.to_vec(), version(stat.version)), true)),
                Err(Said::BadVersion | Said::NoNode) => {}
                Err(said) => return Err(said),
            }
            drop(turn);
            return Ok((self.data(wire, register).await?, false));
        }
        let acls = Acls::new(&self.acls);
        if let Register::Base(line) = register {
            // A line with a base is kept for good.
            let container = CreateMode::Container.with_acls(acls);
            match wire.in_time(turn.create(&self.keys.line(line), b"", &container)).await? {
                Ok(_) | Err(Said::NodeExists) => {}
                Err(said) => return Err(said),
            }
        }
        let persistent = CreateMode::Persistent.with_acls(acls);
        match wire.in_time(turn.create(&path, bytes, &persistent)).await? {
            Ok(_) => return Ok(((bytes.to_vec(), version(0)), true)),
            Err(Said::NodeExists) => {}
            Err(said) => return Err(said),
        }
        drop(turn);
        Ok((self.data(wire, register).await?, false))
    }
}

/// Returns whether the ticket ahead is gone, and the own one was there at that moment. A server
/// reports changes in the order in which they happened. If it has reported none of the ticket's own
/// node, that node existed when the other one went.
///
/// Returns `None` on another connection than the one on which both watches were set: it reports
/// earlier changes in no order. Also if both tickets live with one session, whose end removes them
/// in one transaction.
fn released(own: &Node, ahead: &Node, watches: &[NodeWatch], roll: &NodeCache) -> Option<Hint> {
    let [of_own, of_ahead] = watches else { return None };
    // The watch that is checked last was reported first.
    let at = of_ahead.gone()?;
    let is_alive = of_own.has_told_nothing() && own.session != ahead.session;
    let is_same_connection = watches.iter().all(NodeWatch::is_of_this_connection);
    roll.forget(&ahead.name.line, ahead.name.id);
    (is_alive && is_same_connection).then_some(Hint::Released(at))
}

/// Reads a number from a node. If it is no number, no new number can be above the earlier ones. A
/// node that does not exist has none.
fn number(bytes: &[u8], version: u64) -> Result<RegisterValue, Said> {
    if version == 0 {
        return Ok(RegisterValue::default());
    }
    let value = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    Ok(RegisterValue { value: value.ok_or(trouble::UNREADABLE_NUMBER)?, version })
}

fn text((bytes, version): (Vec<u8>, u64)) -> Result<TextValue, Said> {
    let text = String::from_utf8(bytes).map_err(|_| trouble::UNREADABLE_VALUE)?;
    Ok(TextValue { text, version })
}

/// The version of a register, from its node's count of changes, which goes on with the least number
/// after the largest one.
fn version(changes: i32) -> u64 {
    u64::from(changes.cast_unsigned()) + 1
}

/// The count of changes of a version.
fn changes(version: u64) -> i32 {
    u32::try_from(version - 1).unwrap_or(u32::MAX).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::{changes, version};

    #[test]
    fn a_register_is_written_after_two_to_the_31st_changes() {
        for count in [0, 1, i32::MAX, i32::MIN, -2] {
            assert_eq!(changes(version(count)), count);
        }
    }
}
