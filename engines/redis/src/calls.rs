//! Calls: what one connection carries. There is room for so many, and a call keeps its room until the server has
//! answered it, even if its caller has gone: the server carries it out all the same.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{Cmd, RedisError, RedisResult, Value, cmd};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use crate::link::{Link, Live};
use crate::trouble;

/// The most calls that may be under way on one connection: what a server that stood still carries out in vain.
const CALLS_MAX: usize = 128;

/// Room on a connection for one call.
pub(crate) type Room = OwnedSemaphorePermit;

/// What is under way on one connection.
pub(crate) struct Calls {
    room: Arc<Semaphore>,
    /// So many were left by their callers, and not answered as far as is known.
    owed: AtomicUsize,
    /// Somebody asks whether those have been answered.
    asks: AtomicBool,
    began: Instant,
    /// When the server was heard last, after the beginning.
    heard_us: AtomicU64,
    told: Told,
}

/// How often the server was told the scripts over this connection.
#[derive(Default)]
pub(crate) struct Told {
    times: AtomicU64,
    one: Mutex<()>,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self {
            room: Arc::new(Semaphore::new(CALLS_MAX)),
            owed: AtomicUsize::new(0),
            asks: AtomicBool::new(false),
            began: Instant::now(),
            heard_us: AtomicU64::new(0),
            told: Told::default(),
        }
    }

    /// Room for a call, once there is some.
    pub(crate) async fn enter(&self) -> RedisResult<Room> {
        self.room.clone().acquire_owned().await.map_err(|_| over())
    }

    /// Nobody enters any more.
    pub(crate) fn close(&self) {
        self.room.close();
    }

    fn hear(&self) {
        let now = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.heard_us.fetch_max(now, Ordering::Relaxed);
    }

    /// Whether nothing was heard from that moment on.
    fn is_silent_since(&self, then: Instant) -> bool {
        self.began + Duration::from_micros(self.heard_us.load(Ordering::Relaxed)) < then
    }
}

impl Told {
    pub(crate) fn times(&self) -> u64 {
        self.times.load(Ordering::Acquire)
    }

    /// Tells the scripts, unless somebody has since it was so often.
    pub(crate) async fn once_more(
        &self,
        before: u64,
        tell: impl Future<Output = RedisResult<()>>,
    ) -> RedisResult<()> {
        let _one = self.one.lock().await;
        if self.times() == before {
            tell.await?;
            self.times.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }
}

impl Link {
    /// Sends a call, once there is room for it. A server that lacks the scripts is told them.
    pub(crate) async fn call(&self, live: &Arc<Live>, call: &Cmd) -> RedisResult<Value> {
        let room = live.calls.enter().await?;
        self.call_in(live, room, call).await
    }

    pub(crate) async fn call_in(
        &self,
        live: &Arc<Live>,
        room: Room,
        call: &Cmd,
    ) -> RedisResult<Value> {
        let told = live.calls.told.times();
        let mut due = Due { link: self, live, room: Some(room), since: None };
        match due.ask(call).await {
            Err(trouble) if trouble::wants_scripts(&trouble) => {
                let tell = self.tell_scripts(&live.connection);
                live.calls.told.once_more(told, tell).await?;
                due.ask(call).await
            }
            answer => answer,
        }
    }

    /// Whoever waited has gone, and the server may still answer.
    fn was_left(&self, live: &Arc<Live>, since: Instant) {
        let (waited, patience) = (since.elapsed(), self.common.settings.timeout);
        // Where this process itself stood still, a missed answer says nothing of the connection.
        let is_time_over = (patience / 8 * 7..patience * 2).contains(&waited);
        if is_time_over && live.calls.is_silent_since(since) {
            return self.give_up_silent(live.number);
        }
        live.calls.owed.fetch_add(1, Ordering::AcqRel);
        if let Some(link) = self.this.upgrade()
            && !live.calls.asks.swap(true, Ordering::AcqRel)
        {
            self.home.spawn(link.ask_for_what_is_owed(live.clone()));
        }
    }

    /// What is answered later was asked later: an answer gives back the room of all that was left before.
    async fn ask_for_what_is_owed(self: Arc<Self>, live: Arc<Live>) {
        let (calls, patience) = (&live.calls, self.common.settings.timeout);
        loop {
            let owed = calls.owed.swap(0, Ordering::AcqRel);
            if owed == 0 {
                calls.asks.store(false, Ordering::Release);
                let none = calls.owed.load(Ordering::Acquire) == 0;
                if none || calls.asks.swap(true, Ordering::AcqRel) {
                    return;
                }
                continue;
            }
            let (asked, mut connection) = (Instant::now(), live.connection.clone());
            let ping = cmd("PING");
            let answer =
                tokio::time::timeout(patience, connection.send_packed_command(&ping)).await;
            match answer.map(|answer| answer.and_then(Value::extract_error)) {
                Ok(Err(trouble)) if trouble::ends_connection(&trouble) => {
                    self.give_up(live.number);
                    return;
                }
                Ok(_) => {
                    calls.hear();
                    calls.room.add_permits(owed);
                }
                Err(_) if asked.elapsed() < patience * 2 && calls.is_silent_since(asked) => {
                    return self.give_up_silent(live.number);
                }
                Err(_) => drop(calls.owed.fetch_add(owed, Ordering::AcqRel)),
            }
        }
    }
}

/// A call that takes up room.
struct Due<'a> {
    link: &'a Link,
    live: &'a Arc<Live>,
    room: Option<Room>,
    /// It was sent then, and is not answered.
    since: Option<Instant>,
}

impl Due<'_> {
    async fn ask(&mut self, call: &Cmd) -> RedisResult<Value> {
        self.since = Some(Instant::now());
        // A refusal comes as an answer.
        let answer = self.live.connection.clone().send_packed_command(call).await;
        self.since = None;
        self.live.calls.hear();
        let answer = answer.and_then(Value::extract_error);
        if let Err(trouble) = &answer
            && trouble::ends_connection(trouble)
        {
            self.link.give_up(self.live.number);
        }
        answer
    }
}

impl Drop for Due<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            if let Some(room) = self.room.take() {
                room.forget();
            }
            self.link.was_left(self.live, since);
        }
    }
}

/// Nobody answered in the time that a verb has.
pub(crate) fn late() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

/// The connection has ended.
pub(crate) fn over() -> RedisError {
    io::Error::new(io::ErrorKind::ConnectionAborted, "it ended while much was under way").into()
}
