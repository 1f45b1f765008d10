//! Sequences: a number beside the line, changed only by who knows its version.

use tenure_core::{Error, Key, Result, Tally, refusal};

use crate::contract::{Register, Store};
use crate::pauses::Pauses;
use crate::queue::Queue;

/// So often others may have been quicker, before a count is refused.
const ATTEMPTS_MAX: u32 = 256;

impl<S: Store> Queue<S> {
    pub(crate) async fn next(&self, key: &Key, by: u64, register: &Register) -> Result<Tally> {
        let mut pauses = Pauses::on(&*self.parts.host);
        let mut now = self.parts.store.read(register).await?;
        for _ in 0..ATTEMPTS_MAX {
            let value = refusal::checked_sum(key, now.value, by)?;
            if by == 0 {
                return Ok(tally(value));
            }
            let (written, done) = self.parts.store.write(register, value, now.version).await?;
            if done {
                return Ok(tally(value));
            }
            now = written;
            pauses.rest().await;
        }
        Err(Error::rejected(format!(
            "the sequence of {key:?} changed {ATTEMPTS_MAX} times while a number was taken from it: ask again"
        )))
    }
}

fn tally(value: u64) -> Tally {
    Tally { value, allowed: true, resets_in: None }
}
