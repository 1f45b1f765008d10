//! Where a case is played: a fresh store, any number of clients, and a clock.

use std::any::Any;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::layers::{AnyEngine, OnRuntime};
use tenure_core::{
    BackgroundRuntime, BoxFuture, Engine, ErrorKind, Guarantees, Key, Liveness, Locks, Note, Owner,
    Result, Runtime, Share, Ticket, TicketId, Time, Window,
};

use super::helper::Helper;
use super::insistent::insistent;
use super::together;
use crate::fault::Paced;

/// How many lives of a ticket a case may wait for something that must happen.
const PATIENCE_TTLS: u32 = 12;
/// The least that it may wait where time is real: the machine may be busy.
const PATIENCE_MIN: Duration = Duration::from_secs(300);
/// How many lives a ticket has that is not meant to end within its case.
const LONG_TTLS: u32 = 1000;

/// A fresh store for one case.
pub struct Arena {
    open: Box<dyn Fn() -> BoxFuture<Result<AnyEngine>> + Send + Sync>,
    host: Arc<dyn Runtime>,
    /// The ttl that tickets have here: short where time is real.
    ttl: Duration,
    /// Tasks get threads of their own: there is no seed whose order they would spoil.
    threads: bool,
    /// Where another process finds the store.
    shared: Option<String>,
    /// The test in which a helper process begins.
    helper: String,
    /// Why there is no store.
    missing: Option<String>,
    /// There may be none even where everything is required.
    optional: bool,
    /// How the store is made to come back with older data.
    past: Option<Past>,
    /// Dropped after the case: a directory, a server.
    kept: Vec<Box<dyn Any + Send + Sync>>,
}

/// What makes a store forget what came after a moment.
pub(crate) struct Past {
    /// What the store keeps now is what it will come back with.
    pub(crate) remember: Box<dyn Fn() -> BoxFuture<()> + Send + Sync>,
    /// The store ends, and is there again with that.
    pub(crate) come_back: Box<dyn Fn() -> BoxFuture<()> + Send + Sync>,
}

impl Arena {
    /// A store that `open` connects another client to, in real time, where tickets live for a quarter
    /// of a second. For engines whose verbs are quick.
    pub fn new<E, F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        E: Engine,
        F: Future<Output = Result<E>> + Send + 'static,
    {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_timers());
        Self { threads: true, ..Self::on(host, Duration::from_millis(250), open) }
    }

    /// The same for engines that drive sockets: all clients live on one private thread, and tickets
    /// for a second.
    pub fn hosted<E, F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        E: Engine,
        F: Future<Output = Result<E>> + Send + 'static,
    {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
        let home = host.clone();
        let open = move || OnRuntime::make(home.clone(), open());
        Self { threads: true, ..Self::on(host, Duration::from_secs(1), open) }
    }

    /// A store whose clients live on this host, where tickets live for `ttl`: the host of a
    /// simulated world, usually.
    pub fn on<E, F>(
        host: Arc<dyn Runtime>,
        ttl: Duration,
        open: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        E: Engine,
        F: Future<Output = Result<E>> + Send + 'static,
    {
        let open = move || -> BoxFuture<Result<AnyEngine>> {
            let opened = open();
            Box::pin(async move { opened.await.map(AnyEngine::new) })
        };
        Self {
            open: Box::new(open),
            host,
            ttl,
            threads: false,
            shared: None,
            helper: String::new(),
            missing: None,
            optional: false,
            past: None,
            kept: Vec::new(),
        }
    }

    /// There is no store: `SKIPPED <engine>: <why>` is all that the case says, and it passes,
    /// unless `TENURE_REQUIRE` is `all`.
    pub fn missing(engine: &str, why: &str) -> Self {
        let open = || async { Err::<AnyEngine, _>(tenure_core::Error::unavailable("missing")) };
        Self { missing: Some(format!("{engine}: {why}")), ..Self::new(open) }
    }

    /// Where the store is missing that is no failure, even under `TENURE_REQUIRE=all`.
    #[must_use]
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// Time is real on this host, and tasks get threads of their own.
    #[must_use]
    pub fn in_real_time(self) -> Self {
        Self { threads: true, ..self }
    }

    /// Another process finds the store by this text. See [`suite`](crate::suite!) for the other half.
    #[must_use]
    pub fn shared(mut self, at: impl Into<String>) -> Self {
        self.shared = Some(at.into());
        self
    }

    /// Tickets live for `ttl` here: for longer where a store counts in seconds or is far away.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The store can be made to come back with older data: with that of the moment of `remember`, as after a
    /// restart from a snapshot, or when a copy that lagged takes over.
    #[must_use]
    pub fn with_past<R, B>(
        mut self,
        remember: impl Fn() -> R + Send + Sync + 'static,
        come_back: impl Fn() -> B + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = ()> + Send + 'static,
        B: Future<Output = ()> + Send + 'static,
    {
        self.past = Some(Past {
            remember: Box::new(move || Box::pin(remember())),
            come_back: Box::new(move || Box::pin(come_back())),
        });
        self
    }

    /// How the store is made to come back with older data, where it can be.
    pub(crate) fn past(&self) -> Option<&Past> {
        self.past.as_ref()
    }

    /// Keeps something alive until the case has ended.
    #[must_use]
    pub fn keeping(mut self, thing: impl Any + Send + Sync) -> Self {
        self.kept.push(Box::new(thing));
        self
    }

    /// Another client of the same store. On a busy machine a server answers late, so that its client
    /// asks again, as the locks of users do.
    ///
    /// A store that promises no order may be several stores, which answers when most of them have: the
    /// story goes on when the others have had time to follow.
    pub async fn client(&self) -> AnyEngine {
        let mut engine = self.client_that_asks_once().await;
        if !self.is_simulated() && !engine.guarantees().quick {
            engine = insistent(engine, self.host.clone(), self.patience());
        }
        if engine.guarantees().fair {
            return engine;
        }
        let (host, moment) = (self.host.clone(), self.ttl / 1000);
        AnyEngine::new(Paced::after(engine, move || host.sleep(moment)))
    }

    /// The engine itself: its verbs are sent once.
    pub(crate) async fn client_that_asks_once(&self) -> AnyEngine {
        self.soon("the store is opened", self.opened()).await
    }

    /// Opens the store. One that did not answer in time is asked again: the machine may be busy.
    async fn opened(&self) -> AnyEngine {
        loop {
            match (self.open)().await {
                Err(error) if error.is_retryable() && !self.is_simulated() => {}
                opened => return opened.expect("the store can be opened"),
            }
        }
    }

    /// The locks of another client.
    pub async fn locks(&self) -> Locks {
        Locks::on(self.client().await, self.host.clone())
    }

    /// What the store promises.
    pub async fn profile(&self) -> Guarantees {
        self.client().await.guarantees()
    }

    /// Where the clients live.
    pub fn host(&self) -> Arc<dyn Runtime> {
        self.host.clone()
    }

    /// How long a [brief](Arena::brief) ticket lives here without a sign of life.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// How long a ticket lives that is not meant to end within its case.
    pub(crate) fn long_ttl(&self) -> Duration {
        self.ttl * LONG_TTLS
    }

    /// A heartbeat that leaves a brief lock room for failures.
    pub fn beat(&self) -> Duration {
        self.ttl / 5
    }

    /// Now, by the host's clock.
    pub fn now(&self) -> Time {
        self.host.now()
    }

    /// Lets time pass.
    pub async fn pass(&self, time: Duration) {
        self.host.sleep(time).await;
    }

    /// Waits for what must happen; the case fails if it does not within a generous time.
    pub async fn soon<T>(&self, what: &str, happens: impl Future<Output = T>) -> T {
        let patience = self.patience();
        match select(std::pin::pin!(happens), self.host.sleep(patience)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => panic!("within {patience:?} this did not happen: {what}"),
        }
    }

    /// Waits a little for what must not happen.
    pub async fn not_now<F>(&self, what: &str, happens: &mut F)
    where
        F: Future<Output: Debug> + Unpin,
    {
        if let Either::Left((came, _)) = select(happens, self.host.sleep(self.ttl / 20)).await {
            panic!("this must not happen: {what}: {came:?}");
        }
    }

    /// Waits until so many stand in the line of a key, the last of whom is on its way there and must not be served.
    pub async fn stands_in_line<F>(&self, key: &str, length: usize, waiting: &mut F)
    where
        F: Future<Output: Debug> + Unpin,
    {
        let onlooker = self.locks().await;
        let grown = async {
            while onlooker.line(key).await.expect("the line can be seen").len() < length {
                self.pass(self.beat() / 4).await;
            }
        };
        let grown = self.soon("who waits stands in line", grown);
        if let Either::Left((came, _)) = select(waiting, std::pin::pin!(grown)).await {
            panic!("who waits behind others is served: {came:?}");
        }
    }

    /// Carries out all tasks at the same time: on threads, or as the seed wants it.
    pub async fn together(&self, tasks: impl IntoIterator<Item = BoxFuture<()>>) {
        let tasks = tasks.into_iter().collect();
        if self.threads {
            together::on_threads(tasks);
        } else {
            together::on_host(&*self.host, tasks).await;
        }
    }

    /// A fresh ticket for this key that does not end within its case.
    pub fn ticket(&self, key: &str, share: Share) -> Ticket {
        Ticket {
            id: TicketId::fresh(),
            key: Key::new(key).expect("the case names a key"),
            share,
            ttl: self.long_ttl(),
            owner: Owner::shortened("conformance"),
            note: Note::default(),
            floor: 0,
        }
    }

    /// A fresh ticket for this key that ends soon, unless it is renewed.
    pub fn brief(&self, key: &str, share: Share) -> Ticket {
        Ticket { ttl: self.ttl, ..self.ticket(key, share) }
    }

    /// Says aloud that the case does not apply to this store.
    #[allow(clippy::unused_self, reason = "a case says it of its arena")]
    pub fn skip(&self, why: &str) {
        println!("SKIPPED: {why}");
    }

    /// Whether the store keeps capacities other than those of a mutex and a reader-writer lock.
    pub async fn keeps_permits(&self) -> bool {
        let ticket = self.ticket("\u{1}permits?", Share::new(1, 3).expect("1 of 3 is a share"));
        let client = self.client().await;
        match client.join(&ticket, tenure_core::WaitMode::NoWait).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => false,
            joined => {
                joined.expect("a store that keeps permits takes a ticket");
                client.leave(&ticket, tenure_core::LeaveMode::Now).await.expect("it leaves again");
                true
            }
        }
    }

    /// Whether the store counts.
    pub async fn counts(&self) -> bool {
        let key = Key::new("\u{1}counts?").expect("that is a key");
        match self.client().await.add(&key, 0, None).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => false,
            counted => counted.map(|_| true).expect("a store that counts can be asked for a count"),
        }
    }

    /// Whether the store counts by windows: not all have a clock that can be asked.
    pub async fn counts_by_window(&self) -> bool {
        let key = Key::new("\u{1}counts?").expect("that is a key");
        let window = Window { per: Duration::from_secs(3600), limit: None };
        match self.client().await.add(&key, 0, Some(window)).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => false,
            counted => counted.map(|_| true).expect("a store that counts can be asked for a count"),
        }
    }

    /// Whether tickets end by their own ttl, and by nothing else.
    pub async fn lives_by_ttl(&self) -> bool {
        matches!(self.profile().await.liveness, Liveness::Lease | Liveness::Process)
    }

    /// Whether time passes at once here, and is exact.
    pub fn is_simulated(&self) -> bool {
        !self.threads
    }

    /// The test in which helper processes begin.
    #[doc(hidden)]
    #[must_use]
    pub fn helped_by(mut self, module: &str) -> Self {
        let inside = module.split_once("::").map(|(_, inside)| format!("{inside}::"));
        self.helper = inside.unwrap_or_default() + "helper_process";
        self
    }

    /// Whether other processes can reach the store.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// A helper process that speaks to the same store.
    pub(crate) fn helper(&self) -> Helper {
        Helper::start(self.shared.as_deref().expect("the store is shared"), &self.helper)
    }

    /// Why there is no store, and whether that is a failure.
    pub(crate) fn why_missing(&self) -> Option<(&str, bool)> {
        let required = std::env::var("TENURE_REQUIRE").is_ok_and(|what| what == "all");
        self.missing.as_deref().map(|why| (why, required && !self.optional))
    }

    /// Ends when a whole case has taken too long.
    pub(crate) fn limit(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.host.sleep(self.case_limit())
    }

    /// Time limit of a whole case. It ends a hang, and nothing depends on it: a loaded machine is slow.
    pub(crate) fn case_limit(&self) -> Duration {
        self.patience() * 10
    }

    fn patience(&self) -> Duration {
        let patience = self.ttl * PATIENCE_TTLS;
        if self.threads { patience.max(PATIENCE_MIN) } else { patience }
    }
}
