//! Acknowledgements: a ticket counts once enough replicas have it.

use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tenure_core::{Error, Result};

use crate::settings::Settings;

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
