//! A program: what a user of locks does, step by step, and what it believes while it does it.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::{
    AllGuard, Error, Guard, Held, Host as _, Locks, Result, SHARE_OF_MAX, Share, TicketId,
    WriteGuard,
};

use super::plan::{Plan, Use};
use super::referee::{Believer, Referee};
use super::trouble::part;
use super::{SimHost, World};
use crate::holder::{Claim, Client, View};

/// Whose locks a program uses.
#[derive(Clone)]
pub(super) enum Player {
    Tenure(Locks),
    Other(Arc<dyn Client>),
}

impl Player {
    pub(super) fn owned_by(&self, name: &str) -> Self {
        match self {
            Self::Tenure(locks) => {
                Self::Tenure(locks.owned_by(name).expect("the story's names are short"))
            }
            other @ Self::Other(_) => other.clone(),
        }
    }
}

pub(super) struct Program {
    pub(super) name: String,
    pub(super) player: Player,
    pub(super) host: Arc<SimHost>,
    pub(super) referee: Referee,
    pub(super) plan: Arc<Plan>,
}

/// Whether a program has ended, and what it waits for if it has not.
#[derive(Clone, Default)]
pub(super) struct Done(Arc<Mutex<(bool, String)>>);

impl Done {
    pub(super) fn is_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn waits_for(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    fn wait_for(&self, what: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1 = what;
    }

    fn set(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
    }
}

/// How long a program is willing to wait.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Try,
    Within(Duration),
    Ever,
    /// As long as it takes, but the future is dropped after so long.
    Dropped(Duration),
}

/// What a program got hold of.
enum Got {
    One(Guard, Share),
    Write(WriteGuard),
    All(AllGuard),
    Other(Box<dyn Claim>),
}

/// One lock of what it got.
struct Part {
    key: String,
    share: Share,
    token: u64,
    id: TicketId,
    view: Arc<dyn View>,
}

pub(super) fn start(program: Program) -> Done {
    let done = Done::default();
    let (host, told) = (program.host.clone(), done.clone());
    host.spawn(Box::pin(async move {
        for _ in 0..program.plan.steps {
            program.step(&told).await;
        }
        program.referee.note(|| format!("{} is done", program.name));
        told.set();
    }));
    done
}

impl Program {
    fn world(&self) -> &World {
        self.host.world()
    }

    fn one_in(&self, count: u64) -> bool {
        self.world().random().is_multiple_of(count)
    }

    async fn step(&self, done: &Done) {
        self.host.sleep(part(self.world(), self.plan.ttl)).await;
        let at = self.world().random() % self.plan.keys.len() as u64;
        let (key, kind) = &self.plan.keys[usize::try_from(at).unwrap_or(0)];
        let wish = self.wish();
        self.referee.note(|| format!("{} asks for {key} ({wish:?})", self.name));
        done.wait_for(format!("{key} ({wish:?})"));
        match self.ask(key, *kind, wish).await {
            Ok(Some(got)) => self.hold(got).await,
            Ok(None) => self.referee.note(|| format!("{} goes without {key}", self.name)),
            Err(error) => {
                self.referee.hear_error(&self.name, &error, self.plan.trouble.is_none());
            }
        }
    }

    fn wish(&self) -> Wish {
        let time = part(self.world(), self.plan.ttl * 3);
        match self.world().random() % 6 {
            0 => Wish::Try,
            1 => Wish::Within(time),
            2 => Wish::Dropped(time),
            _ => Wish::Ever,
        }
    }

    async fn ask(&self, key: &str, kind: Use, wish: Wish) -> Result<Option<Got>> {
        match wish {
            Wish::Dropped(time) => {
                let asked = pin!(self.ask_patiently(key, kind, Wish::Ever));
                match select(asked, self.host.sleep(time)).await {
                    Either::Left((got, _)) => got,
                    Either::Right(_) => Ok(None),
                }
            }
            _ => self.ask_patiently(key, kind, wish).await,
        }
    }

    async fn ask_patiently(&self, key: &str, kind: Use, wish: Wish) -> Result<Option<Got>> {
        let locks = match &self.player {
            Player::Tenure(locks) => locks,
            Player::Other(client) => {
                let wait = match wish {
                    Wish::Try => Some(Duration::ZERO),
                    Wish::Within(time) => Some(time),
                    Wish::Ever | Wish::Dropped(_) => None,
                };
                return Ok(client.lock(key, self.plan.ttl, wait).await?.map(Got::Other));
            }
        };
        match kind {
            Use::Mutex => match self.world().random() % 4 {
                0 => self.ask_all(locks, key, wish).await,
                1 => self.ask_seat(locks, key, wish).await,
                _ => self.ask_mutex(locks, key, wish).await,
            },
            Use::RwLock => self.ask_rwlock(locks, key, wish).await,
            Use::Semaphore(permits) => self.ask_permits(locks, key, permits, wish).await,
        }
    }

    async fn ask_mutex(&self, locks: &Locks, key: &str, wish: Wish) -> Result<Option<Got>> {
        let mut mutex = locks.mutex(key).ttl(self.plan.ttl);
        if self.one_in(8) {
            mutex = mutex.max_hold(part(self.world(), self.plan.ttl * 2));
        }
        // Nobody may lose anything in a calm world, and what nobody renews is lost.
        if self.plan.trouble.is_some() && self.one_in(8) {
            mutex = mutex.by_hand();
        }
        let guard = match wish {
            Wish::Try => mutex.try_lock().await?,
            Wish::Within(time) => mutex.lock_within(time).await?,
            Wish::Ever | Wish::Dropped(_) => Some(mutex.lock().await?),
        };
        Ok(guard.map(|guard| Got::One(guard, Share::WHOLE)))
    }

    async fn ask_seat(&self, locks: &Locks, key: &str, wish: Wish) -> Result<Option<Got>> {
        let election = locks.election(key).ttl(self.plan.ttl).note(self.name.as_str());
        let guard = match wish {
            Wish::Try => election.try_campaign().await?,
            Wish::Within(time) => election.campaign_within(time).await?,
            Wish::Ever | Wish::Dropped(_) => Some(election.campaign().await?),
        };
        Ok(guard.map(|guard| Got::One(guard, Share::WHOLE)))
    }

    async fn ask_all(&self, locks: &Locks, key: &str, wish: Wish) -> Result<Option<Got>> {
        let mutexes = self.plan.keys.iter().filter(|(_, kind)| *kind == Use::Mutex);
        let mut keys: Vec<&str> = mutexes.map(|(name, _)| name.as_str()).collect();
        keys.reverse();
        keys.push(key);
        let all = locks.all(keys).ttl(self.plan.ttl);
        let guard = match wish {
            Wish::Try => all.try_lock().await?,
            Wish::Within(time) => all.lock_within(time).await?,
            Wish::Ever | Wish::Dropped(_) => Some(all.lock().await?),
        };
        Ok(guard.map(Got::All))
    }

    async fn ask_rwlock(&self, locks: &Locks, key: &str, wish: Wish) -> Result<Option<Got>> {
        let lock = locks.rwlock(key).ttl(self.plan.ttl);
        if self.one_in(2) {
            let guard = match wish {
                Wish::Try => lock.try_write().await?,
                Wish::Within(time) => lock.write_within(time).await?,
                Wish::Ever | Wish::Dropped(_) => Some(lock.write().await?),
            };
            return Ok(guard.map(Got::Write));
        }
        let guard = match wish {
            Wish::Try => lock.try_read().await?,
            Wish::Within(time) => lock.read_within(time).await?,
            Wish::Ever | Wish::Dropped(_) => Some(lock.read().await?),
        };
        Ok(guard.map(|guard| Got::One(guard, Share::new(1, SHARE_OF_MAX).expect("a reader's"))))
    }

    async fn ask_permits(
        &self,
        locks: &Locks,
        key: &str,
        permits: u32,
        wish: Wish,
    ) -> Result<Option<Got>> {
        let count = 1 + u32::try_from(self.world().random() % u64::from(permits)).unwrap_or(0);
        let semaphore = locks.semaphore(key, permits).ttl(self.plan.ttl);
        let guard = match wish {
            Wish::Try => semaphore.try_acquire_many(count).await?,
            Wish::Within(time) => semaphore.acquire_many_within(count, time).await?,
            Wish::Ever | Wish::Dropped(_) => Some(semaphore.acquire_many(count).await?),
        };
        let share = Share::new(count, permits)?;
        Ok(guard.map(|guard| Got::One(guard, share)))
    }

    /// Holds for a while, as long as it believes.
    async fn hold(&self, mut got: Got) {
        let parts = got.parts();
        let numbers: Vec<u64> = parts.iter().map(|part| self.announce(part)).collect();
        let calm = self.plan.trouble.is_none();
        let turns = 1 + self.world().random() % 6;
        for _ in 0..turns {
            let nap = self.host.sleep(part(self.world(), self.plan.ttl / 2));
            let told = pin!(parts[0].view.lost());
            select(told, nap).await;
            if let Err(error) = self.look(&parts) {
                let because = error.loss().is_some_and(|loss| loss != tenure_core::Loss::HeldTooLong);
                self.referee.hear_error(&self.name, &error, calm && because);
                break;
            }
            match self.occupy(got, &numbers).await {
                Some(kept) => got = kept,
                None => {
                    numbers.iter().for_each(|number| self.referee.end(*number));
                    return;
                }
            }
        }
        numbers.iter().for_each(|number| self.referee.end(*number));
        self.give_back(got, &parts).await;
    }

    fn announce(&self, part: &Part) -> u64 {
        let number = self.referee.grant(Believer {
            who: self.name.clone(),
            key: part.key.clone(),
            take: part.share.take(),
            of: part.share.of(),
            token: part.token,
            id: part.id,
            view: part.view.clone(),
        });
        let (referee, view) = (self.referee.clone(), part.view.clone());
        let (who, key) = (self.name.clone(), part.key.clone());
        self.host.spawn(Box::pin(async move {
            view.lost().await;
            referee.note(|| format!("{who} is told that {key} is lost"));
            if view.check().is_ok() {
                referee.object(format!("{who} was told that {key} is lost, and believes all the same"));
            }
        }));
        number
    }

    /// Is it still held? If so, it works under the lock: at this very moment, and by a write that
    /// reaches the guarded resource some time later.
    fn look(&self, parts: &[Part]) -> Result<()> {
        for part in parts {
            part.view.check()?;
        }
        for part in parts {
            self.referee.look(&part.key);
            if part.share.take() == part.share.of() {
                self.write(part);
            }
        }
        Ok(())
    }

    fn write(&self, written: &Part) {
        let store = self.world().store();
        let longest = if self.one_in(4) { self.plan.ttl * 2 } else { self.plan.ttl / 50 };
        let arrival = store.sleep(part(self.world(), longest));
        let (referee, who, view) = (self.referee.clone(), self.name.clone(), written.view.clone());
        let (key, token) = (written.key.clone(), written.token);
        store.spawn(Box::pin(async move {
            arrival.await;
            referee.write(&who, &key, token, &*view);
        }));
    }

    /// Something to do with what is held, now and then. `None`: it is held no more.
    async fn occupy(&self, got: Got, numbers: &[u64]) -> Option<Got> {
        let calm = self.plan.trouble.is_none();
        let hear = |error: &Error| self.referee.hear_error(&self.name, error, calm && error.loss().is_none());
        match got {
            Got::Write(guard) if self.one_in(3) => {
                self.referee.note(|| format!("{} downgrades", self.name));
                // Whoever is about to read only must not count on writing any more.
                numbers.iter().for_each(|number| self.referee.shrink(*number, 1));
                match guard.downgrade().await {
                    Ok(guard) => {
                        let share = Share::new(1, SHARE_OF_MAX).expect("a reader's");
                        Some(Got::One(guard, share))
                    }
                    Err(error) => {
                        hear(&error);
                        None
                    }
                }
            }
            Got::One(guard, share) if self.one_in(4) => {
                self.referee.note(|| format!("{} extends", self.name));
                if let Err(error) = guard.extend().await {
                    hear(&error);
                }
                Some(Got::One(guard, share))
            }
            Got::One(guard, share) if self.one_in(6) => {
                if let Err(error) = guard.set_note("still here").await {
                    hear(&error);
                }
                Some(Got::One(guard, share))
            }
            kept => Some(kept),
        }
    }

    async fn give_back(&self, got: Got, parts: &[Part]) {
        if self.one_in(3) {
            self.referee.note(|| format!("{} drops {}", self.name, parts[0].key));
            drop(got);
            return;
        }
        let believed = parts.iter().all(|part| part.view.check().is_ok());
        self.referee.note(|| format!("{} releases {}", self.name, parts[0].key));
        match got.release().await {
            Ok(()) if believed => {}
            Ok(()) => self.referee.object(format!(
                "{} had lost {}, and its release claims that it was held",
                self.name, parts[0].key
            )),
            Err(error) => {
                let because = believed && error.loss().is_none();
                self.referee.hear_error(&self.name, &error, self.plan.trouble.is_none() && because);
            }
        }
    }
}

impl Got {
    fn parts(&self) -> Vec<Part> {
        match self {
            Self::One(guard, share) => vec![Part::of(guard.held(), *share)],
            Self::Write(guard) => {
                let share = Share::new(SHARE_OF_MAX, SHARE_OF_MAX).expect("a writer's");
                vec![Part::of(guard.held(), share)]
            }
            Self::All(all) => {
                all.guards().iter().map(|guard| Part::of(guard.held(), Share::WHOLE)).collect()
            }
            Self::Other(claim) => vec![Part {
                key: claim.key(),
                share: Share::WHOLE,
                token: claim.token(),
                id: claim.id(),
                view: claim.view(),
            }],
        }
    }

    async fn release(self) -> Result<()> {
        match self {
            Self::One(guard, _) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::All(all) => all.release().await,
            Self::Other(claim) => claim.release().await,
        }
    }
}

impl Part {
    fn of(held: Held, share: Share) -> Self {
        Self {
            key: held.key().as_str().to_owned(),
            share,
            token: held.token(),
            id: held.id(),
            view: Arc::new(held),
        }
    }
}
