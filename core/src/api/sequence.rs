//! A sequence: every number once, and each above the last.

use crate::api::claim::Claim;
use crate::blocking::Blocking;
use crate::{Engine as _, Error, Locks, NUMBER_MAX, Reason, Result};

/// Numbers 1, 2, 3, … that nobody else gets. Made by [`Locks::sequence`].
///
/// **Not promised**: that there are no gaps. A number that was given and not used is gone, and where an
/// answer was lost the next one may skip some. None is given twice, as long as the store keeps its data: a store
/// that comes back with older data gives the numbers since then again.
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
    /// The sequence of this name. It has nothing to do with a lock of the same name.
    pub fn sequence(&self, key: impl AsRef<str>) -> Sequence {
        Sequence { claim: Claim::new(self, key) }
    }
}

/// Numbers that follow one another.
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
    /// The same for programs without async.
    pub fn blocking(&self) -> Blocking<Self> {
        Blocking::new(self.clone())
    }

    /// The next number.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the number may be taken all the same. Nobody gets it then.
    pub fn next(&self) -> impl Future<Output = Result<u64>> + Send + use<> {
        let block = self.next_block(1);
        async move { Ok(*block.await?.end()) }
    }

    /// The next `count` numbers, in one request. Cancelled like [`next`](Sequence::next).
    ///
    /// On etcd and ZooKeeper it waits while other clients take numbers more quickly.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for a count that no block can have; the store's error otherwise.
    pub fn next_block(&self, count: u64) -> impl Future<Output = Result<Block>> + Send + use<> {
        let claim = self.claim.clone();
        async move {
            if count == 0 || count > NUMBER_MAX {
                return Err(Error::invalid(format!(
                    "a block of {count} numbers cannot be given: ask for 1 to {NUMBER_MAX}"
                )));
            }
            loop {
                match claim.locks.inner.engine.add(claim.key()?, count, None).await {
                    Err(error) if error.reason() == Some(Reason::Contended) => {}
                    last => {
                        let last = last?.value;
                        return Ok(last - count + 1..=last);
                    }
                }
            }
        }
    }

    /// The last number that was given; 0 if none ever was.
    pub fn last(&self) -> impl Future<Output = Result<u64>> + Send + use<> {
        let claim = self.claim.clone();
        async move { Ok(claim.locks.inner.engine.add(claim.key()?, 0, None).await?.value) }
    }
}
