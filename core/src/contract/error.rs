//! The error of every operation: its kind says what to do, its reason says why.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::{Key, Loss};

/// The result of every operation of Tenure.
///
/// ```
/// use tenure::Locks;
///
/// # tenure::blocking::block_on(async {
/// async fn pay(locks: &Locks) -> tenure::Result<()> {
///     let guard = locks.mutex("invoices/42").lock().await?;
///     guard.release().await
/// }
/// # pay(&tenure::connect("memory:").await?).await?;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error whose [`kind`](Error::kind) says what a program should do.
///
/// | kind | what to do | example |
/// |---|---|---|
/// | [`Lost`](ErrorKind::Lost) | stop the work | the lease expired while the program was paused |
/// | [`Unavailable`](ErrorKind::Unavailable) | try again later | the store did not answer in time |
/// | [`Rejected`](ErrorKind::Rejected) | call the operator | the password is wrong, the store is full |
/// | [`Invalid`](ErrorKind::Invalid) | correct the program | the key is empty |
/// | [`Unsupported`](ErrorKind::Unsupported) | use another engine | etcd has no windowed counters |
///
/// [`reason`](Error::reason) distinguishes cases of one kind. The message is for people: it may
/// change in any version, so a program must not read it. A lock that is taken is not an error:
/// `try_lock` returns `None`.
///
/// ```
/// use tenure::engine::Memory;
/// use tenure::{ErrorKind, Locks};
///
/// # tenure::blocking::block_on(async {
/// let locks = Locks::new(Memory::new());
/// let error = locks.mutex("").lock().await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert!(!error.is_lost() && !error.is_retryable());
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    reason: Option<Reason>,
    message: String,
    key: Option<Key>,
    loss: Option<Loss>,
    /// The number of a ticket that was lost while it waited.
    number: Option<u64>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kind of an [`Error`]: what a program should do.
///
/// ```
/// use tenure::{Error, ErrorKind};
///
/// fn advice(error: &Error) -> &'static str {
///     match error.kind() {
///         ErrorKind::Lost => "stop the work: another client may hold the lock",
///         ErrorKind::Unavailable => "try again later",
///         ErrorKind::Rejected => "call the operator: the store refuses",
///         _ => "correct the program",
///     }
/// }
/// assert_eq!(advice(&Error::unavailable("no answer")), "try again later");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ErrorKind {
    /// Stop: the lock is no longer held. A waiter that gets this never held it.
    Lost,
    /// Try again later: the store did not answer, and it may have acted.
    /// Tenure has already tried again where that can help.
    Unavailable,
    /// Call the operator: the store answered, and refused. Nothing was changed.
    Rejected,
    /// Correct the program: the request makes no sense. Nothing was sent.
    Invalid,
    /// Use another engine: this one cannot do that. Nothing was changed.
    Unsupported,
}

/// Why an operation failed, for programs that must tell cases of one [`ErrorKind`] apart.
///
/// ```
/// use tenure::engine::Memory;
/// use tenure::{Locks, Reason};
///
/// # tenure::blocking::block_on(async {
/// let locks = Locks::new(Memory::new());
/// let _guard = locks.mutex("k").lock().await?;
/// let error = locks.semaphore("k", 3).acquire().await.unwrap_err();
/// assert_eq!(error.reason(), Some(Reason::OtherCapacity));
/// assert_eq!(error.key().map(|key| key.as_str()), Some("k"));
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Reason {
    /// The [`Locks`](crate::Locks) were closed with `close`.
    Closed,
    /// The key is in use with another capacity, such as a mutex's key for a semaphore.
    OtherCapacity,
    /// The line has a ticket with the same id and another owner.
    IdTaken,
    /// The line has [`LINE_TICKETS_MAX`](crate::LINE_TICKETS_MAX) tickets.
    LineFull,
    /// The next number would be above [`NUMBER_MAX`](crate::NUMBER_MAX).
    NumbersUsedUp,
    /// A ticket in the line cannot be read: another program or a newer version of Tenure wrote it.
    UnreadableTicket,
    /// A stored number cannot be read: another program wrote it.
    UnreadableNumber,
    /// A stored value cannot be read: another program or another version of Tenure wrote it.
    UnreadableValue,
    /// The key keeps [`SLOTS_MAX`](crate::SLOTS_MAX) slots already.
    SlotsFull,
    /// The store has other data under a name of Tenure's.
    ForeignData,
    /// The store refuses clients without a login.
    LoginRequired,
    /// The document does not exist.
    DocumentNotFound,
    /// The document has no such part.
    PartNotFound,
    /// Other clients changed the sequence each time this client tried. Nothing was changed.
    /// [`Sequence`](crate::Sequence) tries again by itself.
    Contended,
    /// The store refused to write this one document or record. It may accept others.
    DocumentRefused,
    /// No server was found that takes writes.
    NoPrimary,
}

impl Error {
    /// The lock is no longer held.
    pub fn lost(loss: Loss) -> Self {
        let mut error = Self::new(ErrorKind::Lost, format!("the lock is lost: {loss}"));
        Arc::make_mut(&mut error.0).loss = Some(loss);
        error
    }

    /// A ticket left its line before it was served: its owner never held the lock.
    pub(crate) fn lost_in_line(key: &Key, loss: Loss, number: u64) -> Self {
        let message = format!("the wait for {key:?} is over, and the lock was never held: {loss}");
        let mut error = Self::new(ErrorKind::Lost, message).with_key(key);
        let inner = Arc::make_mut(&mut error.0);
        (inner.loss, inner.number) = (Some(loss), Some(number));
        error
    }

    /// The request is refused because its [`Locks`](crate::Locks) were closed.
    pub(crate) fn closed() -> Self {
        Self::invalid("these `Locks` were closed with `close`: connect again")
            .with_reason(Reason::Closed)
    }

    /// The store did not answer, and it may have acted.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// The store refused, and nothing was changed.
    pub fn rejected(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Rejected, message)
    }

    /// The request makes no sense, and nothing was sent.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// This engine cannot do that.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Sets the error that caused this one.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Arc::make_mut(&mut self.0).source = Some(source.into().into());
        self
    }

    /// Sets the reason.
    #[must_use]
    pub fn with_reason(mut self, reason: Reason) -> Self {
        Arc::make_mut(&mut self.0).reason = Some(reason);
        self
    }

    /// Sets the key that the error is about. The message is not changed.
    #[must_use]
    pub fn with_key(mut self, key: &Key) -> Self {
        Arc::make_mut(&mut self.0).key = Some(key.clone());
        self
    }

    /// Appends to the message.
    #[must_use]
    pub fn with_more(mut self, more: impl fmt::Display) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.message = format!("{}{more}", inner.message);
        self
    }

    /// The kind: what a program should do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Why it happened, where a program may want to tell that apart from other cases of the kind.
    pub fn reason(&self) -> Option<Reason> {
        self.0.reason
    }

    /// The key that the error is about, if the operation got as far as knowing it.
    pub fn key(&self) -> Option<&Key> {
        self.0.key.as_ref()
    }

    /// Why the lock was lost, if the kind is [`Lost`](ErrorKind::Lost).
    pub fn loss(&self) -> Option<Loss> {
        self.0.loss
    }

    /// The number that a ticket had in its line, if it was lost while it waited.
    ///
    /// A ticket in the line with a smaller number shows that a break removed this one. A store that
    /// returned with older data is the exception.
    pub fn number_in_line(&self) -> Option<u64> {
        self.0.number
    }

    /// Whether the lock was lost: the kind is [`Lost`](ErrorKind::Lost).
    pub fn is_lost(&self) -> bool {
        self.0.kind == ErrorKind::Lost
    }

    /// Whether the same call may succeed later: the kind is
    /// [`Unavailable`](ErrorKind::Unavailable). The store may have acted all the same.
    pub fn is_retryable(&self) -> bool {
        self.0.kind == ErrorKind::Unavailable
    }

    /// The same error with [`ErrorKind::Unavailable`], for a failure that may end without the
    /// program's help.
    #[must_use]
    pub fn into_retryable(mut self) -> Self {
        Arc::make_mut(&mut self.0).kind = ErrorKind::Unavailable;
        self
    }

    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            reason: None,
            message: message.into(),
            key: None,
            loss: None,
            number: None,
            source: None,
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)?;
        match &self.0.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}
