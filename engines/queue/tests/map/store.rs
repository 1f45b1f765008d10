//! A store in a map of this process: the contract of [`SessionStore`] in as few steps as there are,
//! with a clock of its own.

mod nodes;

use std::collections::HashSet;
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::sync::Mutex;
use tenure_core::{
    Error, EventDelivery, Guarantees, Key, Liveness, Loss, Result, Runtime, TicketId, Time,
    TokenDurability,
};
use tenure_queue::{
    Enter, Entered, Followed, Front, Granted, Hint, LineId, Node, OpenWatch, Position,
    Precondition, Register, RegisterValue, Remove, Removed, SessionId, SessionStore, Sought,
    TextValue, TicketName, Why,
};
use tokio::sync::{Notify, mpsc, oneshot};

use nodes::Nodes;

/// The store that all clients share.
pub(crate) struct Shared {
    nodes: Mutex<Nodes>,
    changed: Notify,
    host: Arc<dyn Runtime>,
    /// Tickets that entered, or tried to, and are not forgotten.
    known: Mutex<HashSet<TicketId>>,
    /// Entries are not answered.
    loses_answers: AtomicBool,
    /// Signs of life are lost.
    deaf: AtomicBool,
    /// It is sure of less than half of each life.
    unsure: AtomicBool,
    /// Count of signs of life.
    signs: AtomicUsize,
    /// An answer needs a second poll.
    takes_steps: AtomicBool,
    /// The next entry is answered after this time, when its session is over.
    outlived_by: Mutex<Option<Duration>>,
    /// The next entry is answered after this time, and its session lives on.
    late_by: Mutex<Option<Duration>>,
    /// The next removal arrives when this is sent, and is not answered.
    late_leave: Mutex<Option<oneshot::Receiver<oneshot::Sender<()>>>>,
    /// The last node that was made, and its session.
    last: Mutex<Option<(TicketName, SessionId, Vec<u8>)>>,
    /// A node that is gone. The next list of orphans still contains it.
    outdated_orphan: Mutex<Option<Node>>,
    /// Number of requests for orphans.
    orphan_requests: AtomicUsize,
    /// Number of removals that asked for the front of the line.
    front_requests: AtomicUsize,
    /// Number of requests for the position of a ticket.
    position_requests: AtomicUsize,
}

/// A request that is on its way.
pub(crate) struct Late(oneshot::Sender<oneshot::Sender<()>>);

impl Late {
    /// Lets it arrive, and waits until it is carried out.
    #[allow(dead_code, reason = "of the programs that have this store, one leaves late")]
    pub(crate) async fn arrive(self) {
        let (arrived, carried_out) = oneshot::channel();
        self.0.send(arrived).expect("it was sent");
        carried_out.await.expect("it is carried out");
    }
}

/// One client of it.
pub(crate) struct Map(Arc<Shared>);

impl Shared {
    pub(crate) fn on(host: Arc<dyn Runtime>) -> Arc<Self> {
        let (nodes, changed, known, loses_answers, deaf) = Default::default();
        let (unsure, signs, takes_steps, outlived_by) = Default::default();
        Arc::new(Self {
            nodes,
            changed,
            host,
            known,
            loses_answers,
            deaf,
            unsure,
            signs,
            takes_steps,
            outlived_by,
            late_by: Mutex::default(),
            late_leave: Mutex::default(),
            last: Mutex::default(),
            outdated_orphan: Mutex::default(),
            orphan_requests: AtomicUsize::default(),
            front_requests: AtomicUsize::default(),
            position_requests: AtomicUsize::default(),
        })
    }

    #[allow(dead_code, reason = "of the programs that have this store, one loses answers")]
    pub(crate) fn lose_answers(&self, lose: bool) {
        self.loses_answers.store(lose, Ordering::Relaxed);
    }

    #[allow(dead_code, reason = "of the programs that have this store, one is deaf")]
    pub(crate) fn be_deaf(&self, deaf: bool) {
        self.deaf.store(deaf, Ordering::Relaxed);
    }

    #[allow(dead_code, reason = "of the programs that have this store, one is unsure")]
    pub(crate) fn be_unsure(&self) {
        self.unsure.store(true, Ordering::Relaxed);
    }

    #[allow(dead_code, reason = "of the programs that have this store, one is unsure")]
    pub(crate) fn signs(&self) -> usize {
        self.signs.load(Ordering::Relaxed)
    }

    #[allow(dead_code, reason = "of the programs that have this store, one takes steps")]
    pub(crate) fn take_steps(&self, take: bool) {
        self.takes_steps.store(take, Ordering::Relaxed);
    }

    /// A lost sign of life is never answered.
    async fn hear(&self) {
        if self.deaf.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    }

    /// The way of a request to the store, or of its answer.
    async fn travel(&self) {
        if self.takes_steps.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
    }

    #[allow(dead_code, reason = "of the programs that have this store, one answers late")]
    pub(crate) fn outlive_next(&self, by: Duration) {
        *lock(&self.outlived_by) = Some(by);
    }

    #[allow(dead_code, reason = "of the programs that have this store, one answers late")]
    pub(crate) fn be_late_next(&self, by: Duration) {
        *lock(&self.late_by) = Some(by);
    }

    #[allow(dead_code, reason = "of the programs that have this store, one leaves late")]
    pub(crate) fn hold_next_leave(&self) -> Late {
        let (arrives, late) = oneshot::channel();
        *lock(&self.late_leave) = Some(late);
        Late(arrives)
    }

    /// Delivers the last entry a second time.
    #[allow(dead_code, reason = "of the programs that have this store, one has such a proxy")]
    pub(crate) fn enter_again(&self) {
        let (name, session, body) = lock(&self.last).clone().expect("a node was made");
        self.step(|nodes, _| nodes.make(&name, session, &body));
    }

    /// Delivers the last entry a second time. Its ticket is asked to leave, and leaves. The next
    /// list of orphans was read before that.
    #[allow(dead_code, reason = "of the programs that have this store, one has such a proxy")]
    pub(crate) fn list_outdated_orphan(&self) {
        let (name, session, body) = lock(&self.last).clone().expect("a node was made");
        let node = self.step(|nodes, _| {
            let node = nodes.make(&name, session, &body);
            nodes.remove(&name, Why::Left);
            node
        });
        *lock(&self.outdated_orphan) = Some(Node { told: true, ..node });
    }

    #[allow(dead_code, reason = "of the programs that have this store, one has such a proxy")]
    pub(crate) fn orphan_requests(&self) -> usize {
        self.orphan_requests.load(Ordering::Relaxed)
    }

    #[allow(dead_code, reason = "of the programs that have this store, one has such a proxy")]
    pub(crate) fn front_requests(&self) -> usize {
        self.front_requests.load(Ordering::Relaxed)
    }

    #[allow(dead_code, reason = "of the programs that have this store, one counts its reads")]
    pub(crate) fn position_requests(&self) -> usize {
        self.position_requests.load(Ordering::Relaxed)
    }

    #[allow(dead_code, reason = "of the programs that have this store, one has onlookers")]
    pub(crate) fn followers(&self) -> usize {
        lock(&self.nodes).followers()
    }

    #[allow(dead_code, reason = "of the programs that have this store, some ask what it knows")]
    pub(crate) fn knows(&self) -> usize {
        lock(&self.known).len()
    }

    /// Runs one step. Sessions that have ended are out before it.
    fn step<T>(&self, act: impl FnOnce(&mut Nodes, Time) -> T) -> T {
        let mut nodes = lock(&self.nodes);
        let (now, before) = (self.host.now(), nodes.at());
        nodes.expire(now);
        let answer = act(&mut nodes, now);
        let changed = nodes.at() != before;
        drop(nodes);
        if changed {
            self.changed.notify_waiters();
        }
        answer
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Map {
    pub(crate) fn connect(shared: &Arc<Shared>) -> Self {
        Self(shared.clone())
    }
}

impl SessionStore for Map {
    fn profile(&self) -> Guarantees {
        let mut profile = Guarantees::new("map", Liveness::Session);
        profile.events = EventDelivery::Every;
        profile.fencing = TokenDurability::Volatile;
        profile.survives.clock_step = true;
        profile.survives.full_memory = true;
        profile.answers_within = Duration::from_secs(2);
        profile
    }

    fn silence(&self) -> Error {
        Error::unavailable("the map did not answer in time")
    }

    fn place_of_line(&self, line: &LineId) -> String {
        format!("in the map as {line}")
    }

    fn place_of_register(&self, register: &Register) -> String {
        format!("in the map as {register:?}")
    }

    async fn open(&self, ttl: Duration) -> Result<Granted> {
        self.0.travel().await;
        Ok(self.0.step(|nodes, now| Granted { session: nodes.open(ttl, now), ttl, every: ttl / 3 }))
    }

    async fn keep(&self, session: SessionId, _within: Duration) -> Result<Option<Duration>> {
        self.0.hear().await;
        self.0.signs.fetch_add(1, Ordering::Relaxed);
        let life = self.0.step(|nodes, now| nodes.keep(session, now));
        let is_unsure = self.0.unsure.load(Ordering::Relaxed);
        Ok(life.map(|life| if is_unsure { life * 9 / 20 } else { life }))
    }

    async fn end(&self, session: SessionId) -> Result<()> {
        self.0.step(|nodes, _| nodes.end(session));
        Ok(())
    }

    async fn lives(&self, sessions: &[SessionId]) -> Vec<Option<Duration>> {
        self.0.step(|nodes, now| sessions.iter().map(|it| nodes.life(*it, now)).collect())
    }

    async fn enter(&self, enter: &Enter<'_>) -> Result<Entered> {
        lock(&self.0.known).insert(enter.name.id);
        self.0.travel().await;
        let entered = self.0.step(|nodes, _| {
            let Enter { name, body, session, precondition, base_version } = *enter;
            if let Some(node) = nodes.get(name) {
                return Ok(Entered::Existing(node));
            }
            let line = nodes.front(&name.line, usize::MAX);
            let base = nodes.read(&Register::Base(name.line.clone()));
            let mut capacities = line.nodes.iter().map(|node| node.name.of);
            let other_capacity = capacities.find(|of| *of != name.of);
            let closed = match precondition {
                Precondition::SameCapacity => other_capacity.is_some(),
                Precondition::EmptyLine => !line.nodes.is_empty(),
            };
            if closed || base.version != base_version || nodes.is_fenced_out(name) {
                let taken = line.nodes.iter().map(Node::take).sum();
                return Ok(Entered::Out { at: line.at, taken, other_capacity, base });
            }
            if !nodes.lives(session) {
                return Err(Error::lost(Loss::SessionGone));
            }
            let node = nodes.make(name, session, body);
            *lock(&self.0.last) = Some((name.clone(), session, body.to_vec()));
            let line = nodes.front(&name.line, usize::MAX);
            Ok(Entered::In { position: line.position_of(&node), node, total: line.total })
        });
        self.0.travel().await;
        if self.0.loses_answers.load(Ordering::Relaxed) {
            return pending().await;
        }
        let late = lock(&self.0.late_by).take();
        if let Some(late) = late {
            self.0.host.sleep(late).await;
        }
        let late = lock(&self.0.outlived_by).take();
        if let Some(late) = late {
            self.0.step(|nodes, _| nodes.end(enter.session));
            self.0.host.sleep(late).await;
        }
        entered
    }

    async fn front(&self, line: &LineId, most: usize) -> Result<Front> {
        self.0.travel().await;
        let front = self.0.step(|nodes, _| nodes.front(line, most));
        self.0.travel().await;
        Ok(front)
    }

    async fn position(&self, sought: Sought<'_>) -> Result<Option<(Node, Position)>> {
        self.0.position_requests.fetch_add(1, Ordering::Relaxed);
        let name = sought.name();
        let front = self.front(&name.line, usize::MAX).await?;
        let node = front.nodes.iter().find(|node| node.name == *name);
        Ok(node.map(|node| (node.clone(), front.position_of(node))))
    }

    async fn look(&self, sought: &[Sought<'_>]) -> Result<(Vec<Option<Node>>, u64)> {
        let found = |nodes: &mut Nodes| sought.iter().map(|one| nodes.get(one.name())).collect();
        Ok(self.0.step(|nodes, _| (found(nodes), nodes.at())))
    }

    async fn change(&self, node: &Node, body: &[u8]) -> Result<Option<Node>> {
        Ok(self.0.step(|nodes, _| nodes.change(node, body)))
    }

    async fn remove(&self, remove: &Remove<'_>) -> Result<Removed> {
        self.0.front_requests.fetch_add(remove.front.is_some().into(), Ordering::Relaxed);
        self.0.travel().await;
        let late = lock(&self.0.late_leave).take();
        if let Some(late) = late {
            let (shared, node) = (self.0.clone(), remove.node.clone());
            self.0.host.spawn(Box::pin(async move {
                if let Ok(arrived) = late.await {
                    shared.step(|nodes, _| {
                        let now = nodes.get(&node.name);
                        if now.is_some_and(|now| now.created == node.created) {
                            nodes.remove(&node.name, Why::Left);
                        }
                    });
                    let _ = arrived.send(());
                }
            }));
            return pending().await;
        }
        let removed = self.0.step(|nodes, _| {
            let Remove { node, provided, why, front, .. } = remove;
            let same =
                |node: &Node| nodes.get(&node.name).is_some_and(|now| now.version == node.version);
            let is_there = nodes.get(&node.name).is_some_and(|now| now.created == node.created);
            let gone = is_there && provided.iter().all(same);
            if gone {
                nodes.remove(&node.name, *why);
            }
            let front = front.filter(|_| gone).map(|most| nodes.front(&node.name.line, most));
            Removed { gone, front }
        });
        self.0.travel().await;
        Ok(removed)
    }

    async fn fence_out(&self, name: &TicketName, _session: SessionId) -> Result<Option<Node>> {
        Ok(self.0.step(|nodes, _| nodes.fence_out(name)))
    }

    async fn orphans(&self, session: SessionId) -> Result<Vec<Node>> {
        self.0.orphan_requests.fetch_add(1, Ordering::Relaxed);
        let mut nodes = self.0.step(|nodes, _| nodes.all());
        nodes.extend(lock(&self.0.outdated_orphan).take());
        let known = lock(&self.0.known);
        nodes.retain(|node| node.session == session && !known.contains(&node.name.id));
        Ok(nodes)
    }

    fn forget(&self, ticket: TicketId) {
        lock(&self.0.known).remove(&ticket);
    }

    async fn watch(&self, watched: &[Node]) -> Result<OpenWatch> {
        let at = self.0.step(|nodes, _| nodes.at());
        let (shared, watched) = (self.0.clone(), watched.to_vec());
        let changed = async move {
            loop {
                let mut changed = pin!(shared.changed.notified());
                changed.as_mut().enable();
                let look = |nodes: &mut Nodes, now| {
                    let same = |node: &Node| {
                        nodes.get(&node.name).is_some_and(|it| it.version == node.version)
                    };
                    let is_released = match &watched[..] {
                        [own, ahead] => same(own) && nodes.get(&ahead.name).is_none(),
                        _ => false,
                    };
                    let hint = if is_released { Hint::Released(nodes.at()) } else { Hint::Changed };
                    (watched.iter().all(same), hint, nodes.next_end(now))
                };
                let (same, hint, next) = shared.step(look);
                if !same {
                    return hint;
                }
                match select(changed, shared.host.sleep(next)).await {
                    Either::Left(_) | Either::Right(_) => {}
                }
            }
        };
        Ok(OpenWatch { at, changed: Box::pin(changed) })
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        Ok(self.0.step(|nodes, _| nodes.keys(prefix)))
    }

    async fn read(&self, register: &Register) -> Result<RegisterValue> {
        self.0.travel().await;
        Ok(self.0.step(|nodes, _| nodes.read(register)))
    }

    async fn write(
        &self,
        register: &Register,
        value: u64,
        version: u64,
    ) -> Result<(RegisterValue, bool)> {
        self.0.travel().await;
        Ok(self.0.step(|nodes, _| nodes.write(register, value, version)))
    }

    async fn read_text(&self, register: &Register) -> Result<TextValue> {
        self.0.travel().await;
        Ok(self.0.step(|nodes, _| nodes.read_text(register)))
    }

    async fn write_text(
        &self,
        register: &Register,
        text: &str,
        version: u64,
    ) -> Result<(TextValue, bool)> {
        self.0.travel().await;
        Ok(self.0.step(|nodes, _| nodes.write_text(register, text, version)))
    }

    async fn follow(&self) -> Result<Option<Followed>> {
        if self.0.deaf.load(Ordering::Relaxed) {
            return Err(self.silence());
        }
        let (tell, changes) = mpsc::channel(1024);
        let followed = self.0.step(|nodes, _| {
            nodes.tell(tell);
            Followed { nodes: nodes.all(), at: nodes.at(), changes }
        });
        Ok(Some(followed))
    }

    async fn now(&self) -> Result<u64> {
        self.0.hear().await;
        Ok(self.0.step(|nodes, _| nodes.at()))
    }
}

/// Why a node of an ended session is out.
pub(crate) const ENDED: Why = Why::Expired;
