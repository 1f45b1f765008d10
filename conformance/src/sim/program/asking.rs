//! Lock requests of a program: every primitive, in every mode.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::{Locks, Result, Runtime as _, SHARE_OF_MAX, Share};

use super::acquire_mode::AcquireMode;
use super::got::Got;
use super::{Player, Program};
use crate::sim::plan::Use;
use crate::sim::trouble::part;

impl Program {
    pub(super) async fn ask(&self, key: &str, kind: Use, mode: AcquireMode) -> Result<Option<Got>> {
        match mode {
            AcquireMode::Dropped(time) => {
                let asked = pin!(self.ask_patiently(key, kind, AcquireMode::Ever));
                match select(asked, self.host.sleep(time)).await {
                    Either::Left((got, _)) => got,
                    Either::Right(_) => Ok(None),
                }
            }
            _ => self.ask_patiently(key, kind, mode).await,
        }
    }

    async fn ask_patiently(&self, key: &str, kind: Use, mode: AcquireMode) -> Result<Option<Got>> {
        let locks = match &self.player {
            Player::Tenure(locks) => locks,
            Player::Other(client) => {
                let wait = match mode {
                    AcquireMode::Try => Some(Duration::ZERO),
                    AcquireMode::Within(time) => Some(time),
                    AcquireMode::Ever | AcquireMode::Dropped(_) => None,
                };
                return Ok(client.lock(key, self.plan.ttl, wait).await?.map(Got::Other));
            }
        };
        match kind {
            Use::Mutex => match self.world().random() % 4 {
                0 => self.ask_all(locks, key, mode).await,
                1 => self.ask_seat(locks, key, mode).await,
                _ => self.ask_mutex(locks, key, mode).await,
            },
            Use::RwLock => self.ask_rwlock(locks, key, mode).await,
            Use::Semaphore(permits) => self.ask_permits(locks, key, permits, mode).await,
        }
    }

    async fn ask_mutex(&self, locks: &Locks, key: &str, mode: AcquireMode) -> Result<Option<Got>> {
        let mut mutex = locks.mutex(key).ttl(self.plan.ttl);
        if self.one_in(8) {
            mutex = mutex.max_hold(part(self.world(), self.plan.ttl * 2));
        }
        // Without faults no lock may be lost, but a lock without renewals is lost.
        if self.plan.trouble.is_some() && self.one_in(8) {
            mutex = mutex.manual_renewal();
        }
        let guard = match mode {
            AcquireMode::Try => mutex.try_lock().await?,
            AcquireMode::Within(time) => mutex.try_lock_for(time).await?,
            AcquireMode::Ever | AcquireMode::Dropped(_) => Some(mutex.lock().await?),
        };
        Ok(guard.map(|guard| Got::One(guard.into(), Share::WHOLE)))
    }

    async fn ask_seat(&self, locks: &Locks, key: &str, mode: AcquireMode) -> Result<Option<Got>> {
        let election = locks.election(key).ttl(self.plan.ttl).note(self.name.as_str());
        let guard = match mode {
            AcquireMode::Try => election.try_campaign().await?,
            AcquireMode::Within(time) => election.try_campaign_for(time).await?,
            AcquireMode::Ever | AcquireMode::Dropped(_) => Some(election.campaign().await?),
        };
        Ok(guard.map(|guard| Got::One(guard.into(), Share::WHOLE)))
    }

    async fn ask_all(&self, locks: &Locks, key: &str, mode: AcquireMode) -> Result<Option<Got>> {
        let mutexes = self.plan.keys.iter().filter(|(_, kind)| *kind == Use::Mutex);
        let mut keys: Vec<&str> = mutexes.map(|(name, _)| name.as_str()).collect();
        keys.reverse();
        keys.push(key);
        let all = locks.multi_lock(keys).ttl(self.plan.ttl);
        let guard = match mode {
            AcquireMode::Try => all.try_lock().await?,
            AcquireMode::Within(time) => all.try_lock_for(time).await?,
            AcquireMode::Ever | AcquireMode::Dropped(_) => Some(all.lock().await?),
        };
        Ok(guard.map(Got::All))
    }

    async fn ask_rwlock(&self, locks: &Locks, key: &str, mode: AcquireMode) -> Result<Option<Got>> {
        let lock = locks.rwlock(key).ttl(self.plan.ttl);
        if self.one_in(2) {
            let guard = match mode {
                AcquireMode::Try => lock.try_write().await?,
                AcquireMode::Within(time) => lock.try_write_for(time).await?,
                AcquireMode::Ever | AcquireMode::Dropped(_) => Some(lock.write().await?),
            };
            return Ok(guard.map(Got::Write));
        }
        let guard = match mode {
            AcquireMode::Try => lock.try_read().await?,
            AcquireMode::Within(time) => lock.try_read_for(time).await?,
            AcquireMode::Ever | AcquireMode::Dropped(_) => Some(lock.read().await?),
        };
        Ok(guard.map(|guard| {
            Got::One(guard.into(), Share::new(1, SHARE_OF_MAX).expect("the share is valid"))
        }))
    }

    async fn ask_permits(
        &self,
        locks: &Locks,
        key: &str,
        permits: u32,
        mode: AcquireMode,
    ) -> Result<Option<Got>> {
        let count = 1 + u32::try_from(self.world().random() % u64::from(permits)).unwrap_or(0);
        let semaphore = locks.semaphore(key, permits).ttl(self.plan.ttl);
        let guard = match mode {
            AcquireMode::Try => semaphore.try_acquire_many(count).await?,
            AcquireMode::Within(time) => semaphore.try_acquire_many_for(count, time).await?,
            AcquireMode::Ever | AcquireMode::Dropped(_) => {
                Some(semaphore.acquire_many(count).await?)
            }
        };
        let share = Share::new(count, permits)?;
        Ok(guard.map(|guard| Got::One(guard.into(), share)))
    }
}
