//! Writes that an old holder cannot make: set, delete and run a script under a token, in your own Redis.
//!
//! A lock cannot stop a holder that is paused between its check and its write, and wakes up when
//! somebody else holds the lock. Its token can: it is older than the new holder's. A [`Fence`]
//! remembers, beside your data, the newest token it has seen. It refuses a write with an older one, and
//! the check and the write are one atomic step.
//!
//! ```no_run
//! use tenure_fence_redis::{Fence, FencedScript};
//!
//! # async fn run(locks: tenure_core::Locks, mut redis: redis::aio::MultiplexedConnection) -> tenure_core::Result<()> {
//! let fence = Fence::new("{invoices}")?;
//! let guard = locks.mutex("invoices").lock().await?;
//! fence.claim(&mut redis, guard.token()).await?;                       // before the first read
//! fence.set(&mut redis, "{invoices}:state", "open", guard.token()).await?;
//!
//! let next = FencedScript::new("return redis.call('INCR', KEYS[1])")?;
//! let number: u64 = fence.run(&mut redis, &next, &["{invoices}:next"], None::<&str>, guard.token()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! It works on any Redis, whatever store keeps the lock. A refused write is an error of the kind
//! [`Lost`](tenure_core::ErrorKind::Lost): stop, somebody newer is at work. [`Stale::of`] tells how new.
//!
//! # How to use it
//!
//! * **One lock, one fence.** Tokens of different locks do not compare. Whoever writes the data takes the
//!   same lock, and uses a fence of the same name, in the same database of the same Redis.
//! * **Claim before the first read.** A holder that reads, and only later writes, has worked on what
//!   an old holder may still change in between. From the claim on, no older write gets in.
//! * **Every write through the fence.** A plain `SET` asks nobody.
//! * **What belongs together goes into one script.** Two guarded writes are two steps.
//! * **Exclusive locks only**: a mutex, a write lock, an election. Two readers, or two holders of a
//!   semaphore, hold at once with different tokens, and the newer would shut out the older.
//! * **In a Cluster**, a fence lives in the hash slot of a key of its name, and guards keys in that slot:
//!   `Fence::new("{invoices}")` those with the tag `{invoices}`, `Fence::new("invoice:42")` the key
//!   `invoice:42` and those with the tag `{invoice:42}`. Others are refused. One server has no slots.
//!
//! # What is not promised
//!
//! * **A fence orders holders, not the writes of one holder.** The same token may write again, and a
//!   write whose answer was lost may still arrive.
//! * **It is as durable as your Redis.** The token and the data are written in one step, and so are lost
//!   together by a crash or a failover. A claim that is lost so, `FLUSHALL`, or an eviction under a policy of
//!   `allkeys-*`, lets old tokens in again until the newest is seen anew. Keep guarded data in a Redis with
//!   `maxmemory-policy noeviction`, or with `volatile-*` and no [`forget_after`](Fence::forget_after).
//! * **A script that fails midway is not taken back.** Redis never does that. Its token counts even so.
//! * **Nothing is ever tried again here.** Your connection may do so by itself, as a Cluster's does.
//! * **A lock that moves to another store gets other numbers.** Theirs may be smaller, and then all are
//!   refused: take a new name for the fence, or delete [`Fence::key`] while nobody writes.
//!
//! Where access is limited, the user needs `EVAL`, `EVALSHA`, `GET`, `SET`, `PEXPIRE`, `DEL` to delete, what
//! the scripts call, and the keys `tenure:fence:*`.

mod script;
mod slot;
mod trouble;

use std::sync::LazyLock;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{
    Cmd, ErrorKind, FromRedisValue, ServerErrorKind, SetOptions, ToRedisArgs, ToSingleRedisArg,
    Value,
};
use tenure_core::{Error, Key, Result, check_token};

/// The driver, whose connections a [`Fence`] takes.
pub use redis;
pub use script::FencedScript;
pub use tenure_core::Stale;

/// The shortest time for which [`Fence::forget_after`] keeps a token.
pub const FORGET_AFTER_MIN: Duration = Duration::from_secs(60);
/// The longest time for which [`Fence::forget_after`] keeps a token: ten years.
pub const FORGET_AFTER_MAX: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

static SET: LazyLock<FencedScript> =
    LazyLock::new(|| FencedScript::guarded("return redis.call('SET', KEYS[1], unpack(ARGV))"));
static DELETE: LazyLock<FencedScript> =
    LazyLock::new(|| FencedScript::guarded("return redis.call('DEL', KEYS[1])"));

/// The newest token that has been seen where something is written, under a name.
///
/// ```text
///   holder 41 ──claim──▶ ┌──────────┐
///                        │ seen: 41 │
///   holder 42 ──claim──▶ │ seen: 42 │
///                        │          │ ──write──▶ data
///   holder 41 ──write──╳ └──────────┘
/// ```
///
/// It keeps nothing in this process, and needs no clean-up. A clone is the same fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    name: Key,
    key: String,
    life_ms: Option<u128>,
}

impl Fence {
    /// The fence of this name, for everybody who uses the name.
    ///
    /// Any non-empty string of up to [`KEY_BYTES_MAX`](tenure_core::KEY_BYTES_MAX) bytes will do, and
    /// distinct strings are distinct fences: `{invoices}` and `invoices` are two. On one server it guards
    /// whatever is written through it. In a Cluster it guards keys in the hash slot of a key of its name.
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        let name = Key::new(name)?;
        let tag = slot::tag_beside(name.as_str().as_bytes());
        let key = format!("tenure:fence:{{{tag}}}:{}", name.canonical("tenure.fence"));
        Ok(Self { name, key, life_ms: None })
    }

    /// Forgets the newest token when nothing was written for this long, and then lets **any** token in.
    ///
    /// By default a token is kept for ever, in about 150 bytes. This is for millions of guarded things that
    /// come and go. Take a time that is longer than any old holder can still be about to write, with all
    /// its pauses; days are better than minutes. All who use the fence should say the same.
    pub fn forget_after(mut self, idle: Duration) -> Result<Self> {
        if !(FORGET_AFTER_MIN..=FORGET_AFTER_MAX).contains(&idle) {
            return Err(Error::invalid(format!(
                "a fence cannot forget after {idle:?}: choose {FORGET_AFTER_MIN:?} to ten years, and longer than an old holder can be paused"
            )));
        }
        self.life_ms = Some(idle.as_millis());
        Ok(self)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The key that holds the newest token, as decimal digits. To delete it is to forget.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Raises the newest token to this one, so that no older holder writes any more.
    ///
    /// Do it before the first read. The same token may claim again; an older one is refused.
    pub async fn claim(&self, conn: &mut impl ConnectionLike, token: u64) -> Result<()> {
        let mut args = vec![token.to_string()];
        if let Some(life_ms) = self.life_ms {
            args.extend(["PX".to_owned(), life_ms.to_string()]);
        }
        // The fence's own key, written under its own guard: even if nothing is new, it is a write,
        // which no replica takes.
        self.run(conn, &SET, &self.key, args, token).await
    }

    /// Sets a key, as `SET` does: the value replaces one of any type, and ends its time to live.
    pub async fn set(
        &self,
        conn: &mut impl ConnectionLike,
        key: impl ToSingleRedisArg,
        value: impl ToSingleRedisArg,
        token: u64,
    ) -> Result<()> {
        self.set_options(conn, key, value, SetOptions::default(), token).await
    }

    /// Sets a key with the options of `SET`: a time to live, `KEEPTTL`, only if it is (not) there, `GET`.
    ///
    /// The answer is that of `SET`: with a condition, `Option<String>` or `bool` tell whether it was met.
    pub async fn set_options<T: FromRedisValue>(
        &self,
        conn: &mut impl ConnectionLike,
        key: impl ToSingleRedisArg,
        value: impl ToSingleRedisArg,
        options: SetOptions,
        token: u64,
    ) -> Result<T> {
        let mut args = value.to_redis_args();
        args.extend(options.to_redis_args());
        self.run(conn, &SET, key, args, token).await
    }

    /// Deletes a key, and tells whether it was there.
    pub async fn delete(
        &self,
        conn: &mut impl ConnectionLike,
        key: impl ToSingleRedisArg,
        token: u64,
    ) -> Result<bool> {
        self.run(conn, &DELETE, key, None::<&str>, token).await
    }

    /// Runs a script, in one atomic step with the check of the token, and answers what it answers.
    ///
    /// `KEYS` and `ARGV` are these keys and arguments, and nothing else. If the script fails, what it
    /// wrote before that stays written, and its token counts.
    ///
    /// # Cancel safety
    ///
    /// As with every verb here: a future that is dropped after it was polled may have been done.
    pub async fn run<T: FromRedisValue>(
        &self,
        conn: &mut impl ConnectionLike,
        script: &FencedScript,
        keys: impl ToRedisArgs,
        args: impl ToRedisArgs,
        token: u64,
    ) -> Result<T> {
        check_token(token)?;
        let keys = keys.to_redis_args();
        let call = self.call(script, &keys, args, token);
        let answer = match ask(conn, &call).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                ask(conn, &script.by_text(&call)).await
            }
            answer => answer,
        };
        match answer {
            Ok(answer) => self.read(answer, token),
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::CrossSlot) => {
                Err(self.elsewhere(&keys).caused_by(error))
            }
            Err(error) => Err(trouble::failed(&error)),
        }
    }

    /// The call: what is the guard's own comes last, where the script takes it away again.
    fn call(
        &self,
        script: &FencedScript,
        keys: &[Vec<u8>],
        args: impl ToRedisArgs,
        token: u64,
    ) -> Cmd {
        let life = self.life_ms.map_or_else(String::new, |life_ms| life_ms.to_string());
        let mut call = script.by_hash();
        call.arg(keys.len() + 1).arg(keys).arg(&self.key).arg(args).arg(life).arg(token);
        call
    }

    /// What `check.lua` answers.
    fn read<T: FromRedisValue>(&self, answer: Value, token: u64) -> Result<T> {
        let Value::Array(answer) = answer else { return Err(trouble::puzzled()) };
        let mut answer = answer.into_iter();
        let (verdict, more) = (answer.next(), answer.next().unwrap_or(Value::Nil));
        match verdict {
            Some(Value::Int(1)) => {
                let more = more.extract_error().map_err(trouble::answered)?;
                T::from_redis_value(more).map_err(trouble::unexpected)
            }
            Some(Value::Int(0)) => {
                let newest = u64::from_redis_value(more).map_err(|_| trouble::puzzled())?;
                Err(Stale { token, newest }.into())
            }
            Some(Value::Int(2)) => {
                let said = String::from_redis_value(more).map_err(|_| trouble::puzzled())?;
                Err(if said.contains("WRONGTYPE") {
                    trouble::foreign(&self.key)
                } else {
                    trouble::refused(&said)
                })
            }
            Some(Value::Int(3)) => Err(trouble::foreign(&self.key)),
            _ => Err(trouble::puzzled()),
        }
    }

    /// In a Cluster, these keys and the fence are not in one slot.
    fn elsewhere(&self, keys: &[Vec<u8>]) -> Error {
        let own = slot::slot_of(self.key.as_bytes());
        let stray = keys.iter().find(|key| slot::slot_of(key) != own);
        let stray = String::from_utf8_lossy(stray.map_or(b"", Vec::as_slice));
        Error::invalid(format!(
            "in a Cluster the fence `{}` cannot guard the key `{stray}`, which is in another hash slot: \
             give both names the same {{tag}}; nothing was changed",
            self.name
        ))
    }
}

/// Sends one command, and takes an error apart from an answer that holds one.
async fn ask(conn: &mut impl ConnectionLike, call: &Cmd) -> redis::RedisResult<Value> {
    match conn.req_packed_command(call).await? {
        Value::ServerError(error) => Err(error.into()),
        answer => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_fence_never_changes_between_versions() {
        let fence = Fence::new("{invoices}").unwrap();
        assert_eq!(
            fence.key(),
            "tenure:fence:{47911}:v1.b67007f902e96ff6cfd4c2d99ce456a89225f92ff8470f744aef0c8302b50404"
        );
        assert_ne!(fence.key(), Fence::new("invoices").unwrap().key());
    }
}
