//! A `tenure run` inside another one of the same key would wait for itself: it is refused.

use std::env;
use std::fmt::Write as _;

use tenure::inspect::{LineEntry, Share, TicketId, TicketState};
use tenure::{LeaseHandle, Locks};

use super::signals::Signals;
use crate::failure::{Failure, USAGE};
use crate::screen::quoted;

/// The environment variable with the locks of all outer runs: for each its ticket, its token and
/// its key in hexadecimal.
pub(crate) const VARIABLE: &str = "TENURE_HELD";

/// A ticket of an outer run. Its id identifies it: a line may show another number than its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outer {
    id: TicketId,
    token: u64,
}

/// Returns the value of [`VARIABLE`] for a command under this lock and the outer ones.
pub(crate) fn held(guard: &LeaseHandle) -> String {
    let mut held = env::var(VARIABLE).unwrap_or_default();
    if !held.is_empty() {
        held.push(' ');
    }
    let (id, token, key) = (guard.id(), guard.number(), hex(guard.key().as_str()));
    let _ = write!(held, "{id}:{token}:{key}");
    held
}

/// Returns the ticket of the innermost lock in a value of [`held`].
pub(crate) fn innermost(held: &str) -> &str {
    held.rsplit(' ').next().and_then(|last| last.split(':').next()).unwrap_or_default()
}

/// Whether an entry of a process's environment names this ticket. So the process belongs to the
/// command under it.
pub(crate) fn names(entry: &[u8], ticket: &str) -> bool {
    let of_ticket = [ticket.as_bytes(), b":"].concat();
    let value = entry.strip_prefix(VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
    value
        .is_some_and(|held| held.split(|byte| *byte == b' ').any(|one| one.starts_with(&of_ticket)))
}

fn hex(key: &str) -> String {
    key.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Refuses a share that could only be served after an outer run has ended.
pub(crate) fn refuse(
    signals: &mut Signals,
    locks: &Locks,
    key: &str,
    share: Share,
) -> Result<(), Failure> {
    let outer = outer(&env::var(VARIABLE).unwrap_or_default(), key);
    if outer.is_empty() {
        return Ok(());
    }
    let line = match signals.until(locks.line(key), |_| None)? {
        Ok(line) => line?,
        Err(signal) => return Err(Failure::asked(signal)),
    };
    match blocking(&line, &outer, share) {
        None => Ok(()),
        Some(Outer { token, .. }) => {
            let key = quoted(key);
            Err(Failure::new(
                USAGE,
                format!(
                    "{key} is held by the `tenure run` around this one (token {token}): it would wait \
                     for itself; run it under another key, or without a lock of its own"
                ),
            ))
        }
    }
}

/// Returns the outer tickets that hold this key.
fn outer(held: &str, key: &str) -> Vec<Outer> {
    let hex = hex(key);
    let ticket = |entry: &str| {
        let (ticket, of) = entry.rsplit_once(':')?;
        let (id, token) = ticket.split_once(':')?;
        (of == hex).then_some(Outer { id: id.parse().ok()?, token: token.parse().ok()? })
    };
    held.split(' ').filter_map(ticket).collect()
}

/// Returns an outer ticket that excludes this share, or that excludes a waiter ahead of it.
fn blocking(line: &[LineEntry], outer: &[Outer], share: Share) -> Option<Outer> {
    let fits = |one: Share, other: Share| {
        one.of() != other.of() || u64::from(one.take()) + u64::from(other.take()) <= one.of().into()
    };
    let holding = line.iter().filter(|entry| entry.state == TicketState::Holding);
    let known = |entry: &LineEntry| {
        outer.iter().find(|outer| outer.id == entry.id).map(|outer| (entry.share, *outer))
    };
    let waiting = || line.iter().filter(|entry| entry.state == TicketState::Waiting);
    let keeps_out = |(held, _): &(Share, Outer)| {
        !fits(*held, share) || waiting().any(|waiter| !fits(*held, waiter.share))
    };
    holding.filter_map(known).find(keeps_out).map(|(_, outer)| outer)
}

#[cfg(test)]
mod tests {
    use tenure::Key;
    use tenure::inspect::{Place, Ticket};

    use super::*;

    #[test]
    fn held_locks_are_known_by_the_innermost() {
        let [one, two, three] = [7, 9, 11].map(|token| Outer { id: TicketId::fresh(), token });
        let entry = |outer: Outer, key| format!("{}:{}:{}", outer.id, outer.token, hex(key));
        let held = [entry(one, "k"), entry(two, "ü "), entry(three, "k")].join(" ");
        assert_eq!(outer(&held, "k"), [one, three]);
        assert_eq!(outer(&held, "ü "), [two]);
        assert_eq!(outer(&held, "other"), []);
        assert_eq!(outer("", "k"), []);
        let entry = format!("{VARIABLE}={held}").into_bytes();
        assert_eq!(innermost(&held), three.id.to_string());
        assert!([one, two, three].iter().all(|outer| names(&entry, &outer.id.to_string())));
        assert!(!names(&entry, &TicketId::fresh().to_string()) && !names(&entry, ""));
        assert!(!names(held.as_bytes(), &one.id.to_string()), "another variable");
    }

    #[test]
    fn a_ticket_whose_number_is_shown_otherwise_is_known() {
        let own = Outer { id: TicketId::fresh(), token: 7 };
        let mut ticket = Ticket::new(Key::new("k").unwrap(), Share::WHOLE);
        let place = Place {
            number: 8,
            state: TicketState::Holding,
            ahead: 0,
            life: None,
            look: None,
            leaving: false,
        };
        assert_eq!(blocking(&[(ticket.clone(), place).into()], &[own], Share::WHOLE), None);
        ticket.id = own.id;
        assert_eq!(blocking(&[(ticket, place).into()], &[own], Share::WHOLE), Some(own));
    }
}
