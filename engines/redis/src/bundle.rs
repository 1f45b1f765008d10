//! A bundle: verbs of many tasks that are sent at the same time, carried by one call.
//!
//! A call costs the server more than what it does to a line where nobody waits. So where much is under
//! way already, what comes on top waits until the runtime has nothing else to do, and goes together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use tokio::sync::oneshot;

use crate::script::{Script, Sign};

/// With so many verbs under way, more are bundled.
const UNDER_WAY_MANY: usize = 8;
/// The most verbs of one bundle: the server does nothing else while it carries them out.
const BUNDLE_VERBS_MAX: usize = 16;

const NOT_ONE_EACH: &str = "a bundle was not answered verb by verb";

/// A verb, for a line where nobody waits.
pub struct Wish<'a> {
    sign: Sign,
    line: &'a str,
    what: &'a [u8],
    time: &'a str,
}

impl<'a> Wish<'a> {
    /// This verb, for this line: what it is called with, and how long the key lives then.
    pub(crate) fn new(sign: Sign, line: &'a str, what: &'a [u8], time: &'a str) -> Self {
        Self { sign, line, what, time }
    }
}

/// What is under way on one connection, and what gathers to go with the next bundle.
#[derive(Default)]
pub(crate) struct Bundles {
    under_way: AtomicUsize,
    gathering: Mutex<Bundle>,
}

/// Verbs that go together, and who waits for their answers.
#[derive(Default)]
pub(crate) struct Bundle {
    signs: Vec<u8>,
    lines: Vec<String>,
    /// The two arguments of each.
    arguments: Vec<Vec<u8>>,
    answers: Vec<oneshot::Sender<Answer>>,
}

/// `None`: it was not done, and has to be asked for by itself.
pub(crate) type Answer = RedisResult<Option<Value>>;

/// What is to be done after one more verb was gathered.
pub(crate) enum Next {
    /// It is the first: somebody has to send it once no more come.
    SendSoon,
    /// There is no room for more.
    Send(Bundle),
    Nothing,
}

/// A verb that is under way, until this is dropped.
pub(crate) struct UnderWay<'a>(&'a AtomicUsize);

impl Bundles {
    pub(crate) fn one_more(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(&self.under_way)
    }

    pub(crate) fn are_many_under_way(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > UNDER_WAY_MANY
    }

    pub(crate) fn gather(&self, wish: &Wish<'_>) -> (Next, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let mut bundle = self.gathering.lock().unwrap_or_else(PoisonError::into_inner);
        bundle.add(wish, answer);
        let next = match bundle.answers.len() {
            1 => Next::SendSoon,
            BUNDLE_VERBS_MAX => Next::Send(std::mem::take(&mut bundle)),
            _ => Next::Nothing,
        };
        (next, answered)
    }

    /// What has gathered so far, if anything.
    pub(crate) fn take(&self) -> Option<Bundle> {
        let mut bundle = self.gathering.lock().unwrap_or_else(PoisonError::into_inner);
        (!bundle.answers.is_empty()).then(|| std::mem::take(&mut *bundle))
    }
}

impl Bundle {
    fn add(&mut self, wish: &Wish<'_>, answer: oneshot::Sender<Answer>) {
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

    /// Tells everybody their part of the answer.
    pub(crate) fn answer(self, answer: RedisResult<Value>) {
        let parts = match answer {
            Ok(Value::Array(parts)) if parts.len() == self.answers.len() => parts,
            Ok(_) => return self.fail(&(ErrorKind::UnexpectedReturnType, NOT_ONE_EACH).into()),
            Err(trouble) => return self.fail(&trouble),
        };
        for (answer, part) in self.answers.into_iter().zip(parts) {
            let part = Some(part).filter(|part| *part != Value::Nil);
            let _nobody_waits = answer.send(Ok(part));
        }
    }

    fn fail(self, trouble: &RedisError) {
        for answer in self.answers {
            let _nobody_waits = answer.send(Err(trouble.clone()));
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
