//! One client of an ensemble: its sessions, and how it reads lines.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{OptionFuture, join, join_all};
use tenure_core::sync::Mutex;
use tenure_core::{Error, Guarantees, Result, Share, TicketId, served};
use tenure_kit::{Connection, Link, ServerClient, as_transient};
use tenure_queue::{Front, LikelyFree, LineId, Node, Position, SessionId, TicketName, blockers};
use tokio::time::sleep;
use zookeeper_client::{Acl, Acls, CreateMode, Error as Said, Stat};

use crate::facts::{self, EnsembleFacts, Presence};
use crate::link::EnsembleServers;
use crate::names::{Child, Listing, NodePaths, taken, zxid};
use crate::node_cache::{NodeCache, Read};
use crate::nodes::Nodes;
use crate::session::ServerSession;
use crate::settings::Settings;
use crate::trouble;

/// Maximum ttl of a request, in its 31 bits of milliseconds. Servers grant far less.
const TTL_MAX: Duration = Duration::from_millis(i32::MAX as u64);
/// Interval of attempts to connect to servers that are choosing their leader.
const ELECTION_PAUSE: Duration = Duration::from_millis(250);
/// Time without a connection after which the session that is not for tickets is replaced.
const CUT_OFF_MAX: Duration = Duration::from_secs(1);
/// Maximum nodes read at once.
const AT_ONCE: usize = 256;

/// One client of an ensemble of `ZooKeeper`.
pub struct ZooKeeper {
    pub(crate) base: Arc<Link<EnsembleServers>>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) keys: NodePaths,
    pub(crate) acls: Vec<Acl>,
    pub(crate) profile: Guarantees,
    pub(crate) facts: EnsembleFacts,
    pub(crate) roll: NodeCache,
    pub(crate) free: LikelyFree,
    pub(crate) nodes: Nodes,
    pub(crate) sessions: Mutex<HashMap<SessionId, Arc<ServerSession>>>,
    /// Tickets that join, or whose join was not answered, with their sessions. A ticket that is
    /// removed from it is not sent any more.
    pub(crate) asked: Mutex<HashMap<TicketId, SessionId>>,
    /// The last transaction that made a ticket of this client.
    newest: AtomicU64,
}

impl ZooKeeper {
    pub(crate) async fn open(settings: Settings) -> Result<Self> {
        settings.check()?;
        let (keys, acls) = (NodePaths::of(&settings.prefix), settings.acls());
        let settings = Arc::new(settings);
        let servers = EnsembleServers::new(settings.clone());
        let base = Link::kept(ServerClient::new(servers));
        let facts = {
            let connection = first_connection(&base, &settings).await?;
            let turn = connection.turn().await.map_err(|said| trouble::error(&settings, &said))?;
            facts::find(&settings, &turn).await?
        };
        let profile = facts::profile(&settings, &facts);
        let (roll, free, nodes) = (NodeCache::default(), LikelyFree::new(), Nodes::default());
        let (sessions, asked) = (Mutex::default(), Mutex::default());
        let newest = AtomicU64::new(0);
        let this = Self {
            base,
            settings,
            keys,
            acls,
            profile,
            facts,
            roll,
            free,
            nodes,
            sessions,
            asked,
            newest,
        };
        this.make_roots().await?;
        // A user without rights is refused now, and not at the first lock.
        let written = this.write_now().await?;
        this.refuse_others(&written).await?;
        Ok(this)
    }

    /// Returns the session that is not for tickets.
    pub(crate) async fn wire(&self) -> Result<Arc<ServerSession>> {
        let mut connection = self.base.connection().await?;
        // No ticket lives with it, so another one is as good, and is ready sooner.
        let is_deaf = connection.is_silent() || connection.cut_off_for() > CUT_OFF_MAX;
        if connection.is_over() || is_deaf {
            self.base.give_up(connection.generation());
            connection = self.base.connection().await?;
        }
        Ok(Arc::clone(&connection))
    }

    /// Returns the session with this number, if it is one of this client's; or else the one that is
    /// not for tickets.
    pub(crate) async fn wire_of(&self, session: SessionId) -> Result<Arc<ServerSession>> {
        match self.session(session).filter(|wire| !wire.is_over()) {
            Some(wire) => Ok(wire),
            None => self.wire().await,
        }
    }

    pub(crate) fn session(&self, session: SessionId) -> Option<Arc<ServerSession>> {
        self.sessions.lock().get(&session).cloned()
    }

    /// Returns the last known transaction.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Notes a transaction.
    pub(crate) fn hear_of(&self, transaction: u64) {
        self.newest.fetch_max(transaction, Ordering::AcqRel);
    }

    pub(crate) fn said(&self, said: &Said) -> Error {
        trouble::error(&self.settings, said)
    }

    /// Makes the nodes that must exist before any line.
    pub(crate) async fn make_roots(&self) -> Result<()> {
        let wire = self.wire().await?;
        let made = self.make_roots_over(&wire).await;
        match made {
            Err(Said::NoNode) => Err(trouble::no_chroot(&self.settings)),
            made => made.map_err(|said| self.said(&said)),
        }
    }

    pub(crate) async fn make_roots_over(&self, wire: &ServerSession) -> Result<(), Said> {
        let options = CreateMode::Persistent.with_acls(Acls::new(&self.acls));
        for path in self.keys.roots() {
            let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
            for end in ends {
                let part = &path[..end];
                let turn = wire.turn().await?;
                if wire.in_time(turn.check_stat(part)).await??.is_some() {
                    continue;
                }
                match wire.in_time(turn.create(part, b"", &options)).await? {
                    Ok(_) | Err(Said::NodeExists) => {}
                    Err(said) => return Err(said),
                }
            }
        }
        Ok(())
    }

    /// Returns the current transaction. A server that lags may answer a read, but not a write.
    pub(crate) async fn now_at(&self) -> Result<u64> {
        Ok(zxid(self.write_now().await?.mzxid))
    }

    pub(crate) async fn write_now(&self) -> Result<Stat> {
        let wire = self.wire().await?;
        let turn = wire.turn().await.map_err(|said| self.said(&said))?;
        let written = wire.in_time(turn.set_data(&self.keys.now(), b"", None)).await;
        written.and_then(|stat| stat).map_err(|said| self.said(&said))
    }

    /// Lists a line. The listing has all earlier requests of this session, and all requests that
    /// were answered to any client.
    pub(crate) async fn list(
        &self,
        wire: &ServerSession,
        line: &LineId,
    ) -> Result<Arc<Listing>, Said> {
        let listings = wire.listings_of(line);
        listings.run(async { self.list_alone(wire, line).await.map(Arc::new) }).await
    }

    async fn list_alone(&self, wire: &ServerSession, line: &LineId) -> Result<Listing, Said> {
        let path = self.keys.line(line);
        let turn = wire.turn().await?;
        let both = join(self.sync_over(&turn), turn.get_children(&path));
        let (synced, listed) = wire.in_time(both).await?;
        synced.transpose()?;
        match listed {
            Ok((names, stat)) => Ok(self.listing(line, &names, &stat)),
            Err(Said::NoNode) => Ok(Listing { at: self.roll.at(line), ..Listing::default() }),
            Err(said) => Err(said),
        }
    }

    /// Sends a `sync`, unless the server is alone: then it is never behind.
    pub(crate) fn sync_over<'a>(
        &'a self,
        client: &'a zookeeper_client::Client,
    ) -> OptionFuture<impl Future<Output = Result<(), Said>>> {
        self.facts.is_ensemble.then(|| client.sync(self.keys.root())).into()
    }

    pub(crate) fn listing(&self, line: &LineId, names: &[String], stat: &Stat) -> Listing {
        let listing = Listing::read(line, names, zxid(stat.pzxid));
        self.roll.list(line, &listing);
        listing
    }

    /// Reads these nodes, and caches them. Returns `None` for nodes that are gone, or
    /// are no tickets.
    pub(crate) async fn read(
        &self,
        wire: &ServerSession,
        children: &[Child],
    ) -> Result<Vec<Option<Read>>, Said> {
        Ok(self.read_all(wire, children).await?.0)
    }

    /// The same, and the transaction of the first unreadable node. Another version of Tenure may
    /// keep tickets in another form, which are served like others.
    async fn read_all(
        &self,
        wire: &ServerSession,
        children: &[Child],
    ) -> Result<(Vec<Option<Read>>, Option<u64>), Said> {
        let (mut all, mut unreadable) = (Vec::with_capacity(children.len()), None);
        for some in children.chunks(AT_ONCE) {
            let turn = wire.turn().await?;
            let paths: Vec<_> = some.iter().map(|child| self.keys.ticket(child)).collect();
            let asked = join_all(paths.iter().map(|path| turn.get_data(path)));
            let answers = wire.in_time(asked).await?;
            for (child, answer) in some.iter().zip(answers) {
                let read = match answer {
                    Ok((body, stat)) => {
                        let read = read_node(child, &body, &stat);
                        if read.is_none() {
                            // They are in the order in which they were made.
                            unreadable.get_or_insert(zxid(stat.czxid));
                        }
                        read
                    }
                    Err(Said::NoNode) => None,
                    Err(said) => return Err(said),
                };
                if let Some(read) = &read {
                    self.roll.put(read.clone());
                }
                all.push(read);
            }
        }
        Ok((all, unreadable))
    }

    /// Returns the first tickets of a line, with the data of their nodes.
    pub(crate) async fn front_of(
        &self,
        wire: &ServerSession,
        listing: &Listing,
        most: usize,
    ) -> Result<Front, Said> {
        let first = &listing.children[..listing.children.len().min(most)];
        // A caller that wants a whole line wants the current data.
        let known = |child: &Child| {
            let read = self.roll.get(&child.name.line, child.name.id)?;
            let is_known = read.is_fresh() || self.is_watched(wire, &read);
            (is_known && read.child.tail == child.tail && most <= AT_ONCE).then_some(read)
        };
        let mut reads: Vec<Option<Read>> = first.iter().map(known).collect();
        let unknown = first.iter().zip(&reads).filter(|(_, read)| read.is_none());
        let unknown: Vec<Child> = unknown.map(|(child, _)| child.clone()).collect();
        let (found, unreadable) = self.read_all(wire, &unknown).await?;
        let mut found = found.into_iter();
        for read in reads.iter_mut().filter(|read| read.is_none()) {
            *read = found.next().flatten();
        }
        let pairs = first.iter().zip(&reads);
        let nodes: Vec<Node> = pairs
            .filter_map(|(child, read)| read.as_ref().map(|read| read.node_of(child)))
            .collect();
        let total = listing.children.len() - (first.len() - nodes.len());
        Ok(Front { nodes, total, at: listing.at, unreadable })
    }

    /// Returns whether it is watched over this session without a report. Then nothing has happened
    /// to it up to the last answer.
    pub(crate) fn is_watched(&self, wire: &ServerSession, read: &Read) -> bool {
        wire.watches.has(&self.keys.ticket(&read.child), read.node.version)
    }

    /// Returns a ticket, if it is still there, and its place. Of the tickets ahead that do not keep
    /// it out, the names are enough.
    pub(crate) async fn position_of(
        &self,
        wire: &ServerSession,
        listing: &Listing,
        own: &Child,
    ) -> Result<(Option<Node>, Position), Said> {
        let (at, has_base) = (listing.at, listing.has_base);
        let Ok(share) = Share::new(own.takes, own.name.of) else {
            return Ok((None, Position::first(at)));
        };
        let mut before: Vec<&Child> = listing.before(own).iter().collect();
        loop {
            let (count, taken) = (before.len(), taken(before.iter().copied()));
            let mut children = keep_out(&before, taken, share);
            let keepers = children.len();
            children.push(own.clone());
            let part = Listing { children, has_base, at };
            let mut front = self.front_of(wire, &part, part.children.len()).await?;
            let is_there = |child: &Child| front.nodes.iter().any(|node| node.name == child.name);
            let gone: Vec<&Child> =
                part.children[..keepers].iter().filter(|child| !is_there(child)).collect();
            if gone.is_empty() {
                let node = front.nodes.pop_if(|node| node.name == own.name);
                let nearest = front.nodes.into_iter().rev();
                return Ok((node, Position::new(at, (count, taken), nearest, share)));
            }
            // The unreadable ticket may keep this one out. If this one is not there, that does not
            // matter.
            if front.unreadable.is_some() && is_there(own) {
                return Err(trouble::UNREADABLE_TICKET);
            }
            // A ticket that left between two answers keeps none out.
            before.retain(|child| !gone.contains(child));
        }
    }

    /// Returns a ticket, from the cache or from the server; `None` if it is out.
    pub(crate) async fn find(
        &self,
        wire: &ServerSession,
        name: &TicketName,
    ) -> Result<Option<Read>, Said> {
        if let Some(read) = self.roll.get(&name.line, name.id) {
            return Ok(Some(read));
        }
        let listing = self.list(wire, &name.line).await?;
        let Some(child) = listing.find(name.id) else { return Ok(None) };
        let mut read = self.read(wire, std::slice::from_ref(child)).await?;
        Ok(read.pop().flatten())
    }

    /// Opens a session for tickets of this ttl.
    pub(crate) async fn open_session(&self, ttl: Duration) -> Result<Arc<ServerSession>> {
        // Without a connection of this one, another would have none either.
        let base = self.wire().await?;
        drop(base.turn().await.map_err(|said| self.said(&said))?);
        let (settings, life) = (self.settings.clone(), self.facts.life_for(ttl).min(TTL_MAX));
        let opening =
            self.base.home().spawn(async move { ServerSession::open(&settings, life).await });
        let opened = opening.await.map_err(|_| trouble::silence(&self.settings))?;
        let wire = opened.map_err(as_transient)?;
        let granted = wire.granted();
        if self.facts.is_ensemble && self.facts.unheard_for(granted) > granted / 2 {
            return Err(trouble::too_short(&self.settings, granted));
        }
        self.sessions.lock().insert(wire.session(), wire.clone());
        Ok(wire)
    }
}

/// Opens the first connection. Retries for as long as a verb may take, while servers are choosing
/// their leader.
async fn first_connection(
    base: &Link<EnsembleServers>,
    settings: &Settings,
) -> Result<Arc<Connection<Arc<ServerSession>>>> {
    let began = Instant::now();
    loop {
        let error = match base.connection().await {
            Err(error) if error.is_retryable() => error,
            answer => return answer,
        };
        let told = match facts::presence(settings).await? {
            Presence::Absent => return Err(error),
            Presence::Mute => trouble::mute(settings),
            Presence::There => error,
        };
        if began.elapsed() >= settings.answers_within() {
            return Err(told);
        }
        sleep(ELECTION_PAUSE).await;
    }
}

/// Returns the few earlier tickets for which a ticket has to wait, in their order.
fn keep_out(before: &[&Child], taken: u64, share: Share) -> Vec<Child> {
    if served(taken, share) {
        return Vec::new();
    }
    let few = blockers(before.iter().rev(), |child| child.takes.into(), share);
    let mut few: Vec<Child> = few.into_iter().map(|child| Child::clone(child)).collect();
    few.sort_unstable_by_key(Child::order);
    few
}

pub(crate) fn read_node(child: &Child, body: &[u8], stat: &Stat) -> Option<Read> {
    let (session, created) = (stat.ephemeral_owner.cast_unsigned(), zxid(stat.czxid));
    let node = Node::read(child.name.clone(), session, created, zxid(stat.mzxid), body)?;
    Some(Read { child: child.clone(), node, changes: stat.version, at: Instant::now() })
}
