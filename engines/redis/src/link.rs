//! A link to one server: a connection that is made anew whenever it is gone.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::{join, try_join_all};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, PushInfo, PushKind, RedisResult, Value};
use tenure_core::{Error, Result};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::acks::Acks;
use crate::awake::Awake;
use crate::bundle::{self, Bundle, Bundles, Next, Wish};
use crate::facts::Facts;
use crate::mail::Mail;
use crate::script::{Script, Scripts};
use crate::settings::{Place, Settings};
use crate::trouble;
use crate::way::Way;

const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often the sentinels are asked who the master is, while all seems well.
const PATROL_PAUSE: Duration = Duration::from_secs(1);

const ENDED: &str = "the runtime that speaks to the server has ended";

/// What every link of one client has in common.
pub(crate) struct Common {
    pub(crate) settings: Settings,
    pub(crate) scripts: Scripts,
    pub(crate) way: Way,
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
    common: Arc<Common>,
    this: Weak<Self>,
    listens: bool,
    live: Mutex<Option<Arc<Live>>>,
    /// The number of the last connection that is known to have ended.
    ended: AtomicU64,
    connecting: Arc<tokio::sync::Mutex<()>>,
    home: Handle,
    /// Rung when the connection was found to be gone, and when the link itself is.
    gone: Arc<Notify>,
    barred: AtomicBool,
}

/// A connection that works, as far as is known.
pub(crate) struct Live {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) facts: Arc<Facts>,
    pub(crate) since: Instant,
    pub(crate) acks: Acks,
    pub(crate) bundles: Bundles,
    awake: Awake,
    /// Which server it leads to.
    address: Arc<str>,
    number: u64,
    era: u64,
}

impl Link {
    /// A link that carries verbs only, and connects when the first is sent.
    pub(crate) fn new(common: Arc<Common>) -> Arc<Self> {
        Self::unconnected(common, false)
    }

    /// A link that also listens for this client's mail, and stays connected by itself.
    pub(crate) fn listening(common: Arc<Common>) -> Arc<Self> {
        let asks = matches!(common.settings.place, Place::Sentinel { .. });
        let link = Self::unconnected(common, true);
        link.gone.notify_one();
        Handle::current().spawn(stay_connected(Arc::downgrade(&link), link.gone.clone()));
        if asks {
            Handle::current().spawn(patrol(Arc::downgrade(&link)));
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
            connecting: Arc::default(),
            home: Handle::current(),
            gone: Arc::default(),
            barred: AtomicBool::new(false),
        })
    }

    /// The connection; made now if there is none, and to its end even if nobody waits for it any more.
    pub(crate) async fn live(&self) -> Result<Arc<Live>> {
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let one_at_a_time = self.connecting.clone().lock_owned().await;
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let Some(link) = self.this.upgrade() else { return Err(ended()) };
        let connecting = self.home.spawn(async move {
            let live = Arc::new(link.connect().await?);
            *link.slot() = Some(live.clone());
            // It may have ended before it stood there.
            if link.ended.load(Ordering::Acquire) >= live.number {
                link.give_up(live.number);
            }
            drop(one_at_a_time);
            Ok(live)
        });
        connecting.await.unwrap_or_else(|why| {
            self.barred.fetch_or(why.is_panic(), Ordering::Relaxed);
            Err(ended())
        })
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

    /// Sends the call of a script. A server that has forgotten the scripts is told them again.
    pub(crate) async fn call(&self, live: &Live, call: &Cmd) -> RedisResult<Value> {
        match self.send(live, call).await {
            Err(trouble) if trouble::wants_scripts(&trouble) => {
                self.load_scripts(live).await?;
                self.send(live, call).await
            }
            answer => answer,
        }
    }

    /// Sends one command.
    pub(crate) async fn send(&self, live: &Live, command: &Cmd) -> RedisResult<Value> {
        let sent = Instant::now();
        // A refusal comes as an answer.
        let answer = live.connection.clone().send_packed_command(command).await;
        let answer = answer.and_then(Value::extract_error);
        if let Err(trouble) = &answer
            && trouble::ends_connection(trouble)
        {
            // Where this process itself stood still, a missed answer says nothing of the connection.
            let stood_still = sent.elapsed() >= self.common.settings.timeout * 2;
            if !(trouble.is_timeout() && stood_still) {
                self.give_up(live.number);
            }
        }
        answer
    }

    /// Sends the call of a script whose answer somebody is in a hurry for: on the caller's own runtime.
    pub(crate) async fn call_awake(&self, live: &Live, call: &Cmd) -> RedisResult<Value> {
        let called = self.call(live, call);
        if self.listens { called.await } else { live.awake.wait(called).await }
    }

    /// Sends a verb together with others, where many are under way already. `None`: it has to go by itself,
    /// because few are, or because somebody else is in its line.
    pub(crate) async fn bundled(&self, live: &Arc<Live>, wish: &Wish<'_>) -> bundle::Answer {
        if !live.bundles.are_many_under_way() {
            return Ok(None);
        }
        let Some(link) = self.this.upgrade() else { return Ok(None) };
        let (next, answered) = live.bundles.gather(wish);
        let live = live.clone();
        match next {
            Next::Nothing => {}
            Next::Send(bundle) => drop(self.home.spawn(link.carry(live, bundle))),
            Next::SendSoon => drop(self.home.spawn(async move {
                tokio::task::yield_now().await;
                if let Some(bundle) = live.bundles.take() {
                    link.carry(live, bundle).await;
                }
            })),
        }
        answered.await.unwrap_or_else(|_| Err(io::Error::other(ENDED).into()))
    }

    async fn carry(self: Arc<Self>, live: Arc<Live>, bundle: Bundle) {
        let call = bundle.call(&self.common.scripts.bundle);
        bundle.answer(self.call_awake(&live, &call).await);
    }

    fn give_up(&self, number: u64) {
        self.ended.fetch_max(number, Ordering::AcqRel);
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(|live| live.number == number) {
            *slot = None;
            self.gone.notify_one();
        }
    }

    async fn load_scripts(&self, live: &Live) -> RedisResult<()> {
        let loads = self.common.scripts.all().map(Script::load);
        try_join_all(loads.iter().map(|load| self.send(live, load))).await.map(drop)
    }

    async fn connect(&self) -> Result<Live> {
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
            awake: Awake::default(),
            address: address.into(),
            number,
            era,
        };
        let (info, config) = Facts::questions();
        let (info, config) = join(self.send(&live, &info), self.send(&live, &config)).await;
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
        trouble::answered(settings, self.load_scripts(&live).await)?;
        if self.listens {
            let channel = settings.channels() + inbox;
            trouble::answered(settings, live.connection.subscribe(channel).await)?;
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
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ended() -> Error {
    Error::unavailable(ENDED)
}

impl Drop for Link {
    fn drop(&mut self) {
        self.gone.notify_one();
    }
}

/// Makes the connection anew whenever it is gone, for as long as the link is wanted.
async fn stay_connected(link: Weak<Link>, gone: Arc<Notify>) {
    let mut pause = PAUSE_FIRST;
    loop {
        gone.notified().await;
        while let Some(link) = link.upgrade() {
            match link.live().await {
                Ok(_) => break,
                Err(error) => tracing::debug!(%error, "the server cannot be reached, trying again"),
            }
            drop(link);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        pause = PAUSE_FIRST;
        if link.strong_count() == 0 {
            return;
        }
    }
}

/// Asks the sentinels now and then: a master that was replaced may go on answering those who stay with it.
async fn patrol(link: Weak<Link>) {
    loop {
        tokio::time::sleep(PATROL_PAUSE).await;
        let Some(link) = link.upgrade() else { return };
        let Ok(live) = link.live().await else { continue };
        if let Ok(master) = link.common.way.master().await
            && *master != *live.address
        {
            tracing::info!(%master, "another server is the master now");
            link.common.era.fetch_add(1, Ordering::AcqRel);
            link.give_up(live.number);
        }
    }
}
