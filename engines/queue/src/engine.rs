//! One client of a store: its tickets, its sessions, its event feed, and the ten verbs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::{
    CounterValue, Engine, Error, Guarantees, Key, LeaveMode, LeaveOutcome, Liveness, Place, Reason,
    Result, Runtime, Sampler, Ticket, TicketState, WaitMode, Wake, Window, errors, served,
};

use crate::contract::{Register, SessionStore};
use crate::event_feed::EventFeed;
use crate::likely_free::LikelyFree;
use crate::node::LineId;
use crate::parts::Parts;
use crate::session::{Session, end, keep_alive};
use crate::sessions::Sessions;

/// Pause of an onlooker between two reads, if the store cannot report changes.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Lines of tickets in a store: the ten verbs of [`Engine`].
pub struct SessionEngine<S> {
    pub(crate) parts: Arc<Parts<S>>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) feed: Arc<EventFeed>,
    pub(crate) sampler: Sampler,
    /// Lines in which a part seems to be free, for callers that would not wait.
    pub(crate) fits: LikelyFree,
}

impl<S: SessionStore> SessionEngine<S> {
    /// Returns a client of this store. It sends its signs of life from `host`.
    pub fn new(store: S, host: Arc<dyn Runtime>) -> Self {
        Self {
            parts: Arc::new(Parts::new(store, host)),
            sessions: Arc::default(),
            feed: Arc::default(),
            sampler: Sampler::new(LOOK_PAUSE),
            fits: LikelyFree::new(),
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.parts.store
    }

    /// Returns the session for tickets of this ttl, opening or checking it if needed.
    pub(crate) async fn session(&self, ttl: Duration) -> Result<Arc<Session>> {
        let now = self.parts.host.now();
        if let Some(session) = self.sessions.living(ttl, now)
            && session.is_fresh(now)
        {
            return Ok(session);
        }
        let (parts, sessions) = (self.parts.clone(), self.sessions.clone());
        let opening = async move {
            loop {
                let session = living(&parts, &sessions, ttl).await?;
                if session.is_sound(&*parts.store, &*parts.host).await? {
                    return Ok(session);
                }
            }
        };
        self.parts.errand(opening).await
    }
}

impl<S: SessionStore> Engine for SessionEngine<S> {
    fn guarantees(&self) -> Guarantees {
        let mut profile = self.parts.store.profile();
        profile.liveness = Liveness::Session;
        profile.fair = true;
        profile.push = true;
        profile.survives.holder_crash = true;
        profile.survives.holder_pause = true;
        profile
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        let joined = self.parts.in_time(self.join_line(ticket, patience)).await;
        joined.map_err(|error| self.of_line(error, &ticket.key))
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let renewed = self.parts.in_time(self.renew_in_line(ticket)).await;
        renewed.map_err(|error| self.of_line(error, &ticket.key))
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let left = match how {
            LeaveMode::Now => self.parts.in_time(self.leave_now(ticket)).await,
            LeaveMode::Graceful => self.parts.in_time(self.leave_soon(ticket)).await,
        };
        left.map_err(|error| self.of_line(error, &ticket.key))
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        self.wake(ticket, seen).await.map_err(|error| self.of_line(error, &ticket.key))
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        match self.feed.events(&self.parts, scope, after).await? {
            Some(news) => Ok(news),
            None => self.sampler.events(self, &*self.parts.host, scope, after).await,
        }
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let front = self.parts.in_time(self.whole_line(&LineId::of(key))).await?;
        // An unreadable ticket behind all others changes nothing for them. Show them: an operator
        // may ask a holder to leave.
        let is_last = |made: u64| front.nodes.last().is_some_and(|last| last.created < made);
        if front.unreadable.is_some_and(|made| !is_last(made)) {
            return Err(self.of_line(errors::unreadable_ticket(), key));
        }
        let lives = self.parts.in_time(self.lives(&front)).await.unwrap_or_default();
        let (mut ahead, mut tickets) = (0, Vec::with_capacity(front.nodes.len()));
        for node in front.nodes {
            let holds = served(ahead, node.ticket.share);
            let standing = if holds { TicketState::Holding } else { TicketState::Waiting };
            let life = lives.get(&node.session).copied();
            let (number, leaving, take) = (node.number(), node.told, node.take());
            tickets.push((
                node.ticket,
                Place { number, state: standing, ahead, life, look: None, leaving },
            ));
            ahead += take;
        }
        Ok(tickets)
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.parts.in_time(self.parts.store.keys(prefix)).await
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        if window.is_some() {
            return Err(Error::unsupported(format!(
                "{} keeps no counts with a window, because it has no clock to ask: use a sequence, or another store",
                self.parts.store.profile().name
            )));
        }
        let register = Register::Sequence(LineId::of(key));
        let counted = self.parts.in_time(self.next(key, by, &register)).await;
        let place = || self.parts.store.place_of_register(&register);
        counted.map_err(|error| errors::with_place(error, key, &place()))
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        let (store, register) = (&self.parts.store, Register::Value(LineId::of(key)));
        let swapped = self.parts.in_time(async {
            let mut stored = store.read_text(&register).await?;
            while stored.text == seen && value != seen {
                let (now, is_written) = store.write_text(&register, value, stored.version).await?;
                stored = now;
                if is_written {
                    break;
                }
            }
            Ok(stored.text)
        });
        let place = || store.place_of_register(&register);
        swapped.await.map_err(|error| errors::with_place(error, key, &place()))
    }

    async fn close(&self) {
        let store = &self.parts.store;
        let open = self.sessions.close();
        // A task that is opening a session ends that session itself.
        let opened = async { Ok(self.sessions.turn().await) };
        let _turn = self.parts.in_time(opened).await;
        let ended = open.iter().map(|session| {
            session.finish();
            self.parts.in_time(store.end(session.id))
        });
        // A session that cannot be ended ends by itself.
        let _ = join_all(ended).await;
        self.feed.stop();
    }
}

impl<S: SessionStore> SessionEngine<S> {
    /// Adds the place and the way out to an error about a stored ticket, or about the base of the
    /// line.
    fn of_line(&self, error: Error, key: &Key) -> Error {
        let (store, line) = (&self.parts.store, LineId::of(key));
        let place = if error.reason() == Some(Reason::UnreadableTicket) {
            store.place_of_line(&line)
        } else {
            store.place_of_register(&Register::Base(line))
        };
        errors::with_place(error, key, &place)
    }
}

/// Returns the session for tickets of this ttl, and opens it if there is none.
async fn living<S: SessionStore>(
    parts: &Arc<Parts<S>>,
    sessions: &Arc<Sessions>,
    ttl: Duration,
) -> Result<Arc<Session>> {
    let now = || parts.host.now();
    if let Some(session) = sessions.living(ttl, now()) {
        return Ok(session);
    }
    let turn = sessions.turn().await;
    if let Some(session) = sessions.living(ttl, now()) {
        return Ok(session);
    }
    // If the caller gives up, the session is opened for the next caller.
    let (opens, sessions) = (parts.clone(), sessions.clone());
    let opening = async move {
        let _turn = turn;
        opens.in_time(open(&opens, &sessions, ttl)).await
    };
    parts.outlives_caller(opening).await
}

async fn open<S: SessionStore>(
    parts: &Arc<Parts<S>>,
    sessions: &Sessions,
    ttl: Duration,
) -> Result<Arc<Session>> {
    let Parts { store, host, .. } = &**parts;
    for old in sessions.take_out(host.now()) {
        old.finish();
        host.spawn(Box::pin(end(Arc::downgrade(store), old, host.clone())));
    }
    if let Some(session) = sessions.nearest(ttl) {
        return Ok(session);
    }
    let (wanted, sent) = (sessions.wanted(ttl)?, host.now());
    let session = Session::new(store.open(wanted).await?, sent);
    if let Err(closed) = sessions.insert(ttl, &session) {
        session.finish();
        end(Arc::downgrade(store), session, host.clone()).await;
        return Err(closed);
    }
    let parts = Arc::downgrade(parts);
    let beat = move |session: &Arc<Session>| {
        if let Some(parts) = parts.upgrade() {
            parts.beat(session);
        }
    };
    let (kept, store) = (Arc::downgrade(&session), Arc::downgrade(store));
    host.spawn(Box::pin(keep_alive(kept, store, host.clone(), beat)));
    Ok(session)
}
