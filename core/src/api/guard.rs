//! The guard of a held lock. It reads the lease's state, and releases the ticket when it is
//! dropped.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::background::lease::Lease;
use crate::{Error, Key, LeaseHandle, Loss, Result, Share, TicketId, Token, Warning};

/// A guard with the methods that all guards have.
macro_rules! guard {
    ($(#[$doc:meta])* $Guard:ident) => {
        $(#[$doc])*
        #[must_use = "the lock is released as soon as its guard is dropped"]
        pub struct $Guard(pub(crate) Lease);

        impl $Guard {
            /// A handle to observe the lease from other tasks. It can be cloned, and cannot
            /// release the lock.
            pub fn handle(&self) -> LeaseHandle {
                LeaseHandle::new(&self.0)
            }

            /// The key of the lock.
            pub fn key(&self) -> &Key {
                &self.0.shared.key
            }

            /// The share of the line that is held.
            pub fn share(&self) -> Share {
                self.handle().share()
            }

            /// The id of the ticket in the line.
            pub fn id(&self) -> TicketId {
                self.handle().id()
            }

            /// Returns an error if the lock is lost. It sends no request. See
            /// [`LeaseHandle::check`].
            ///
            /// # Errors
            ///
            /// [`Lost`](crate::ErrorKind::Lost), with the reason.
            pub fn check(&self) -> Result<()> {
                self.handle().check()
            }

            /// The time until the lease expires without a further renewal. See
            /// [`LeaseHandle::remaining`].
            pub fn remaining(&self) -> Option<Duration> {
                self.handle().remaining()
            }

            /// The ttl that the store granted. See [`LeaseHandle::life`].
            pub fn life(&self) -> Option<Duration> {
                self.handle().life()
            }

            /// Waits until the lock is lost. See [`LeaseHandle::lost`].
            pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
                self.handle().lost()
            }

            /// Waits until the lock is lost or released. See [`LeaseHandle::ended`].
            pub fn ended(&self) -> impl Future<Output = Option<Loss>> + Send + use<> {
                self.handle().ended()
            }

            /// Waits until a renewal has failed. See [`LeaseHandle::warned`].
            pub fn warned(&self) -> impl Future<Output = Warning> + Send + use<> {
                self.handle().warned()
            }

            /// Polls `work` while the lock is held, and drops it when the lock is lost. See
            /// [`LeaseHandle::run`].
            ///
            /// # Errors
            ///
            /// [`Lost`](crate::ErrorKind::Lost): the work was dropped.
            pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
                self.handle().run(work).await
            }

            /// The error of the last renewal, if none has succeeded since.
            pub fn trouble(&self) -> Option<Error> {
                self.handle().trouble()
            }

            /// Whether the lock was lost because an operator asked this holder to leave. See
            /// [`LeaseHandle::was_asked_to_leave`].
            pub fn was_asked_to_leave(&self) -> bool {
                self.handle().was_asked_to_leave()
            }

            /// Renews the lease now. See [`LeaseHandle::extend`].
            ///
            /// # Errors
            ///
            /// Those of [`LeaseHandle::extend`].
            pub async fn extend(&self) -> Result<()> {
                self.handle().extend().await
            }

            /// Changes the note that others see in the line. See [`LeaseHandle::set_note`].
            ///
            /// # Errors
            ///
            /// Those of [`LeaseHandle::set_note`].
            pub async fn set_note(&self, note: impl Into<Arc<str>>) -> Result<()> {
                self.handle().set_note(note).await
            }

            /// Releases the lock. Returns an error if it was lost before.
            ///
            /// # Errors
            ///
            /// * [`Lost`](crate::ErrorKind::Lost): the lock was lost before, and another client may
            ///   have held it.
            /// * [`Unavailable`](crate::ErrorKind::Unavailable): the store did not confirm the
            ///   release. It is tried again in the background.
            ///
            /// # Cancel safety
            ///
            /// If the future is dropped, the lock is released in the background.
            pub async fn release(self) -> Result<()> {
                self.0.release().await
            }
        }

        impl fmt::Debug for $Guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.handle(), f)
            }
        }
    };
}

/// The methods of guards that hold alone.
macro_rules! exclusive {
    ($($Guard:ident)*) => {
        $(impl $Guard {
            /// The fencing token. See [`Token`].
            pub fn token(&self) -> Token {
                Token::of(self.0.number)
            }
        })*
    };
}

guard! {
    /// The guard of a held mutex. Dropping it releases the lock in the background.
    /// [`release`](MutexGuard::release) waits for the store, and returns whether the lock was held
    /// until then.
    ///
    /// A lock can be lost while its guard lives: the program was paused for too long, the store was
    /// unreachable, or an operator broke it. **A lock cannot stop a program that does not check.**
    /// Call [`check`](MutexGuard::check) before each step that must not happen twice, or let
    /// [`run`](MutexGuard::run) stop the work. Only a resource that refuses old
    /// [tokens](MutexGuard::token) is fully protected.
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let guard = locks.mutex("invoices/42").lock().await?;
    /// let token = guard.token();
    /// println!("UPDATE … WHERE token <= {token}");
    /// guard.check()?;
    /// guard.release().await?;
    /// let next = locks.mutex("invoices/42").lock().await?;
    /// assert!(next.token() > token);
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    MutexGuard
}

guard! {
    /// The guard of a reader. It has no fencing token, because readers hold at the same time.
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let reader = locks.rwlock("config").read().await?;
    /// reader.check()?;
    /// reader.release().await?;
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    ReadGuard
}

guard! {
    /// The guard of a writer, until it is released, dropped, downgraded or lost.
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let config = locks.rwlock("config");
    /// let writer = config.write().await?;
    /// // It writes, then goes on as a reader: no other writer comes between.
    /// let reader = writer.downgrade().await?;
    /// assert!(config.try_read().await?.is_some());
    /// # drop(reader);
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    WriteGuard
}

guard! {
    /// Permits of a semaphore. They have no fencing token, because several clients hold at the same
    /// time.
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let permit = locks.semaphore("downloads", 5).acquire_many(2).await?;
    /// assert_eq!((permit.share().take(), permit.share().of()), (2, 5));
    /// permit.release().await?;
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    Permit
}

guard! {
    /// The guard of a leader. Releasing it resigns, and [`set_note`](Leadership::set_note) changes
    /// the note that followers read.
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let leadership = locks.election("scheduler").campaign().await?;
    /// println!("the leader of term {}", leadership.token());
    /// leadership.release().await?;
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    Leadership
}

exclusive! { MutexGuard WriteGuard Leadership }

impl WriteGuard {
    /// Becomes a reader without a release in between, so no other writer comes between.
    ///
    /// If the store is unreachable, the guard becomes a reader all the same. Other readers then
    /// wait until the next renewal succeeds.
    ///
    /// # Errors
    ///
    /// The lock is lost, or the store refuses. The lock is then released.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        self.0.shared.set_share(Share::READER);
        match self.extend().await {
            Err(error) if !error.is_retryable() => Err(error),
            _ => Ok(ReadGuard(self.0)),
        }
    }
}
