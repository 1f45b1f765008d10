//! The blocking API, for programs without async: every call waits on the calling thread.

use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime};

use crate::event::Scope;
use crate::{
    Block, Counter, CounterValue, Election, Key, Leader, Leaders, Leadership, LeaseHandle,
    LeaveOutcome, LineEntry, Locks, Loss, MultiGuard, MultiLock, Mutex, MutexGuard, Once,
    OnceOutcome, Permit, ReadGuard, Result, RwLock, Semaphore, Sequence, SlotRun, TicketId, Token,
    Warning, Watch, WatchEvent, WriteGuard,
};

/// A type of Tenure whose async methods block.
///
/// Do not use it on the threads of an async runtime: it would stop that runtime.
///
/// ```
/// use std::time::Duration;
///
/// use tenure::engine::Memory;
/// use tenure::Locks;
///
/// let locks = Locks::new(Memory::new()).blocking();
/// let guard = locks.mutex("invoices/42").ttl(Duration::from_secs(10)).lock()?;
/// assert!(locks.mutex("invoices/42").try_lock()?.is_none());
/// guard.check()?;
/// guard.release()?;
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Blocking<T>(T);

impl Locks {
    /// The blocking form, for programs without async.
    pub fn blocking(&self) -> Blocking<Locks> {
        Blocking(self.clone())
    }
}

impl<T> Blocking<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self(inner)
    }

    /// The async form.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Blocking<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Waits on this thread until the future is ready. It works with every future of Tenure.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Makes each blocking method from the async one.
macro_rules! verbs {
    ($type:ty: $($(#[$doc:meta])* $verb:ident($($arg:ident: $arg_type:ty),*) -> $answer:ty, $wrap:expr;)*) => {
        #[allow(clippy::missing_errors_doc, reason = "the page of the async form has them")]
        impl Blocking<$type> {
            $($(#[$doc])*
            pub fn $verb(&self, $($arg: $arg_type),*) -> $answer {
                ($wrap)(block_on(self.0.$verb($($arg),*)))
            })*
        }
    };
}

/// The options of a primitive, as on the async form.
macro_rules! options {
    ($type:ty: $($term:ident($($arg:ident: $arg_type:ty)?);)*) => {
        impl Blocking<$type> {
            $(#[doc = concat!("See the async one's `", stringify!($term), "`.")]
            #[must_use]
            pub fn $term(self $(, $arg: $arg_type)?) -> Self {
                Self(self.0.$term($($arg)?))
            })*
        }
    };
}

/// The options of every primitive that has a lease.
macro_rules! terms_of_what_is_held {
    ($($type:ty)*) => {
        $(options! { $type:
            ttl(ttl: Duration);
            renew_every(period: Duration);
            note(note: impl Into<Arc<str>>);
            max_hold(time: Duration);
            manual_renewal();
        })*
    };
}

terms_of_what_is_held! { Mutex RwLock Semaphore MultiLock Election Once }

options! { Once:
    slot(name: impl Into<String>);
    at(scheduled: SystemTime);
    every(period: Duration);
    keep(time: Duration);
    attempts(max: u32);
}

options! { Counter:
    window(per: Duration);
    limit(limit: u64);
}

fn same<T>(answer: T) -> T {
    answer
}

fn one<T>(answer: Result<T>) -> Result<Blocking<T>> {
    answer.map(Blocking)
}

fn maybe<T>(answer: Result<Option<T>>) -> Result<Option<Blocking<T>>> {
    Ok(answer?.map(Blocking))
}

impl Blocking<Locks> {
    /// See [`Locks::mutex`].
    pub fn mutex(&self, key: impl AsRef<str>) -> Blocking<Mutex> {
        Blocking(self.0.mutex(key))
    }

    /// See [`Locks::rwlock`].
    pub fn rwlock(&self, key: impl AsRef<str>) -> Blocking<RwLock> {
        Blocking(self.0.rwlock(key))
    }

    /// See [`Locks::semaphore`].
    pub fn semaphore(&self, key: impl AsRef<str>, permits: u32) -> Blocking<Semaphore> {
        Blocking(self.0.semaphore(key, permits))
    }

    /// See [`Locks::multi_lock`].
    pub fn multi_lock<K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Blocking<MultiLock> {
        Blocking(self.0.multi_lock(keys))
    }

    /// See [`Locks::election`].
    pub fn election(&self, key: impl AsRef<str>) -> Blocking<Election> {
        Blocking(self.0.election(key))
    }

    /// See [`Locks::once`].
    pub fn once(&self, key: impl AsRef<str>) -> Blocking<Once> {
        Blocking(self.0.once(key))
    }

    /// See [`Locks::sequence`].
    pub fn sequence(&self, key: impl AsRef<str>) -> Blocking<Sequence> {
        Blocking(self.0.sequence(key))
    }

    /// See [`Locks::counter`].
    pub fn counter(&self, key: impl AsRef<str>) -> Blocking<Counter> {
        Blocking(self.0.counter(key))
    }

    /// See [`Locks::watch_prefix`] and [`Locks::watch`].
    ///
    /// # Errors
    ///
    /// Those of the async form.
    pub fn watch(&self, scope: Scope) -> Result<Blocking<Watch>> {
        one(block_on(Watch::start(&self.0.client, scope)))
    }
}

verbs! { Locks:
    /// See [`Locks::line`].
    line(key: impl AsRef<str>) -> Result<Vec<LineEntry>>, same;
    /// See [`Locks::keys`].
    keys(prefix: impl AsRef<str>) -> Result<Vec<Key>>, same;
    /// See [`Locks::break_ticket`].
    break_ticket(key: impl AsRef<str>, id: TicketId) -> Result<LeaveOutcome>, same;
    /// See [`Locks::force_unlock`].
    force_unlock(key: impl AsRef<str>, id: TicketId) -> Result<LeaveOutcome>, same;
    /// See [`Locks::flush`].
    flush() -> (), same;
    /// See [`Locks::close`].
    close() -> (), same;
}

verbs! { Mutex:
    /// See [`Mutex::lock`].
    lock() -> Result<Blocking<MutexGuard>>, one;
    /// See [`Mutex::try_lock`].
    try_lock() -> Result<Option<Blocking<MutexGuard>>>, maybe;
    /// See [`Mutex::try_lock_for`].
    try_lock_for(time: Duration) -> Result<Option<Blocking<MutexGuard>>>, maybe;
    /// See [`Mutex::holder`].
    holder() -> Result<Option<LineEntry>>, same;
}

verbs! { RwLock:
    /// See [`RwLock::read`].
    read() -> Result<Blocking<ReadGuard>>, one;
    /// See [`RwLock::try_read`].
    try_read() -> Result<Option<Blocking<ReadGuard>>>, maybe;
    /// See [`RwLock::try_read_for`].
    try_read_for(time: Duration) -> Result<Option<Blocking<ReadGuard>>>, maybe;
    /// See [`RwLock::write`].
    write() -> Result<Blocking<WriteGuard>>, one;
    /// See [`RwLock::try_write`].
    try_write() -> Result<Option<Blocking<WriteGuard>>>, maybe;
    /// See [`RwLock::try_write_for`].
    try_write_for(time: Duration) -> Result<Option<Blocking<WriteGuard>>>, maybe;
}

verbs! { Semaphore:
    /// See [`Semaphore::acquire`].
    acquire() -> Result<Blocking<Permit>>, one;
    /// See [`Semaphore::acquire_many`].
    acquire_many(count: u32) -> Result<Blocking<Permit>>, one;
    /// See [`Semaphore::try_acquire`].
    try_acquire() -> Result<Option<Blocking<Permit>>>, maybe;
    /// See [`Semaphore::try_acquire_many`].
    try_acquire_many(count: u32) -> Result<Option<Blocking<Permit>>>, maybe;
    /// See [`Semaphore::try_acquire_for`].
    try_acquire_for(time: Duration) -> Result<Option<Blocking<Permit>>>, maybe;
    /// See [`Semaphore::try_acquire_many_for`].
    try_acquire_many_for(count: u32, time: Duration) -> Result<Option<Blocking<Permit>>>, maybe;
}

verbs! { MultiLock:
    /// See [`MultiLock::lock`].
    lock() -> Result<Blocking<MultiGuard>>, one;
    /// See [`MultiLock::try_lock`].
    try_lock() -> Result<Option<Blocking<MultiGuard>>>, maybe;
    /// See [`MultiLock::try_lock_for`].
    try_lock_for(time: Duration) -> Result<Option<Blocking<MultiGuard>>>, maybe;
}

verbs! { Election:
    /// See [`Election::campaign`].
    campaign() -> Result<Blocking<Leadership>>, one;
    /// See [`Election::try_campaign`].
    try_campaign() -> Result<Option<Blocking<Leadership>>>, maybe;
    /// See [`Election::try_campaign_for`].
    try_campaign_for(time: Duration) -> Result<Option<Blocking<Leadership>>>, maybe;
    /// See [`Election::leader`].
    leader() -> Result<Option<Leader>>, same;
    /// See [`Election::observe`].
    observe() -> Result<Blocking<Leaders>>, one;
}

verbs! { Once:
    /// See [`Once::over`].
    over() -> Result<Option<SlotRun>>, same;
    /// See [`Once::slots`].
    slots() -> Result<Vec<SlotRun>>, same;
    /// See [`Once::reset`].
    reset(slot: impl AsRef<str>) -> Result<bool>, same;
    /// See [`Once::reset_all`].
    reset_all() -> Result<()>, same;
}

impl Blocking<Once> {
    /// See [`Once::run`]. The work is not stopped when the lock is lost: it calls
    /// [`check`](LeaseHandle::check) before each step that must not happen twice.
    ///
    /// # Errors
    ///
    /// Those of the async form.
    pub fn run<T, E>(
        &self,
        work: impl FnOnce(Token, LeaseHandle) -> Result<T, E>,
    ) -> Result<OnceOutcome<T, E>> {
        block_on(self.0.run(|token, lease| std::future::ready(work(token, lease))))
    }
}

verbs! { Permit:
    /// See [`Permit::numbers`].
    numbers() -> Result<Vec<u32>>, same;
    /// See [`Permit::return_numbers`].
    return_numbers() -> Result<()>, same;
}

verbs! { Sequence:
    /// See [`Sequence::next`].
    next() -> Result<u64>, same;
    /// See [`Sequence::next_block`].
    next_block(count: u64) -> Result<Block>, same;
    /// See [`Sequence::last`].
    last() -> Result<u64>, same;
}

verbs! { Counter:
    /// See [`Counter::add`].
    add(by: u64) -> Result<CounterValue>, same;
    /// See [`Counter::get`].
    get() -> Result<CounterValue>, same;
}

/// The methods of every guard and handle.
macro_rules! verbs_of_what_is_held {
    ($($type:ty)*) => {
        $(verbs! { $type:
            /// See [`LeaseHandle::extend`].
            extend() -> Result<()>, same;
            /// See [`LeaseHandle::lost`].
            lost() -> Loss, same;
            /// See [`LeaseHandle::ended`].
            ended() -> Option<Loss>, same;
            /// See [`LeaseHandle::warned`].
            warned() -> Warning, same;
            /// See [`LeaseHandle::set_note`].
            set_note(note: impl Into<Arc<str>>) -> Result<()>, same;
        })*
    };
}

verbs_of_what_is_held! {
    LeaseHandle MutexGuard ReadGuard WriteGuard Permit Leadership MultiGuard
}

/// The release of every guard.
macro_rules! releases {
    ($($Guard:ident)*) => {
        $(impl Blocking<$Guard> {
            #[doc = concat!("See [`", stringify!($Guard), "::release`].")]
            ///
            /// # Errors
            ///
            /// Those of the async form.
            pub fn release(self) -> Result<()> {
                block_on(self.0.release())
            }
        })*
    };
}

releases! { MutexGuard ReadGuard WriteGuard Permit Leadership MultiGuard }

impl Blocking<WriteGuard> {
    /// See [`WriteGuard::downgrade`].
    ///
    /// # Errors
    ///
    /// Those of the async form.
    pub fn downgrade(self) -> Result<Blocking<ReadGuard>> {
        one(block_on(self.0.downgrade()))
    }
}

impl Blocking<Watch> {
    /// See [`Watch::next`].
    ///
    /// # Errors
    ///
    /// Those of the async form.
    pub fn wait(&mut self) -> Result<WatchEvent> {
        block_on(self.0.next())
    }
}

impl Blocking<Leaders> {
    /// See [`Leaders::next`].
    ///
    /// # Errors
    ///
    /// Those of the async form.
    pub fn wait(&mut self) -> Result<Option<Leader>> {
        block_on(self.0.next())
    }
}
