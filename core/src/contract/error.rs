//! An error says what to do now: its kind is the answer, its sentence the reason.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::{Key, Loss};

/// What every verb of Tenure answers with.
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

/// Something went wrong, and [`kind`](Error::kind) says what a program should do about it.
///
/// A lock that is taken is not an error: `try_lock` answers `None`.
///
/// ```
/// use tenure::{ErrorKind, Locks, engine::Memory};
///
/// # tenure::blocking::block_on(async {
/// let locks = Locks::new(Memory::new());
/// let error = locks.mutex("").lock().await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert_eq!(error.to_string(), "a key must not be empty: name what is locked");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    sentence: String,
    loss: Option<Loss>,
    /// The number of a ticket that was lost while it waited.
    number: Option<u64>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What to do about an [`Error`].
///
/// ```
/// use tenure::{Error, ErrorKind};
///
/// fn what_now(error: &Error) -> &'static str {
///     match error.kind() {
///         ErrorKind::Lost => "stop the work: somebody else may be at it",
///         ErrorKind::Unavailable => "try again later",
///         ErrorKind::Rejected => "call the operator: the store refuses",
///         _ => "mend the program",
///     }
/// }
/// assert_eq!(what_now(&Error::unavailable("no answer")), "try again later");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ErrorKind {
    /// Stop: the lock is no longer held; or, to somebody who waited for it, it will not be.
    Lost,
    /// Try again later: the store did not answer, and whether it acted is unknown.
    /// Tenure has already tried again where that can help.
    Unavailable,
    /// Mend the deployment: the store answered, and refused. Nothing was changed.
    Rejected,
    /// Mend the code: the request makes no sense. Nothing was sent.
    Invalid,
    /// Take another engine: this one cannot do that. Nothing was changed.
    Unsupported,
}

impl Error {
    /// The lock is no longer held, for this reason.
    pub fn lost(loss: Loss) -> Self {
        let mut error = Self::new(ErrorKind::Lost, format!("the lock is lost: {loss}"));
        Arc::make_mut(&mut error.0).loss = Some(loss);
        error
    }

    /// A ticket is out of its line before it was served: its owner never held the lock.
    pub(crate) fn lost_in_line(key: &Key, loss: Loss, number: u64) -> Self {
        let sentence = format!("the wait for {key:?} is over, and the lock was never held: {loss}");
        let mut error = Self::new(ErrorKind::Lost, sentence);
        let inner = Arc::make_mut(&mut error.0);
        (inner.loss, inner.number) = (Some(loss), Some(number));
        error
    }

    /// The lock is refused because its [`Locks`](crate::Locks) were closed.
    pub(crate) fn closed(key: &Key) -> Self {
        Self::invalid(format!(
            "{key:?} cannot be locked: its `Locks` were closed with `close`: connect again"
        ))
    }

    /// The store did not answer; whether it acted is unknown.
    pub fn unavailable(sentence: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, sentence)
    }

    /// The store refused, and nothing was changed.
    pub fn rejected(sentence: impl Into<String>) -> Self {
        Self::new(ErrorKind::Rejected, sentence)
    }

    /// The request makes no sense, and nothing was sent.
    pub fn invalid(sentence: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, sentence)
    }

    /// This engine cannot do that.
    pub fn unsupported(sentence: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, sentence)
    }

    /// The same error, with what caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Arc::make_mut(&mut self.0).source = Some(source.into().into());
        self
    }

    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Why the lock was lost, if that is what happened.
    pub fn loss(&self) -> Option<Loss> {
        self.0.loss
    }

    /// The number that a ticket had in its line, if it was lost while it waited.
    ///
    /// Numbers grow even where a store loses its data. So a ticket in the line with a smaller number
    /// says that this one was taken out by a break, and not by such a loss.
    pub fn number_in_line(&self) -> Option<u64> {
        self.0.number
    }

    /// Whether the store may have acted all the same.
    pub fn is_retryable(&self) -> bool {
        self.0.kind == ErrorKind::Unavailable
    }

    fn new(kind: ErrorKind, sentence: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            sentence: sentence.into(),
            loss: None,
            number: None,
            source: None,
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.sentence)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.sentence)?;
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
