//! A bundle: one call with the concurrent verbs of many tasks.
//!
//! A call costs the server more than its work on a line without waiters. So with many verbs in
//! flight, further ones wait until the runtime is idle, and travel together.

use std::sync::atomic::{AtomicUsize, Ordering};

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use tokio::sync::oneshot;

use tenure_core::sync::Mutex;

use crate::script::{Script, VerbTag};

/// Count of verbs in flight from which further ones are bundled.
const UNDER_WAY_MANY: usize = 8;
/// Maximum verbs of one bundle: the server does nothing else meanwhile.
const BUNDLE_VERBS_MAX: usize = 16;

const NOT_ONE_EACH: &str = "a bundle was not answered verb by verb";

/// A verb for a line without waiters.
pub struct BatchItem<'a> {
    sign: VerbTag,
    line: &'a str,
    what: &'a [u8],
    time: &'a str,
}

impl<'a> BatchItem<'a> {
    /// Returns this verb for this line, with its argument and the life of the key.
    pub(crate) fn new(sign: VerbTag, line: &'a str, what: &'a [u8], time: &'a str) -> Self {
        Self { sign, line, what, time }
    }
}

/// The verbs in flight on one connection, and the next bundle.
#[derive(Default)]
pub(crate) struct Batcher {
    under_way: AtomicUsize,
    gathering: Mutex<Bundle>,
}

/// Verbs that travel together, and their callers.
#[derive(Default)]
pub(crate) struct Bundle {
    signs: Vec<u8>,
    lines: Vec<String>,
    /// The two arguments of each.
    arguments: Vec<Vec<u8>>,
    answers: Vec<oneshot::Sender<BundleAnswer>>,
}

/// `None`: it was not carried out, and needs a call of its own.
pub(crate) type BundleAnswer = RedisResult<Option<Value>>;

/// The next step after a verb was added.
pub(crate) enum BundleStep {
    /// It is the first: the caller sends it once no more come.
    SendSoon,
    /// There is no room for more.
    Send(Bundle),
    Nothing,
}

/// A verb in flight, until this is dropped.
pub(crate) struct UnderWay<'a>(&'a AtomicUsize);

impl Batcher {
    pub(crate) fn one_more(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(&self.under_way)
    }

    pub(crate) fn are_many_under_way(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > UNDER_WAY_MANY
    }

    pub(crate) fn gather(
        &self,
        wish: &BatchItem<'_>,
    ) -> (BundleStep, oneshot::Receiver<BundleAnswer>) {
        let (answer, answered) = oneshot::channel();
        let mut bundle = self.gathering.lock();
        bundle.add(wish, answer);
        let next = match bundle.answers.len() {
            1 => BundleStep::SendSoon,
            BUNDLE_VERBS_MAX => BundleStep::Send(std::mem::take(&mut bundle)),
            _ => BundleStep::Nothing,
        };
        (next, answered)
    }

    /// Takes the current bundle, if it has any verb.
    pub(crate) fn take(&self) -> Option<Bundle> {
        let mut bundle = self.gathering.lock();
        (!bundle.answers.is_empty()).then(|| std::mem::take(&mut *bundle))
    }
}

impl Bundle {
    fn add(&mut self, wish: &BatchItem<'_>, answer: oneshot::Sender<BundleAnswer>) {
        self.signs.push(wish.sign as u8);
        self.lines.push(wish.line.to_owned());
        self.arguments.push(wish.what.to_owned());
        self.arguments.push(wish.time.into());
        self.answers.push(answer);
    }

    pub(crate) fn call(&self, script: &Script) -> Cmd {
        let mut call = script.on_all(&self.lines);
        call.arg(&self.signs).arg(&self.arguments);
        call
    }

    /// Gives each caller its part of the answer.
    pub(crate) fn answer(self, answer: RedisResult<Value>) {
        let parts = match answer {
            Ok(Value::Array(parts)) if parts.len() == self.answers.len() => parts,
            Ok(_) => return self.fail(&(ErrorKind::UnexpectedReturnType, NOT_ONE_EACH).into()),
            Err(trouble) => return self.fail(&trouble),
        };
        for (answer, part) in self.answers.into_iter().zip(parts) {
            let part = Some(part).filter(|part| *part != Value::Nil);
            let _ = answer.send(Ok(part));
        }
    }

    fn fail(self, trouble: &RedisError) {
        for answer in self.answers {
            let _ = answer.send(Err(trouble.clone()));
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
