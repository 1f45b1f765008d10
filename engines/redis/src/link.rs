//! A link to one server: a connection that is made anew whenever it is gone.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{join, try_join_all};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, PushInfo, PushKind, RedisResult, Value};
use tenure_core::{Error, Result};
use tenure_kit::url::Address;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::acks::Acks;
use crate::attempts::{Attempt, Attempts, NotNow, Whose};
use crate::awake::Awake;
use crate::bundle::{self, Bundle, Bundles, Next, Wish};
use crate::calls::{self, Calls, Room};
use crate::facts::Facts;
use crate::mail::Mail;
use crate::script::{Script, Scripts};
use crate::settings::Settings;
use crate::way::{self, Way};
use crate::{sentinel, trouble};

/// How long anybody waits for a server that was in trouble when it was asked last.
const BRIEF: Duration = Duration::from_millis(100);

const ENDED: &str = "the runtime that speaks to the server has ended";

/// What every link of one client has in common.
pub(crate) struct Common {
    pub(crate) settings: Settings,
    pub(crate) scripts: Scripts,
    pub(crate) way: Way,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) mail: Arc<Mail>,
    /// The name of this client's inbox.
    pub(crate) inbox: String,
    /// How often the way was found to lead to another server.
    pub(crate) era: AtomicU64,
    /// Whether a server was found that can keep lines.
    pub(crate) met: AtomicBool,
}

/// One connection at a time.
pub(crate) struct Link {
    pub(crate) common: Arc<Common>,
    pub(crate) this: Weak<Self>,
    listens: bool,
    live: Mutex<Option<Arc<Live>>>,
    /// The number of the last connection that is known to have ended.
    ended: AtomicU64,
    /// What will come of the attempt that is under way.
    attempt: Mutex<Option<Outcome>>,
    pub(crate) home: Handle,
    /// Rung when the connection was found to be gone, and when the link itself is.
    gone: Arc<Notify>,
    barred: AtomicBool,
}

/// What came of an attempt, for all who wait for it.
type Outcome = watch::Receiver<Option<Result<Arc<Live>>>>;

/// A connection that works, as far as is known.
pub(crate) struct Live {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) facts: Arc<Facts>,
    pub(crate) since: Instant,
    pub(crate) acks: Acks,
    pub(crate) bundles: Bundles,
    pub(crate) calls: Calls,
    awake: Awake,
    /// Which server it leads to.
    address: Arc<str>,
    pub(crate) number: u64,
    era: u64,
}

impl Link {
    /// A link that carries verbs only, and connects when the first is sent.
    pub(crate) fn new(common: Arc<Common>) -> Arc<Self> {
        Self::unconnected(common, false)
    }

    /// A link that also listens for this client's mail, and stays connected by itself.
    pub(crate) fn listening(common: Arc<Common>) -> Arc<Self> {
        let sentinels = common.way.sentinels().cloned();
        let link = Self::unconnected(common, true);
        link.gone.notify_one();
        Handle::current().spawn(stay_connected(Arc::downgrade(&link), link.gone.clone()));
        if let Some(sentinels) = sentinels {
            Handle::current().spawn(sentinel::patrol(Arc::downgrade(&link), sentinels));
        }
        link
    }

    fn unconnected(common: Arc<Common>, listens: bool) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            common,
            this: this.clone(),
            listens,
            live: Mutex::default(),
            ended: AtomicU64::new(0),
            attempt: Mutex::default(),
            home: Handle::current(),
            gone: Arc::default(),
            barred: AtomicBool::new(false),
        })
    }

    /// The connection; made now if there is none, by one attempt for all who ask. Where the server is known to be
    /// in trouble, nobody waits for long.
    pub(crate) async fn live(&self) -> Result<Arc<Live>> {
        let attempts = &self.common.attempts;
        loop {
            if let Some(live) = self.current() {
                return Ok(live);
            }
            let trouble = attempts.trouble();
            let outcome = match self.outcome() {
                Ok(mut outcome) => {
                    let come = async move {
                        let come = outcome.wait_for(Option::is_some).await;
                        come.map_or_else(|_| None, |outcome| outcome.clone())
                    };
                    match &trouble {
                        None => come.await,
                        Some(trouble) => timeout(BRIEF, come)
                            .await
                            .unwrap_or_else(|_| Some(Err(trouble.clone()))),
                    }
                }
                Err(NotNow::Tried(trouble)) => match timeout(BRIEF, attempts.tried()).await {
                    Ok(()) => continue,
                    Err(_) => Some(Err(trouble)),
                },
                Err(NotNow::Paused(trouble)) => Some(Err(trouble)),
            };
            return outcome.unwrap_or_else(|| Err(ended()));
        }
    }

    /// The attempt that is under way, or a new one, which goes on to its end even if nobody waits for it any more.
    fn outcome(&self) -> Result<Outcome, NotNow> {
        let mut under_way = lock(&self.attempt);
        if let Some(outcome) = under_way.as_ref().filter(|outcome| outcome.has_changed().is_ok()) {
            return Ok(outcome.clone());
        }
        let whose = if self.listens { Whose::Home } else { Whose::Caller };
        let (attempt, turn) = self.common.attempts.ask(whose)?;
        let (tell, outcome) = watch::channel(None);
        *under_way = Some(outcome.clone());
        if let Some(link) = self.this.upgrade() {
            self.home.spawn(async move {
                let come = AssertUnwindSafe(link.attempt_in(turn, attempt)).catch_unwind().await;
                let come = come.unwrap_or_else(|_| {
                    link.barred.store(true, Ordering::Relaxed);
                    Err(ended())
                });
                *lock(&link.attempt) = None;
                tell.send_replace(Some(come));
            });
        }
        Ok(outcome)
    }

    async fn attempt_in(&self, turn: Duration, attempt: Attempt) -> Result<Arc<Live>> {
        if !turn.is_zero() {
            tokio::time::sleep(turn).await;
        }
        let live = match self.connect().await {
            Ok(live) => Arc::new(live),
            Err(error) => {
                attempt.failed(&error);
                return Err(error);
            }
        };
        attempt.succeeded();
        *self.slot() = Some(live.clone());
        // It may have ended before it stood there.
        if self.ended.load(Ordering::Acquire) >= live.number {
            self.give_up(live.number);
        }
        Ok(live)
    }

    /// Whether its runtime has no drivers for sockets or for time, which it says by a panic.
    pub(crate) fn is_barred(&self) -> bool {
        self.barred.load(Ordering::Relaxed)
    }

    /// The connection, if there is one and it leads where it should.
    pub(crate) fn current(&self) -> Option<Arc<Live>> {
        let era = self.common.era.load(Ordering::Acquire);
        self.slot().clone().filter(|live| live.era == era)
    }

    /// Where the master is now: a connection to another server is given up.
    pub(crate) fn follow(&self, master: &Address) {
        let Some(live) = self.current() else { return };
        let master = way::address(master, &self.common.settings).to_string();
        if *live.address != *master {
            tracing::info!(%master, "another server is the master now");
            self.common.era.fetch_add(1, Ordering::AcqRel);
            self.give_up(live.number);
        }
    }

    /// Sends the call of a script whose answer somebody is in a hurry for: on the caller's own runtime.
    pub(crate) async fn call_awake(&self, live: &Arc<Live>, call: &Cmd) -> RedisResult<Value> {
        let room = live.calls.enter().await?;
        self.call_in_awake(live, room, call).await
    }

    async fn call_in_awake(&self, live: &Arc<Live>, room: Room, call: &Cmd) -> RedisResult<Value> {
        // It is waited for by reference, since whatever takes a future makes the verb's as much larger.
        let called = pin!(self.call_in(live, room, call));
        if self.listens { called.await } else { live.awake.wait(called).await }
    }

    /// Sends a verb together with others, where many are under way already. `None`: it has to go by itself,
    /// because few are, or because somebody else is in its line.
    pub(crate) async fn bundled(&self, live: &Arc<Live>, wish: &Wish<'_>) -> bundle::Answer {
        if !live.bundles.are_many_under_way() {
            return Ok(None);
        }
        let Some(link) = self.this.upgrade() else { return Ok(None) };
        // Who opens a bundle, and who fills it, has the room in which it travels.
        let room = live.calls.enter().await?;
        let (next, answered) = live.bundles.gather(wish);
        let live = live.clone();
        match next {
            Next::Nothing => drop(room),
            Next::Send(bundle) => drop(self.home.spawn(link.carry(live, room, bundle))),
            Next::SendSoon => drop(self.home.spawn(async move {
                tokio::task::yield_now().await;
                if let Some(bundle) = live.bundles.take() {
                    link.carry(live, room, bundle).await;
                }
            })),
        }
        answered.await.unwrap_or_else(|_| Err(std::io::Error::other(ENDED).into()))
    }

    async fn carry(self: Arc<Self>, live: Arc<Live>, room: Room, bundle: Bundle) {
        let call = bundle.call(&self.common.scripts.bundle);
        let called = self.call_in_awake(&live, room, &call);
        let answer = timeout(self.common.settings.timeout, called).await;
        bundle.answer(answer.unwrap_or_else(|_| Err(calls::late())));
    }

    /// The connection is of no more use. Whether it was in use until now.
    pub(crate) fn give_up(&self, number: u64) -> bool {
        self.ended.fetch_max(number, Ordering::AcqRel);
        let given_up = self.slot().take_if(|live| live.number == number);
        if let Some(live) = &given_up {
            live.calls.close();
            self.gone.notify_one();
        }
        given_up.is_some()
    }

    /// The same for one whose server does not answer: the next one may not, either.
    pub(crate) fn give_up_silent(&self, number: u64) {
        if self.give_up(number) {
            self.common.attempts.fail(&trouble::late(self.common.way.place()));
        }
    }

    pub(crate) async fn tell_scripts(&self, connection: &MultiplexedConnection) -> RedisResult<()> {
        let loads = self.common.scripts.all().map(Script::load);
        try_join_all(loads.iter().map(|load| say(connection, load))).await.map(drop)
    }

    /// A connection to the server. If the one that a sentinel named is no master, another sentinel is asked.
    async fn connect(&self) -> Result<Live> {
        match self.try_to_connect().await {
            Err(error) if error.is_unknown() && self.common.way.doubt().await => {
                self.try_to_connect().await
            }
            connected => connected,
        }
    }

    async fn try_to_connect(&self) -> Result<Live> {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let Common { settings, way, mail, inbox, era, .. } = &*self.common;
        let era = era.load(Ordering::Acquire);
        let (connection, address) = way.go(self.listens.then(|| self.pushes(number))).await?;
        let mut live = Live {
            connection,
            facts: Arc::default(),
            since: Instant::now(),
            acks: Acks::default(),
            bundles: Bundles::default(),
            calls: Calls::new(),
            awake: Awake::default(),
            address: address.into(),
            number,
            era,
        };
        let (info, config) = Facts::questions();
        let asked = join(say(&live.connection, &info), say(&live.connection, &config));
        let answered = timeout(settings.timeout, asked).await;
        let (info, config) = answered.map_err(|_| trouble::late(way.place()))?;
        let facts = Facts::of(info, config);
        // Whoever was a master when it was first met may be one again.
        let fit = facts.fit(settings);
        if self.common.met.load(Ordering::Relaxed) {
            fit.map_err(|error| Error::unavailable(error.to_string()))?;
        } else {
            fit?;
        }
        self.common.met.store(true, Ordering::Relaxed);
        live.facts = Arc::new(facts);
        if self.listens {
            let channel = settings.channels() + inbox;
            let heard = timeout(settings.timeout, live.connection.subscribe(channel)).await;
            trouble::answered(settings, heard.unwrap_or_else(|_| Err(calls::late())))?;
            mail.interrupted();
        }
        Ok(live)
    }

    /// What happens to that which the server says without having been asked.
    fn pushes(&self, number: u64) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
        let (mail, this) = (self.common.mail.clone(), self.this.clone());
        move |push| {
            match (push.kind, &push.data[..]) {
                (PushKind::Message, [_, Value::BulkString(letter)]) => mail.deliver(letter),
                (PushKind::Disconnection, _) => {
                    if let Some(link) = this.upgrade() {
                        link.give_up(number);
                    }
                }
                _ => {}
            }
            Ok(())
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Live>>> {
        lock(&self.live)
    }
}

/// Sends one command while a connection is made.
async fn say(connection: &MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
    // A refusal comes as an answer.
    connection.clone().send_packed_command(command).await?.extract_error()
}

fn ended() -> Error {
    Error::unavailable(ENDED)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Link {
    fn drop(&mut self) {
        self.gone.notify_one();
    }
}

/// Makes the connection anew whenever it is gone, for as long as the link is wanted.
async fn stay_connected(link: Weak<Link>, gone: Arc<Notify>) {
    loop {
        gone.notified().await;
        while let Some(link) = link.upgrade() {
            match link.live().await {
                Ok(_) => break,
                Err(error) => tracing::debug!(%error, "the server cannot be reached, trying again"),
            }
            let pause = link.common.attempts.pause();
            drop(link);
            tokio::time::sleep(pause).await;
        }
        if link.strong_count() == 0 {
            return;
        }
    }
}
