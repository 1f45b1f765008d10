//! The arena of a case: a fresh store, its clients, and a clock.

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

/// Time limit of a wait for an event that must happen, in ttls.
const PATIENCE_TTLS: u32 = 12;
/// Minimum of that limit in real time, for a busy machine.
const PATIENCE_MIN: Duration = Duration::from_secs(300);
/// Ttl of a ticket that must not expire within its case, in brief ttls.
const LONG_TTLS: u32 = 1000;

/// A fresh store for one case.
pub struct Arena {
    open: Box<dyn Fn() -> BoxFuture<Result<AnyEngine>> + Send + Sync>,
    host: Arc<dyn Runtime>,
    /// The ttl of brief tickets: short in real time.
    ttl: Duration,
    /// Tasks run on threads of their own, because no seed orders them.
    threads: bool,
    /// The URL by which another process finds the store.
    shared: Option<String>,
    /// The test that is the entry point of helper processes.
    helper: String,
    /// The reason why there is no store.
    missing: Option<String>,
    /// The store may be absent even under `TENURE_REQUIRE=all`.
    optional: bool,
    /// How the store returns to older data.
    past: Option<Past>,
    /// Values that are dropped after the case: a directory, a server.
    kept: Vec<Box<dyn Any + Send + Sync>>,
}

/// Makes a store forget everything after a moment.
pub(crate) struct Past {
    /// Saves the present data of the store.
    pub(crate) remember: Box<dyn Fn() -> BoxFuture<()> + Send + Sync>,
    /// Restarts the store with the saved data.
    pub(crate) come_back: Box<dyn Fn() -> BoxFuture<()> + Send + Sync>,
}

impl Arena {
    /// A store that `open` connects another client to, in real time, with a ttl of 250 ms. For
    /// engines whose calls are quick.
    pub fn new<E, F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        E: Engine,
        F: Future<Output = Result<E>> + Send + 'static,
    {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_timers());
        Self { threads: true, ..Self::on(host, Duration::from_millis(250), open) }
    }

    /// The same for engines with sockets: all clients live on one private thread, and the ttl is
    /// one second.
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

    /// A store whose clients live on this runtime, usually that of a simulated world, with this
    /// ttl.
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

    /// An absent store: the case prints `SKIPPED <engine>: <why>` and passes, unless
    /// `TENURE_REQUIRE` is `all`.
    pub fn missing(engine: &str, why: &str) -> Self {
        let open = || async { Err::<AnyEngine, _>(tenure_core::Error::unavailable("missing")) };
        Self { missing: Some(format!("{engine}: {why}")), ..Self::new(open) }
    }

    /// An absent store is no failure, even under `TENURE_REQUIRE=all`.
    #[must_use]
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// The runtime has real time, and tasks run on threads of their own.
    #[must_use]
    pub fn in_real_time(self) -> Self {
        Self { threads: true, ..self }
    }

    /// Another process finds the store by this URL. See [`suite`](crate::suite!) for the other
    /// half.
    #[must_use]
    pub fn shared(mut self, at: impl Into<String>) -> Self {
        self.shared = Some(at.into());
        self
    }

    /// Sets the ttl of brief tickets: longer for a store that counts in seconds or is far away.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The store can return to the data of the moment of `remember`, as after a restart from a
    /// snapshot, or a fail-over to a copy that lagged.
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

    /// How the store returns to older data, if it can.
    pub(crate) fn past(&self) -> Option<&Past> {
        self.past.as_ref()
    }

    /// Keeps a value alive until the case has ended.
    #[must_use]
    pub fn keeping(mut self, thing: impl Any + Send + Sync) -> Self {
        self.kept.push(Box::new(thing));
        self
    }

    /// Another client of the same store. It retries, as the locks of users do, because a server on
    /// a busy machine answers late.
    ///
    /// A store without an order may consist of several stores and answer when most of them have: a
    /// pause lets the others follow.
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

    /// The engine itself, without retries.
    pub(crate) async fn client_that_asks_once(&self) -> AnyEngine {
        self.soon("the store is opened", self.opened()).await
    }

    /// Opens the store, and retries while the machine is busy.
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

    /// The guarantees of the store.
    pub async fn profile(&self) -> Guarantees {
        self.client().await.guarantees()
    }

    /// The runtime of the clients.
    pub fn host(&self) -> Arc<dyn Runtime> {
        self.host.clone()
    }

    /// The ttl of a [brief](Arena::brief) ticket.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The ttl of a ticket that must not expire within its case.
    pub(crate) fn long_ttl(&self) -> Duration {
        self.ttl * LONG_TTLS
    }

    /// A renewal period that leaves a brief lock room for failures.
    pub fn beat(&self) -> Duration {
        self.ttl / 5
    }

    /// The present time of the runtime.
    pub fn now(&self) -> Time {
        self.host.now()
    }

    /// Waits for this time.
    pub async fn pass(&self, time: Duration) {
        self.host.sleep(time).await;
    }

    /// Waits for an event that must happen. The case fails if it does not happen within a generous
    /// time.
    pub async fn soon<T>(&self, what: &str, happens: impl Future<Output = T>) -> T {
        let patience = self.patience();
        match select(std::pin::pin!(happens), self.host.sleep(patience)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => panic!("within {patience:?} this did not happen: {what}"),
        }
    }

    /// Waits a little, and fails if the event happens.
    pub async fn not_now<F>(&self, what: &str, happens: &mut F)
    where
        F: Future<Output: Debug> + Unpin,
    {
        if let Either::Left((outcome, _)) = select(happens, self.host.sleep(self.ttl / 20)).await {
            panic!("this must not happen: {what}: {outcome:?}");
        }
    }

    /// Waits until the line of a key has this length. The last ticket is on its way into the line,
    /// and must not be served.
    pub async fn stands_in_line<F>(&self, key: &str, length: usize, waiting: &mut F)
    where
        F: Future<Output: Debug> + Unpin,
    {
        let observer = self.locks().await;
        let grown = async {
            while observer.line(key).await.expect("the line can be seen").len() < length {
                self.pass(self.beat() / 4).await;
            }
        };
        let grown = self.soon("the waiter is in the line", grown);
        if let Either::Left((outcome, _)) = select(waiting, std::pin::pin!(grown)).await {
            panic!("a ticket behind others is served: {outcome:?}");
        }
    }

    /// Runs all tasks in parallel: on threads, or in the order of the seed.
    pub async fn together(&self, tasks: impl IntoIterator<Item = BoxFuture<()>>) {
        let tasks = tasks.into_iter().collect();
        if self.threads {
            together::on_threads(tasks);
        } else {
            together::on_host(&*self.host, tasks).await;
        }
    }

    /// A new ticket for this key that does not expire within its case.
    pub fn ticket(&self, key: &str, share: Share) -> Ticket {
        Ticket {
            id: TicketId::fresh(),
            key: Key::new(key).expect("the case uses a valid key"),
            share,
            ttl: self.long_ttl(),
            owner: Owner::shortened("conformance"),
            note: Note::default(),
            floor: 0,
        }
    }

    /// A new ticket for this key that expires soon, unless it is renewed.
    pub fn brief(&self, key: &str, share: Share) -> Ticket {
        Ticket { ttl: self.ttl, ..self.ticket(key, share) }
    }

    /// Prints that the case does not apply to this store.
    #[allow(clippy::unused_self, reason = "a case calls it on its arena")]
    pub fn skip(&self, why: &str) {
        println!("SKIPPED: {why}");
    }

    /// Whether the store has capacities other than those of a mutex and a reader-writer lock.
    pub async fn keeps_permits(&self) -> bool {
        let ticket = self.ticket("\u{1}permits?", Share::new(1, 3).expect("1 of 3 is a share"));
        let client = self.client().await;
        match client.join(&ticket, tenure_core::WaitMode::NoWait).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => false,
            joined => {
                joined.expect("a store with permits accepts a ticket");
                client
                    .leave(&ticket, tenure_core::LeaveMode::Now)
                    .await
                    .expect("the ticket can leave");
                true
            }
        }
    }

    /// Whether the store has counters.
    pub async fn counts(&self) -> bool {
        self.takes_additions(None).await
    }

    /// Whether the store has windowed counters, which need a clock.
    pub async fn counts_by_window(&self) -> bool {
        self.takes_additions(Some(Window { per: Duration::from_secs(3600), limit: None })).await
    }

    /// Whether the store has values.
    pub async fn keeps_values(&self) -> bool {
        let key = Key::new("\u{1}values?").expect("the key is valid");
        let client = self.client().await;
        let answered = async {
            loop {
                match client.swap(&key, "", "").await {
                    Ok(_) => return true,
                    Err(error) if error.kind() == ErrorKind::Unsupported => return false,
                    Err(error) => assert!(error.is_retryable(), "no value is returned: {error}"),
                }
                self.pass(self.beat() / 4).await;
            }
        };
        self.soon("a value is returned", answered).await
    }

    /// Whether the store adds to a number. A busy server may need several requests.
    async fn takes_additions(&self, window: Option<Window>) -> bool {
        let key = Key::new("\u{1}counts?").expect("the key is valid");
        let client = self.client().await;
        let answered = async {
            loop {
                match client.add(&key, 0, window).await {
                    Ok(_) => return true,
                    Err(error) if error.kind() == ErrorKind::Unsupported => return false,
                    Err(error) => assert!(error.is_retryable(), "no count is returned: {error}"),
                }
                self.pass(self.beat() / 4).await;
            }
        };
        self.soon("a count is returned", answered).await
    }

    /// Asserts that nothing was served in the time of an attempt. A busy server may not answer in
    /// that time.
    pub fn is_busy<T>(&self, answer: Result<Option<T>>) {
        match answer {
            Ok(served) => assert!(served.is_none(), "a ticket behind others is served"),
            Err(error) => {
                let is_late = error.kind() == ErrorKind::Unavailable && !self.is_simulated();
                assert!(is_late, "an attempt fails: {error}");
            }
        }
    }

    /// Whether tickets end by their own ttl only.
    pub async fn lives_by_ttl(&self) -> bool {
        matches!(self.profile().await.liveness, Liveness::Lease | Liveness::Process)
    }

    /// Whether time is simulated, so that waits take no time and are exact.
    pub fn is_simulated(&self) -> bool {
        !self.threads
    }

    /// The test that is the entry point of helper processes.
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

    /// A helper process on the same store.
    pub(crate) fn helper(&self) -> Helper {
        Helper::start(self.shared.as_deref().expect("the store is shared"), &self.helper)
    }

    /// The reason why there is no store, and whether that is a failure.
    pub(crate) fn why_missing(&self) -> Option<(&str, bool)> {
        let required = std::env::var("TENURE_REQUIRE").is_ok_and(|what| what == "all");
        self.missing.as_deref().map(|why| (why, required && !self.optional))
    }

    /// Ready when a whole case has taken too long.
    pub(crate) fn limit(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.host.sleep(self.case_limit())
    }

    /// Time limit of a whole case. It ends a hang, and no case depends on it, because a loaded
    /// machine is slow.
    pub(crate) fn case_limit(&self) -> Duration {
        self.patience() * 10
    }

    fn patience(&self) -> Duration {
        let patience = self.ttl * PATIENCE_TTLS;
        if self.threads { patience.max(PATIENCE_MIN) } else { patience }
    }
}
