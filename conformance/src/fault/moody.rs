//! An engine that answers, refuses, ignores or panics at each request, as its test decides.

use std::future::{Future, pending};
use std::sync::Arc;

use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::{
    CounterValue, Engine, Error, ErrorKind, Guarantees, Key, LeaveMode, LeaveOutcome, Place,
    Result, Ticket, TicketState, WaitMode, Wake, Window,
};

use super::asked::{Asked, Verb};
use super::carries::carries_every_verb;

/// The treatment of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// It is answered.
    Well,
    /// It is carried out, and the reply is lost.
    AnswerLost,
    /// It never reaches the store, which the caller cannot know.
    Unreachable,
    /// It is refused with an error of this kind.
    Refuses(ErrorKind),
    /// It is never answered.
    Silent,
    /// The engine panics.
    Panics,
}

/// Calls `mood` before each request.
pub struct Moody<E> {
    engine: Arc<E>,
    mood: Box<dyn Fn(&Asked<'_>) -> Mood + Send + Sync>,
}

impl<E: Engine> Moody<E> {
    /// Wraps an engine, which treats each request as `mood` returns.
    pub fn new(engine: E, mood: impl Fn(&Asked<'_>) -> Mood + Send + Sync + 'static) -> Self {
        Self { engine: Arc::new(engine), mood: Box::new(mood) }
    }

    fn promises(&self) -> Guarantees {
        let mut profile = self.engine.guarantees();
        profile.quick = false;
        profile
    }

    async fn carry<T, F>(&self, asked: Asked<'_>, verb: impl Fn(Arc<E>) -> F + Send) -> Result<T>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send,
    {
        let verb_name = asked.verb;
        match (self.mood)(&asked) {
            Mood::Well => verb(self.engine.clone()).await,
            Mood::AnswerLost => {
                verb(self.engine.clone()).await?;
                Err(Error::unavailable(format!("the reply to {verb_name:?} was lost")))
            }
            Mood::Unreachable => {
                Err(Error::unavailable(format!("cannot reach the store for {verb_name:?}")))
            }
            Mood::Refuses(ErrorKind::Invalid) => Err(Error::invalid("this makes no sense")),
            Mood::Refuses(ErrorKind::Unsupported) => {
                Err(Error::unsupported("this store cannot do it"))
            }
            Mood::Refuses(_) => Err(Error::rejected("the disk is full")),
            Mood::Silent => pending().await,
            Mood::Panics => panic!("the engine panics at {verb_name:?}"),
        }
    }
}

carries_every_verb!(Moody);
