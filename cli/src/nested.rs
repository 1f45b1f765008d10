//! A `tenure run` inside another one of the same key would wait for itself: it is refused at once.

use std::env;
use std::fmt::Write as _;

use tenure::{Locks, Place, Share, Standing, Ticket};

use crate::failure::{Failure, USAGE};
use crate::screen::quoted;
use crate::signals::Signals;

/// What all the runs around this one hold: a token and a key in hexadecimal for each.
pub(crate) const VARIABLE: &str = "TENURE_HELD";

/// What a command that runs under this lock, and under those around it, finds in its environment.
pub(crate) fn held(key: &str, token: u64) -> String {
    let mut held = env::var(VARIABLE).unwrap_or_default();
    if !held.is_empty() {
        held.push(' ');
    }
    let _infallible = write!(held, "{token}:{}", hex(key));
    held
}

fn hex(key: &str) -> String {
    key.bytes().fold(String::new(), |mut hex, byte| {
        let _infallible = write!(hex, "{byte:02x}");
        hex
    })
}

/// Refuses what could only be had once a run around this one has ended.
pub(crate) fn refuse(
    signals: &mut Signals,
    locks: &Locks,
    key: &str,
    share: Share,
) -> Result<(), Failure> {
    let tokens = tokens(&env::var(VARIABLE).unwrap_or_default(), key);
    if tokens.is_empty() {
        return Ok(());
    }
    let line = match signals.until(locks.line(key), |_| None)? {
        Ok(line) => line?,
        Err(signal) => return Err(Failure::asked(signal)),
    };
    match blocking(&line, &tokens, share) {
        None => Ok(()),
        Some(token) => {
            let key = quoted(key);
            Err(Failure::new(
                USAGE,
                format!(
                    "{key} is held by the `tenure run` around this one (token {token}): it would wait for itself; run it under another key, or without a lock of its own"
                ),
            ))
        }
    }
}

/// The tokens under which a key is held.
fn tokens(held: &str, key: &str) -> Vec<u64> {
    let hex = hex(key);
    let entries = held.split(' ').filter_map(|entry| entry.split_once(':'));
    entries.filter(|(_, of)| *of == hex).filter_map(|(token, _)| token.parse().ok()).collect()
}

/// The token of an outer ticket that keeps out such a share, or somebody who would be ahead of it.
fn blocking(line: &[(Ticket, Place)], tokens: &[u64], share: Share) -> Option<u64> {
    let fits = |one: Share, other: Share| {
        one.of() != other.of() || u64::from(one.take()) + u64::from(other.take()) <= one.of().into()
    };
    let outer = line
        .iter()
        .filter(|(_, place)| place.standing == Standing::Holding && tokens.contains(&place.number));
    let waiting = || line.iter().filter(|(_, place)| place.standing == Standing::Waiting);
    let keeps_out = |(outer, _): &&(Ticket, Place)| {
        !fits(outer.share, share) || waiting().any(|(ticket, _)| !fits(outer.share, ticket.share))
    };
    outer.into_iter().find(keeps_out).map(|(_, place)| place.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_known_by_the_innermost() {
        let held = "7:6b 9:c3bc20 11:6b";
        assert_eq!(tokens(held, "k"), [7, 11]);
        assert_eq!(tokens(held, "ü "), [9]);
        assert_eq!(tokens(held, "other"), []);
        assert_eq!(tokens("", "k"), []);
    }
}
