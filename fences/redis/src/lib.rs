//! Writes to data in Redis that an old holder of a lock cannot make, because its token is old.
//!
//! A lock cannot stop a holder that is paused between its check and its write and resumes after
//! another holder took over. Its token can: it is older than the new holder's. A [`Fence`]
//! remembers the newest token that it has seen, beside your data. It refuses a write with an older
//! token. The check and the write are one atomic step.
//!
//! ```no_run
//! use tenure_fence_redis::{Fence, FencedScript};
//!
//! # use redis::aio::MultiplexedConnection;
//! # async fn run(
//! #     locks: tenure_core::Locks,
//! #     mut redis: MultiplexedConnection,
//! # ) -> tenure_core::Result<()> {
//! let fence = Fence::new("{invoices}")?;
//! let guard = locks.mutex("invoices").lock().await?;
//! fence.claim(&mut redis, guard.token()).await?;                       // before the first read
//! fence.set(&mut redis, "{invoices}:state", "open", guard.token()).await?;
//!
//! let next = FencedScript::new("return redis.call('INCR', KEYS[1])")?;
//! let (keys, args) = (&["{invoices}:next"], None::<&str>);
//! let number: u64 = fence.run(&mut redis, &next, keys, args, guard.token()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A fence works on any Redis, and for locks of any store. A refused write is an error of the kind
//! [`Lost`](tenure_core::ErrorKind::Lost): stop, a newer holder is at work. [`Stale::of`] returns
//! the newer token.
//!
//! # How to use it
//!
//! * **One lock, one fence.** Tokens of different locks do not compare. All programs that write the
//!   data take the same lock, and use a fence of the same name in the same database of the same
//!   Redis.
//! * **Claim before the first read.** Without a claim, an old holder can change the data between
//!   the read and the write of the new holder. After the claim the fence refuses older writes.
//! * **Every write through the fence.** A plain `SET` does not check the token.
//! * **One script for changes that belong together.** Two guarded writes are two steps.
//! * **Exclusive locks only**: a mutex, a write lock, an election. Readers and
//!   holders of permits hold at the same time, so they have no token.
//! * **In a Cluster**, a fence lives in the hash slot of a key of its name, and guards keys in that
//!   slot: `Fence::new("{invoices}")` guards keys with the tag `{invoices}`.
//!   `Fence::new("invoice:42")` guards the key `invoice:42` and keys with the tag `{invoice:42}`.
//!   The fence refuses other keys. A single server has no slots.
//!
//! # What is not promised
//!
//! * **A fence orders holders, not the writes of one holder.** The same token may write again, and
//!   a write whose answer was lost may still arrive.
//! * **A fence is as durable as your Redis.** Token and data are written in one step, so a crash or
//!   a failover loses them together. After a lost claim, `FLUSHALL`, or an eviction under a policy
//!   `allkeys-*`, the fence accepts old tokens until it has seen the newest again. Keep guarded
//!   data in a Redis with `maxmemory-policy noeviction`, or with `volatile-*` and no
//!   [`forget_after`](Fence::forget_after).
//! * **A script that fails midway is not rolled back.** Redis never does that. Its token counts.
//! * **This crate never retries.** Your connection may do so by itself, as that of a Cluster does.
//! * **A lock that moves to another store gets other tokens.** They may be smaller, and then the
//!   fence refuses all of them. Choose a new name for the fence, or delete [`Fence::key`] while no
//!   program writes.
//!
//! With access control the user needs `EVAL`, `EVALSHA`, `GET`, `SET`, `PEXPIRE`, `DEL` for
//! deletions, the commands of the scripts, and the keys `tenure:fence:*`.

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
use tenure_core::{Error, Key, Result, Token};

/// The driver, whose connections a [`Fence`] uses.
pub use redis;
pub use script::FencedScript;
pub use tenure_core::Stale;

/// Minimum time that [`Fence::forget_after`] accepts.
pub const FORGET_AFTER_MIN: Duration = Duration::from_secs(60);
/// Maximum time that [`Fence::forget_after`] accepts: ten years.
pub const FORGET_AFTER_MAX: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

static SET: LazyLock<FencedScript> =
    LazyLock::new(|| FencedScript::guarded("return redis.call('SET', KEYS[1], unpack(ARGV))"));
static DELETE: LazyLock<FencedScript> =
    LazyLock::new(|| FencedScript::guarded("return redis.call('DEL', KEYS[1])"));

/// A fence: a named key with the newest token, which every guarded write checks.
///
/// ```text
///   holder 41 ──claim──▶ ┌──────────┐
///                        │ seen: 41 │
///   holder 42 ──claim──▶ │ seen: 42 │
///                        │          │ ──write──▶ data
///   holder 41 ──write──╳ └──────────┘
/// ```
///
/// It has no state in this process, and needs no clean-up. A clone is the same fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    name: Key,
    key: String,
    life_ms: Option<u128>,
}

impl Fence {
    /// Returns the fence of this name. All programs that use the name share it.
    ///
    /// A name is any non-empty string of up to [`KEY_BYTES_MAX`](tenure_core::KEY_BYTES_MAX) bytes.
    /// Distinct strings are distinct fences: `{invoices}` and `invoices` are two. On a single
    /// server a fence guards all keys that are written through it. In a Cluster it guards keys in
    /// the hash slot of a key of its name.
    ///
    /// # Errors
    ///
    /// The name is empty or too long.
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        let name = Key::new(name)?;
        let tag = slot::tag_beside(name.as_str().as_bytes());
        let key = format!("tenure:fence:{{{tag}}}:{}", name.canonical("tenure.fence"));
        Ok(Self { name, key, life_ms: None })
    }

    /// Forgets the newest token after `idle` without a write, and then accepts **any** token.
    ///
    /// By default a token is kept for ever, in about 150 bytes. A limit is for millions of guarded
    /// objects that come and go. Choose a time longer than any pause of an old holder before its
    /// write: days rather than minutes. All programs that use the fence should choose the same
    /// time.
    ///
    /// # Errors
    ///
    /// The time is below [`FORGET_AFTER_MIN`] or above [`FORGET_AFTER_MAX`].
    pub fn forget_after(mut self, idle: Duration) -> Result<Self> {
        if !(FORGET_AFTER_MIN..=FORGET_AFTER_MAX).contains(&idle) {
            return Err(Error::invalid(format!(
                "a fence cannot forget after {idle:?}: choose {FORGET_AFTER_MIN:?} to ten years, and longer than an old holder can be paused"
            )));
        }
        self.life_ms = Some(idle.as_millis());
        Ok(self)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the key with the newest token in decimal digits. Deleting that key makes the fence
    /// forget its newest token.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Raises the newest token to this one, so that the fence refuses writes of older holders.
    ///
    /// Call it before the first read. The same token may claim again.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn claim(&self, conn: &mut impl ConnectionLike, token: Token) -> Result<()> {
        let mut args = vec![token.to_string()];
        if let Some(life_ms) = self.life_ms {
            args.extend(["PX".to_owned(), life_ms.to_string()]);
        }
        // Sets the fence's own key. A claim is a write even if the token is not new, so that a
        // replica refuses it.
        self.run(conn, &SET, &self.key, args, token).await
    }

    /// Sets a key as `SET` does: replaces a value of any type, and removes its time to live.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn set(
        &self,
        conn: &mut impl ConnectionLike,
        key: impl ToSingleRedisArg,
        value: impl ToSingleRedisArg,
        token: Token,
    ) -> Result<()> {
        self.set_options(conn, key, value, SetOptions::default(), token).await
    }

    /// Sets a key with the options of `SET`: a time to live, `KEEPTTL`, `NX` or `XX`, `GET`.
    ///
    /// Returns the answer of `SET`. With a condition, an `Option<String>` or a `bool` shows whether
    /// it was met.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn set_options<T: FromRedisValue>(
        &self,
        conn: &mut impl ConnectionLike,
        key: impl ToSingleRedisArg,
        value: impl ToSingleRedisArg,
        options: SetOptions,
        token: Token,
    ) -> Result<T> {
        let mut args = value.to_redis_args();
        args.extend(options.to_redis_args());
        self.run(conn, &SET, key, args, token).await
    }

    /// Deletes a key, and returns whether it existed.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn delete(
        &self,
        conn: &mut impl ConnectionLike,
        key: impl ToSingleRedisArg,
        token: Token,
    ) -> Result<bool> {
        self.run(conn, &DELETE, key, None::<&str>, token).await
    }

    /// Runs a script in one atomic step with the check of the token, and returns its answer.
    ///
    /// The script finds exactly these `keys` and `args` in `KEYS` and `ARGV`. If it fails midway,
    /// its earlier writes stay, and its token counts.
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if a newer token was seen, with [`Stale`] as the
    /// cause: nothing was changed. `Unavailable` if there was no answer: the write may be done or
    /// not. `Rejected` if the script failed. `Invalid` for keys in another hash slot, or if the
    /// answer is of another type than `T`: then the write is done.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after it was polled, the script may have run or not.
    pub async fn run<T: FromRedisValue>(
        &self,
        conn: &mut impl ConnectionLike,
        script: &FencedScript,
        keys: impl ToRedisArgs,
        args: impl ToRedisArgs,
        token: Token,
    ) -> Result<T> {
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

    /// Returns the call. The guard's own key and arguments come last, where `check.lua` removes
    /// them.
    fn call(
        &self,
        script: &FencedScript,
        keys: &[Vec<u8>],
        args: impl ToRedisArgs,
        token: Token,
    ) -> Cmd {
        let life = self.life_ms.map_or_else(String::new, |life_ms| life_ms.to_string());
        let mut call = script.by_hash();
        call.arg(keys.len() + 1).arg(keys).arg(&self.key).arg(args).arg(life).arg(token.get());
        call
    }

    /// Reads an answer of `check.lua`.
    fn read<T: FromRedisValue>(&self, answer: Value, token: Token) -> Result<T> {
        let Value::Array(answer) = answer else { return Err(trouble::unknown_answer()) };
        let mut answer = answer.into_iter();
        let (verdict, more) = (answer.next(), answer.next().unwrap_or(Value::Nil));
        match verdict {
            Some(Value::Int(1)) => {
                let more = more.extract_error().map_err(trouble::answered)?;
                T::from_redis_value(more).map_err(trouble::unexpected)
            }
            Some(Value::Int(0)) => {
                let newest = u64::from_redis_value(more).map_err(|_| trouble::unknown_answer())?;
                Err(Stale { token: token.get(), newest }.into())
            }
            Some(Value::Int(2)) => {
                let text = String::from_redis_value(more).map_err(|_| trouble::unknown_answer())?;
                // The server gives only text: an error inside a script has no code of its own.
                Err(if text.contains("WRONGTYPE") {
                    trouble::foreign(&self.key)
                } else {
                    trouble::refused(&text)
                })
            }
            Some(Value::Int(3)) => Err(trouble::foreign(&self.key)),
            _ => Err(trouble::unknown_answer()),
        }
    }

    /// Returns the error for keys that are not in the hash slot of the fence.
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

/// Sends one command, and returns an error of the server as an error.
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
