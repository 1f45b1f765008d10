//! A sequence: each number is given once, and is larger than all before.

use crate::api::claim::Claim;
use crate::blocking::Blocking;
use crate::{Engine as _, Error, Locks, NUMBER_MAX, Reason, Result};

/// Unique numbers 1, 2, 3, … Made by [`Locks::sequence`].
///
/// **There may be gaps.** A number that was given and not used is gone, and a lost answer skips its
/// numbers. No number is given twice while the store keeps its data. A store that is restored from
/// older data gives the later numbers again.
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let invoices = locks.sequence("invoice");
/// assert_eq!(invoices.next().await?, 1);
/// assert_eq!(invoices.next_block(100).await?, 2..=101);
/// assert_eq!(invoices.last().await?, 101);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a sequence gives nothing until it is asked to"]
pub struct Sequence {
    claim: Claim,
}

impl Locks {
    /// The sequence of this key. It is independent of a lock of the same key.
    pub fn sequence(&self, key: impl AsRef<str>) -> Sequence {
        Sequence { claim: Claim::new(self, key) }
    }
}

/// A range of consecutive numbers.
///
/// ```
/// use tenure::Block;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let block: Block = locks.sequence("invoice").next_block(3).await?;
/// assert_eq!(block.collect::<Vec<u64>>(), [1, 2, 3]);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub type Block = std::ops::RangeInclusive<u64>;

impl Sequence {
    /// The blocking form, for programs without async.
    pub fn blocking(&self) -> Blocking<Self> {
        Blocking::new(self.clone())
    }

    /// Takes the next number.
    ///
    /// # Errors
    ///
    /// Those of [`next_block`](Sequence::next_block).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the number may be skipped.
    pub fn next(&self) -> impl Future<Output = Result<u64>> + Send + use<> {
        let block = self.next_block(1);
        async move { Ok(*block.await?.end()) }
    }

    /// Takes the next `count` numbers in one request. Cancel safety is that of
    /// [`next`](Sequence::next).
    ///
    /// With etcd and ZooKeeper it tries again while other clients take numbers faster.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): the count is zero or above [`NUMBER_MAX`]; the
    /// store's error otherwise.
    pub fn next_block(&self, count: u64) -> impl Future<Output = Result<Block>> + Send + use<> {
        let claim = self.claim.clone();
        async move {
            if count == 0 || count > NUMBER_MAX {
                return Err(Error::invalid(format!(
                    "a block of {count} numbers is not possible: ask for 1 to {NUMBER_MAX}"
                )));
            }
            loop {
                match claim.locks.client.open_engine()?.add(claim.key()?, count, None).await {
                    Err(error) if error.reason() == Some(Reason::Contended) => {}
                    last => {
                        let last = last?.value;
                        return Ok(last - count + 1..=last);
                    }
                }
            }
        }
    }

    /// The last number that was given, or 0.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub fn last(&self) -> impl Future<Output = Result<u64>> + Send + use<> {
        let claim = self.claim.clone();
        async move { Ok(claim.locks.client.open_engine()?.add(claim.key()?, 0, None).await?.value) }
    }
}
