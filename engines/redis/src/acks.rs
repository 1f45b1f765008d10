//! Acknowledgements: a ticket counts once enough replicas have it. One request on a connection
//! serves all callers that wait.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tenure_core::{Error, Result};
use tokio::sync::Mutex;

use crate::settings::Settings;

/// Requests acknowledgements one at a time: the answer has all writes before the request.
#[derive(Default)]
pub(crate) struct Acks {
    written: AtomicU64,
    asked: Mutex<LastWait>,
}

#[derive(Default)]
struct LastWait {
    /// The answer is for all writes up to this.
    written: u64,
    replicas: u64,
}

impl Acks {
    /// Returns the count of replicas that have the writes on this connection before this call.
    pub(crate) async fn count(&self, ask: impl Future<Output = Result<u64>>) -> Result<u64> {
        let own = self.written.fetch_add(1, Ordering::AcqRel) + 1;
        let mut asked = self.asked.lock().await;
        if asked.written >= own {
            return Ok(asked.replicas);
        }
        let written = self.written.load(Ordering::Acquire);
        let replicas = ask.await?;
        *asked = LastWait { written, replicas };
        Ok(replicas)
    }
}

/// Returns the time limit of acknowledgements. The connection carries nothing else meanwhile.
fn patience(settings: &Settings) -> Duration {
    settings.timeout / 4
}

/// Returns the request for acknowledgements.
pub(crate) fn question(settings: &Settings) -> Cmd {
    let mut wait = cmd("WAIT");
    wait.arg(settings.acks).arg(patience(settings).as_millis().max(1).to_string());
    wait
}

/// Returns the count of replicas in the answer.
pub(crate) fn counted(answer: &Value) -> Option<u64> {
    match answer {
        Value::Int(count) => u64::try_from(*count).ok(),
        _ => None,
    }
}

/// Returns an error unless as many replicas have it as the URL asks for.
pub(crate) fn enough(settings: &Settings, count: u64) -> Result<()> {
    if count >= settings.acks.into() {
        return Ok(());
    }
    Err(Error::unavailable(format!(
        "only {count} of the {} required replicas of {} confirmed the ticket within {:?}",
        settings.acks,
        settings.name,
        patience(settings)
    )))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn one_question_serves_all_who_wait() {
        let (acks, questions) = (Acks::default(), AtomicU32::new(0));
        let ask = || async {
            questions.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(2)
        };
        let counts = join_all((0..100).map(|_| acks.count(ask()))).await;
        assert!(counts.into_iter().all(|count| count.unwrap() == 2));
        assert_eq!(questions.load(Ordering::Relaxed), 2, "the first, and one for all the others");
    }
}
