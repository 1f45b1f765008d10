//! The numbers of a semaphore's permits: which holder has which of them, as a text in the store.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use crate::{Backoff, Engine as _, Error, Loss, Permit, Reason, Result, TicketId};

/// Maximum permits of a semaphore whose permits have numbers.
pub const NUMBERED_PERMITS_MAX: u32 = 1_000;

/// The first word of the text, with the version of its format.
pub(crate) const FORMAT: &str = "permits-1";
/// Maximum time of all writes, if other holders prevent each.
const WRITES_FOR: Duration = Duration::from_secs(30);
/// First pause after a write that another holder prevented, and longest pause.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));

impl Permit {
    /// The numbers of the held permits, from 1 to the number of permits of the semaphore. No other
    /// holder has the same number while this one holds. A number is free again when its holder has
    /// left the line, so it can name a port or a test database.
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let databases = locks.semaphore("test databases", 4);
    /// let (one, two) = (databases.acquire().await?, databases.acquire().await?);
    /// assert_eq!((one.numbers().await?, two.numbers().await?), (vec![1], vec![2]));
    /// one.release().await?;
    /// assert_eq!(databases.acquire().await?.numbers().await?, [1]);
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// * [`Lost`](crate::ErrorKind::Lost): the permits are no longer held.
    /// * [`Invalid`](crate::ErrorKind::Invalid): the semaphore has more than
    ///   [`NUMBERED_PERMITS_MAX`](crate::NUMBERED_PERMITS_MAX) permits.
    /// * [`Unsupported`](crate::ErrorKind::Unsupported): the store keeps no values.
    /// * [`Rejected`](crate::ErrorKind::Rejected): the key has slots of [`once`](crate::Once), or a
    ///   text of another program.
    /// * [`Unavailable`](crate::ErrorKind::Unavailable): other holders changed the numbers for 30
    ///   seconds, each time this client wrote.
    pub async fn numbers(&self) -> Result<Vec<u32>> {
        let (share, key) = (self.share(), self.key());
        if share.of() > NUMBERED_PERMITS_MAX {
            return Err(Error::invalid(format!(
                "the permits of {key:?} have no numbers: it has {}, and at most {NUMBERED_PERMITS_MAX} are possible",
                share.of()
            )));
        }
        let taken = self.change_numbers(|taken| match taken.of(self.id()) {
            Some(own) => Some(own),
            None => taken.take(self.id(), share.take(), share.of()),
        });
        taken.await
    }

    /// Gives the numbers back before the permits are released. If it is not called, the next call
    /// of [`numbers`](Permit::numbers) frees the numbers of tickets that have left.
    ///
    /// # Errors
    ///
    /// Those of [`numbers`](Permit::numbers).
    pub async fn return_numbers(&self) -> Result<()> {
        self.change_numbers(|taken| {
            taken.0.retain(|(holder, _)| *holder != self.id());
            Some(Vec::new())
        })
        .await
        .map(drop)
    }

    /// Changes the numbers, and writes them if they have changed. `None` of the closure: there are
    /// too few numbers until another holder has left.
    async fn change_numbers(
        &self,
        mut change: impl FnMut(&mut TakenNumbers) -> Option<Vec<u32>>,
    ) -> Result<Vec<u32>> {
        let (key, runtime) = (self.key(), &self.0.client.runtime);
        let engine = self.0.client.open_engine()?;
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        let until = runtime.now().plus(WRITES_FOR);
        loop {
            let seen = engine.swap(key, "", "").await?;
            // The line is read after the value: a holder whose numbers are in the value had joined
            // before, so it is missing here only if it has left.
            let line = engine.line(key).await?;
            self.check()?;
            let alive: HashSet<TicketId> = line.iter().map(|(ticket, _)| ticket.id).collect();
            if !alive.contains(&self.id()) {
                return Err(Error::lost(Loss::Broken));
            }
            let mut taken = TakenNumbers::parse(&seen).ok_or_else(|| {
                Error::rejected(format!(
                    "the numbers of the permits of {key:?} cannot be read: another version of Tenure or another \
                     use of this key wrote them; use another key"
                ))
                .with_reason(Reason::UnreadableValue)
                .with_key(key)
            })?;
            let before = taken.clone();
            taken.forget_others_than(&alive);
            if let Some(own) = change(&mut taken) {
                let text = if taken.0.is_empty() { String::new() } else { taken.to_text() };
                if taken == before || engine.swap(key, &seen, &text).await? == text {
                    self.check()?;
                    return Ok(own);
                }
            }
            if runtime.now().has_reached(until) {
                return Err(Error::unavailable(format!(
                    "other holders changed the numbers of {key:?} each time this client wrote: try again"
                ))
                .with_reason(Reason::Contended)
                .with_key(key));
            }
            runtime.sleep(backoff.next(runtime.random())).await;
        }
    }
}

/// The numbers that are taken, with their holders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TakenNumbers(Vec<(TicketId, Vec<u32>)>);

impl TakenNumbers {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let Some(head) = lines.next() else { return Some(Self::default()) };
        (head.split(' ').next() == Some(FORMAT)).then_some(())?;
        let holder = |line: &str| {
            let (id, numbers) = line.split_once(' ')?;
            let numbers = numbers.split(' ').map(|number| number.parse().ok());
            Some((id.parse().ok()?, numbers.collect::<Option<_>>()?))
        };
        lines.map(holder).collect::<Option<_>>().map(Self)
    }

    /// The text for the store. No two calls return the same text.
    fn to_text(&self) -> String {
        let mut text = format!("{FORMAT} {}\n", TicketId::fresh());
        for (id, numbers) in &self.0 {
            let _ = write!(text, "{id}"); // a String
            for number in numbers {
                let _ = write!(text, " {number}"); // a String
            }
            text.push('\n');
        }
        text
    }

    fn of(&self, id: TicketId) -> Option<Vec<u32>> {
        self.0.iter().find(|(holder, _)| *holder == id).map(|(_, numbers)| numbers.clone())
    }

    fn forget_others_than(&mut self, alive: &HashSet<TicketId>) {
        self.0.retain(|(holder, _)| alive.contains(holder));
    }

    /// Takes the smallest free numbers; `None` if there are not enough.
    fn take(&mut self, id: TicketId, count: u32, of: u32) -> Option<Vec<u32>> {
        let used: HashSet<u32> = self.0.iter().flat_map(|(_, numbers)| numbers).copied().collect();
        let free = (1..=of).filter(|number| !used.contains(number));
        let own: Vec<u32> = free.take(usize::try_from(count).ok()?).collect();
        (own.len() as u64 == u64::from(count)).then(|| {
            self.0.push((id, own.clone()));
            own
        })
    }
}

/// The longest text fits into a value: each holder has an id, and each number five letters.
const _: () = assert!((NUMBERED_PERMITS_MAX as usize + 1) * (33 + 6) < crate::VALUE_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_free_numbers_are_taken_and_those_of_the_gone_are_free() {
        let [a, b, c] = std::array::from_fn(|_| TicketId::fresh());
        let mut taken = TakenNumbers::default();
        assert_eq!(taken.take(a, 2, 4), Some(vec![1, 2]));
        assert_eq!(taken.take(b, 1, 4), Some(vec![3]));
        assert_eq!(taken.take(c, 2, 4), None, "only one is free");
        assert_eq!(TakenNumbers::parse(&taken.to_text()).as_ref(), Some(&taken));
        taken.forget_others_than(&HashSet::from([b]));
        assert_eq!(taken.take(c, 3, 4), Some(vec![1, 2, 4]));
        assert_eq!((taken.of(b), taken.of(a)), (Some(vec![3]), None));
    }

    #[test]
    fn a_text_of_another_use_is_refused() {
        assert_eq!(TakenNumbers::parse(""), Some(TakenNumbers::default()));
        for wrong in
            ["once-1 x\n", "permits-1 x\nid 1\n", "permits-1 x\n0123456789abcdef0123456789abcdef\n"]
        {
            assert_eq!(TakenNumbers::parse(wrong), None, "{wrong:?}");
        }
    }
}
