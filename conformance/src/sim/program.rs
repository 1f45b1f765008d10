//! A program: the steps of a user of locks, and their belief at each.

mod acquire_mode;
mod asking;
mod done;
mod got;
mod term;

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::select;
use tenure_core::{Error, Locks, Loss, Result, Runtime as _, SHARE_OF_MAX, Share};

use self::acquire_mode::AcquireMode;
use self::done::Done;
use self::got::{Got, Part};
use super::plan::{Plan, Use};
use super::referee::{Believer, Referee};
use super::trouble::part;
use super::{SimHost, World};
use crate::sim::holder::Client;

/// The locks of a program.
#[derive(Clone)]
pub(super) enum Player {
    Tenure(Locks),
    Other(Arc<dyn Client>),
}

impl Player {
    pub(super) fn with_owner(&self, name: &str) -> Self {
        match self {
            Self::Tenure(locks) => Self::Tenure(locks.with_owner(name).expect("the name is short")),
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

pub(super) fn start(program: Program) -> Done {
    let done = Done::default();
    let (host, end) = (program.host.clone(), done.clone());
    host.spawn(Box::pin(async move {
        for _ in 0..program.plan.steps {
            program.step(&end).await;
        }
        program.referee.note(|| format!("{} has ended", program.name));
        end.set();
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
        let mode = self.mode();
        self.referee.note(|| format!("{} asks for {key} ({mode:?})", self.name));
        done.wait_for(format!("{key} ({mode:?})"));
        if let (Player::Tenure(locks), Use::Mutex, AcquireMode::Ever) = (&self.player, *kind, mode)
            && self.one_in(5)
        {
            return self.lead(locks, key).await;
        }
        match self.ask(key, *kind, mode).await {
            Ok(Some(got)) => self.hold(got).await,
            Ok(None) => self.referee.note(|| format!("{} gave up waiting for {key}", self.name)),
            // A store need not answer within a few times that a message takes.
            Err(error) => {
                let brief = matches!(mode, AcquireMode::Within(time) if time < self.plan.ttl / 20);
                self.hear(&error, brief && error.is_retryable());
            }
        }
    }

    fn mode(&self) -> AcquireMode {
        let time = part(self.world(), self.plan.ttl * 3);
        match self.world().random() % 6 {
            0 => AcquireMode::Try,
            1 => AcquireMode::Within(time),
            2 => AcquireMode::Dropped(time),
            _ => AcquireMode::Ever,
        }
    }

    /// Reports an error. It is excused while there may be faults.
    fn hear(&self, error: &Error, excused: bool) {
        let calm = self.plan.trouble.is_none();
        self.referee.report_error(&self.name, error, calm && !excused);
    }

    /// Holds for a while, as long as it believes to hold.
    async fn hold(&self, mut got: Got) {
        let parts = got.parts();
        let numbers: Vec<u64> = parts.iter().map(|part| self.announce(part)).collect();
        let turns = 1 + self.world().random() % 6;
        for _ in 0..turns {
            let nap = self.host.sleep(part(self.world(), self.plan.ttl / 2));
            let lost = pin!(parts[0].view.lost());
            select(lost, nap).await;
            if let Err(error) = self.look(&parts) {
                self.hear(&error, error.loss() == Some(Loss::HeldTooLong));
                break;
            }
            let Some(kept) = self.occupy(got, &numbers).await else {
                self.end(&numbers);
                return;
            };
            got = kept;
        }
        self.end(&numbers);
        self.give_back(got, &parts).await;
    }

    fn end(&self, numbers: &[u64]) {
        for number in numbers {
            self.referee.end(*number);
        }
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
            works: false,
        });
        let (referee, view) = (self.referee.clone(), part.view.clone());
        let (who, key) = (self.name.clone(), part.key.clone());
        self.host.spawn(Box::pin(async move {
            view.lost().await;
            referee.note(|| format!("{who} is notified that {key} is lost"));
            if view.check().is_ok() {
                referee.object(format!(
                    "{who} was notified that {key} is lost, and still believes to hold it"
                ));
            }
        }));
        number
    }

    /// Checks the lock. If it is held, works under it: at this moment, and by a write that reaches
    /// the resource later.
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

    /// Sometimes uses a method of the guard. `None`: it is not held any more.
    async fn occupy(&self, got: Got, numbers: &[u64]) -> Option<Got> {
        let hear = |error: &Error| self.hear(error, error.loss().is_some());
        match got {
            Got::Write(guard) if self.one_in(3) => {
                self.referee.note(|| format!("{} downgrades", self.name));
                // A holder that becomes a reader must not rely on writing any more.
                for number in numbers {
                    self.referee.shrink(*number, 1);
                }
                match guard.downgrade().await {
                    Ok(guard) => {
                        let share = Share::new(1, SHARE_OF_MAX).expect("the share is valid");
                        Some(Got::One(guard.into(), share))
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
                "{} had lost {}, but its release reports success",
                self.name, parts[0].key
            )),
            Err(error) => self.hear(&error, !believed || error.loss().is_some()),
        }
    }
}
