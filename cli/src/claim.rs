//! A claim: what a command asks for, and how long it waits for it.

use std::future::pending;
use std::io;
use std::ops::Deref;
use std::time::Duration;

use tenure::{
    Error, ErrorKind, Guard, Key, Liveness, Locks, Note, Place, Result, TTL_DEFAULT, Ticket,
    TicketState,
};
use tenure_kit::duration::brief;

use crate::failure::{BUSY, Failure, LOST, UNREACHABLE, say};
use crate::outage::{PAUSE_FIRST, PAUSE_MAX, Patience};
use crate::screen::{printable, quoted};
use crate::signals::Signals;
use crate::store::SETTLE_MAX;
use crate::waiting::Waiting;

/// A store that has not confirmed a release by then is believed to be gone.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// A life that is longer by less than this is what was asked for.
const TTL_ROUNDED: Duration = Duration::from_millis(100);

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Share {
    /// To be alone.
    Alone,
    /// The office of a leader.
    Office,
    /// To be there beside others who share.
    Shared,
    /// So many permits of so many.
    Permits(u32, u32),
}

impl Share {
    /// How a ticket says it.
    pub(crate) fn of_ticket(self) -> tenure::Result<tenure::Share> {
        match self {
            Self::Alone | Self::Office => Ok(tenure::Share::WHOLE),
            Self::Shared => Ok(tenure::Share::READER),
            Self::Permits(take, of) => tenure::Share::new(take, of),
        }
    }
}

/// A share of a key, on these terms.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) key: &'a str,
    pub(crate) share: Share,
    pub(crate) ttl: Option<Duration>,
    pub(crate) patience: Patience,
    pub(crate) note: Option<&'a str>,
}

/// What was got.
pub(crate) struct Held {
    guard: Guard,
    /// What a sentence calls where it is held.
    store: String,
}

impl Deref for Held {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl Held {
    /// What a sentence calls where it is held.
    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    /// Gives it back. Fails if it was lost before.
    pub(crate) fn release(self, signals: &mut Signals) -> Result<(), Failure> {
        let key = quoted(self.guard.key().as_str());
        let trouble = match signals.within(RELEASE_MAX, self.guard.release())? {
            Ok(Some(Err(error))) if error.kind() == ErrorKind::Lost => {
                return Err(Failure::new(
                    LOST,
                    format!("the command ended, and may have worked without its lock: {error}"),
                ));
            }
            Ok(Some(Err(error))) => error.to_string(),
            Ok(None) => format!("{} does not answer", self.store),
            // Or somebody does not want to wait for a store that does not answer.
            Ok(Some(Ok(()))) | Err(_) => return Ok(()),
        };
        say(&format!("{key}: {trouble}; the lock is free once its life in the store is over"));
        Ok(())
    }

    /// Gives back what is lost: if the store still has it, the next need not wait for its end.
    pub(crate) fn let_go(self, signals: &mut Signals) {
        let _as_was_said = signals.within(SETTLE_MAX, self.guard.release());
    }
}

/// How one stand in the line ended.
enum Stand {
    Held(Held),
    /// The store has lost the line.
    Forgotten,
}

impl Claim<'_> {
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl.unwrap_or(TTL_DEFAULT)
    }

    /// Waits for it, and leaves the line when a signal says so or the wait is in vain. Stands in line
    /// again, after a pause that grows, where the store has lost the line.
    pub(crate) fn acquire(&self, signals: &mut Signals, locks: &Locks) -> Result<Held, Failure> {
        let (mut pause, mut said) = (PAUSE_FIRST, self.patience.is_quiet());
        loop {
            match self.stand(signals, locks)? {
                Stand::Held(held) => return Ok(held),
                Stand::Forgotten => {}
            }
            if !said {
                said = true;
                let (key, store) = (quoted(self.key), &locks.guarantees().store);
                say(&format!("{store} has lost the line of {key}: standing in line again"));
            }
            if let Err(signal) = signals.within(pause, pending::<()>())? {
                return Err(Failure::asked(signal));
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Stands in line once.
    fn stand(&self, signals: &mut Signals, locks: &Locks) -> Result<Stand, Failure> {
        let left = self.patience.left();
        let mut waiting = Waiting::new(locks, self.key, self.patience.is_quiet());
        let asked = signals.until(self.ask(locks, left), |waker| waiting.look(waker));
        drop(waiting);
        let failure = match asked? {
            Ok(Ok(Some(held))) => {
                self.tell_of_a_longer_life(&held);
                return Ok(Stand::Held(held));
            }
            Ok(Ok(None)) => self.in_vain(signals, locks, left)?,
            Ok(Err(error)) if error.is_retryable() && left.is_some() => {
                return self.unanswered(signals, locks, error);
            }
            Ok(Err(error)) if self.is_forgotten(signals, locks, &error)? => {
                return Ok(Stand::Forgotten);
            }
            Ok(Err(error)) => self.refused(locks, error),
            Err(signal) => Failure::asked(signal),
        };
        if failure.code() == UNREACHABLE {
            return Err(failure);
        }
        // Its ticket is already on its way out: this waits until it is, unless the store is silent.
        let _out_or_interrupted_again = signals.within(SETTLE_MAX, locks.flush())?;
        Err(failure)
    }

    /// Whether a store that lost its data has forgotten this ticket. A break takes out one ticket,
    /// and those with smaller numbers stay.
    fn is_forgotten(
        &self,
        signals: &mut Signals,
        locks: &Locks,
        error: &Error,
    ) -> io::Result<bool> {
        let Some(number) = error.number_in_line() else { return Ok(false) };
        let line = signals.within(SETTLE_MAX, locks.line(self.key))?;
        Ok(
            matches!(line, Ok(Some(Ok(line))) if line.iter().all(|(_, place)| place.number > number)),
        )
    }

    /// Whoever chose a ttl counts on it that the lock is free so soon after a crash.
    fn tell_of_a_longer_life(&self, held: &Held) {
        let (Some(asked), Some(life)) = (self.ttl, held.life()) else { return };
        if life < asked + TTL_ROUNDED || self.patience.is_quiet() {
            return;
        }
        // A part of it is over.
        let life = Duration::from_secs(life.as_secs() + u64::from(life.subsec_nanos() > 0));
        let (key, store, life) = (quoted(self.key), &held.store, brief(life));
        say(&format!(
            "after a crash {key} stays locked for about {life}, and not for {asked:?}: {store}, or an option of its URL, allows no shorter ttl"
        ));
    }

    /// A mistake in the words is told before the store is asked.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        Key::new(self.key)?;
        Note::new(self.note.unwrap_or_default())?;
        self.share.of_ticket()?;
        Ok(())
    }

    /// While the ticket is on its way out, the store is asked once more: it may tell what the time was too short to hear,
    /// for example who keeps a file locked. Then it does not let the ticket out, either.
    fn unanswered<T>(
        &self,
        signals: &mut Signals,
        locks: &Locks,
        error: Error,
    ) -> Result<T, Failure> {
        let mut reason = error;
        let _out_or_interrupted_again = signals.within(SETTLE_MAX, async {
            match locks.line(self.key).await {
                Ok(_) => locks.flush().await,
                Err(error) => reason = error,
            }
        })?;
        Err(reason.into())
    }

    async fn ask(&self, locks: &Locks, wait: Option<Duration>) -> Result<Option<Held>> {
        let (key, ttl) = (self.key, self.ttl());
        let note = self.note.unwrap_or_default();
        let guard = match (self.share, wait) {
            (Share::Alone, None) => Some(locks.mutex(key).ttl(ttl).note(note).lock().await?),
            (Share::Alone, Some(time)) => {
                locks.mutex(key).ttl(ttl).note(note).try_lock_for(time).await?
            }
            (Share::Office, _) => Some(locks.election(key).ttl(ttl).note(note).campaign().await?),
            (Share::Shared, None) => Some(locks.rwlock(key).ttl(ttl).note(note).read().await?),
            (Share::Shared, Some(time)) => {
                locks.rwlock(key).ttl(ttl).note(note).try_read_for(time).await?
            }
            (Share::Permits(take, of), None) => {
                Some(locks.semaphore(key, of).ttl(ttl).note(note).acquire_many(take).await?)
            }
            (Share::Permits(take, of), Some(time)) => {
                let permits = locks.semaphore(key, of).ttl(ttl).note(note);
                permits.try_acquire_many_for(take, time).await?
            }
        };
        Ok(guard.map(|guard| Held { guard, store: locks.guarantees().store.clone() }))
    }

    /// Says who holds it, if that can be known. Time also passes while a store says nothing.
    fn in_vain(
        &self,
        signals: &mut Signals,
        locks: &Locks,
        waited: Option<Duration>,
    ) -> io::Result<Failure> {
        let look = signals.within(SETTLE_MAX, locks.line(self.key))?;
        let waited = waited.filter(|waited| !waited.is_zero());
        let line = match look {
            Ok(Some(Ok(line))) => line,
            Ok(Some(Err(error))) if waited.is_some() && error.is_retryable() => {
                return Ok(error.into());
            }
            Ok(None) if let Some(wait) = self.patience.wait().filter(|wait| !wait.is_zero()) => {
                let (key, waited) = (quoted(self.key), brief(wait));
                let store = &locks.guarantees().store;
                let sentence =
                    format!("waited {waited} in vain for {key}: {store} does not answer");
                return Ok(Failure::new(UNREACHABLE, sentence));
            }
            _ => Vec::new(),
        };
        let by = self.in_the_way(&line);
        let key = quoted(self.key);
        let sentence = match self.patience.wait() {
            Some(wait) => format!("{key} is busy{by}: waited {} in vain", brief(wait)),
            None => format!("{key} is busy{by}"),
        };
        Ok(Failure::new(BUSY, sentence))
    }

    /// Who keeps this share out: those who hold, or, if it would fit beside them, whoever waits ahead for more.
    fn in_the_way(&self, line: &[(Ticket, Place)]) -> String {
        let of = |standing| line.iter().filter(move |(_, place)| place.state == standing);
        let taken: u64 =
            of(TicketState::Holding).map(|(ticket, _)| u64::from(ticket.share.take())).sum();
        let fits = self.share.of_ticket().is_ok_and(|share| {
            taken > 0 && taken + u64::from(share.take()) <= u64::from(share.of())
        });
        let first = |standing| of(standing).next().map(|(ticket, _)| printable(&ticket.owner));
        match (first(TicketState::Holding), first(TicketState::Waiting).filter(|_| fits)) {
            (Some(holder), Some(waiter)) => {
                format!(", held by {holder}, and {waiter} waits ahead for more than is free")
            }
            (Some(holder), None) => format!(", held by {holder}"),
            (None, _) => String::new(),
        }
    }

    /// A waiter who was broken has not lost what it never had.
    fn refused(&self, locks: &Locks, error: Error) -> Failure {
        if error.kind() != ErrorKind::Lost {
            return error.into();
        }
        let key = quoted(self.key);
        let sentence = if locks.guarantees().liveness == Liveness::Kernel {
            format!("somebody took this ticket out of the line of {key}")
        } else {
            format!(
                "this ticket was taken out of the line of {key}, by a break, by an operator of the store, or by a store that has lost its data"
            )
        };
        Failure::new(BUSY, sentence)
    }
}
