//! Checks of the lines: those that cannot be read, and tickets that live on.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tenure::Locks;
use tenure::inspect::{LineEntry, TicketState, known_keys};
use tenure_kit::duration::brief;

use super::finding::{Finding, Verdict};
use crate::claims::LEAVE_MAX;
use crate::failure::{Failure, REFUSED};
use crate::inspect::keys::{LINES_MAX, READS_MAX};
use crate::inspect::line::is_stopped;
use crate::inspect::short_id::short;
use crate::owner::OwnerParts;
use crate::screen::{printable, quoted};
use crate::store::{Address, shell_word};

/// A ticket with less than this part of its ttl has missed a renewal: the library renews each
/// before two fifths of its ttl are over.
const LATE_PART: u32 = 3;
/// Maximum number of findings of one kind that are listed.
const LISTED_MAX: usize = 20;

/// The first look at the lines.
pub(super) struct Scan {
    findings: Vec<Finding>,
    /// Tickets that a second look confirms.
    suspects: Vec<LineEntry>,
}

impl Scan {
    pub(super) async fn begin(locks: &Locks, prefix: &str) -> Result<Self, Failure> {
        let (keys, trouble) = known_keys(locks.keys(prefix).await)?;
        let (mut unreadable, mut suspects) = (Vec::new(), Vec::new());
        let read = keys.len().min(LINES_MAX);
        let reads = keys[..read].iter().map(async |key| (key, locks.line(key.as_str()).await));
        let mut lines = stream::iter(reads).buffered(READS_MAX);
        while let Some((key, line)) = lines.next().await {
            match line.map_err(Failure::from) {
                Ok(line) => suspects.extend(line.into_iter().filter(is_suspect)),
                Err(failure) if failure.code() == REFUSED => unreadable.push(Finding::new(
                    "line",
                    key.as_str(),
                    Verdict::Warning,
                    failure.sentence(),
                )),
                Err(failure) => return Err(failure),
            }
        }
        let text = match keys.len() - read {
            0 if read == 0 && trouble.is_some() => "no line is known".to_owned(),
            0 if read == 0 => {
                let begin = if prefix.is_empty() { "" } else { " with this prefix" };
                format!("no key{begin} has a holder or a waiter")
            }
            0 => format!("{} of {read} lines can be read", read - unreadable.len()),
            rest => format!(
                "{} of {read} lines can be read; {rest} more were not looked at: name a longer prefix",
                read - unreadable.len()
            ),
        };
        let verdict = if read < keys.len() { Verdict::Note } else { Verdict::Ok };
        let mut findings = vec![Finding::new("line", "lines", verdict, text)];
        findings.extend(trouble.map(|error| {
            Finding::new("line", "unknown lines", Verdict::Warning, error.to_string())
        }));
        findings.extend(listed(unreadable, "line", "lines cannot be read"));
        Ok(Self { findings, suspects })
    }

    /// Looks at the tickets again, and reports those that still live on.
    pub(super) async fn end(self, locks: &Locks, at: &Address) -> Result<Vec<Finding>, Failure> {
        let Self { mut findings, suspects } = self;
        let mut found = Vec::new();
        for before in suspects {
            let line = match locks.line(before.key.as_str()).await.map_err(Failure::from) {
                Err(failure) if failure.code() == REFUSED => continue,
                line => line?,
            };
            let now = line.iter().find(|entry| entry.id == before.id);
            found.extend(now.and_then(|now| lives_on(at, &before, now)));
        }
        findings.extend(listed(found, "ticket", "tickets live on"));
        Ok(findings)
    }
}

/// Whether a ticket was asked to leave, has missed its renewals, or is one of a stopped process.
fn is_suspect(entry: &LineEntry) -> bool {
    entry.leaving || is_late(entry) || is_stopped(entry)
}

fn is_late(entry: &LineEntry) -> bool {
    entry.life.is_some_and(|life| life < entry.ttl / LATE_PART)
}

/// Reports a ticket that was a suspect and still is one, without a renewal in between.
fn lives_on(at: &Address, before: &LineEntry, now: &LineEntry) -> Option<Finding> {
    let (owner, id) = (printable(&now.owner), short(now.id));
    let key = quoted(now.key.as_str());
    let left = now.life.map(|life| brief(life + Duration::from_secs(1)));
    let does = match now.state {
        TicketState::Holding => "holds",
        TicketState::Waiting => "waits for",
    };
    let (text, cure) = if is_stopped(now) {
        let text = format!("the process of {owner} is stopped: it {does} {key} until it goes on");
        (text, OwnerParts::parse(&now.owner).map(|parts| format!("kill -CONT {}", parts.pid)))
    } else if now.leaving {
        let until = match left {
            _ if OwnerParts::is_claim(&now.owner) => format!(
                "until a command of its claim reports the loss, for {} at most",
                brief(LEAVE_MAX)
            ),
            Some(left) => format!("for {left} at most"),
            None => "until its work or its process has ended".to_owned(),
        };
        let text = format!("{owner} was asked to leave {key}, and holds it {until}");
        let key = shell_word(now.key.as_str());
        (text, Some(at.command(&format!("break --ticket {id} --wait -- {key}"))))
    } else if is_late(now) && now.life <= before.life {
        let left = left.unwrap_or_default();
        let text = format!(
            "{owner} {does} {key} and does not renew its ticket, which ends in {left}: it is dead, paused \
             or cut off, or renews by itself"
        );
        (text, None)
    } else {
        return None;
    };
    Some(Finding::new("ticket", id, Verdict::Warning, text).with_cure(cure))
}

/// Shortens a list of findings.
fn listed(mut findings: Vec<Finding>, check: &'static str, what: &str) -> Vec<Finding> {
    let more = findings.len().saturating_sub(LISTED_MAX);
    findings.truncate(LISTED_MAX);
    if more > 0 {
        let text = format!("{more} more {what}");
        findings.push(Finding::new(check, check, Verdict::Warning, text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use tenure::Key;
    use tenure::inspect::{Place, Share, Ticket};

    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn at() -> Address {
        Address { on: Some("file:/s".into()), quiet: false, make: false, program: None }
    }

    fn entry(life_ms: Option<u64>, leaving: bool) -> LineEntry {
        let ticket = Ticket::new(Key::new("the k").unwrap(), Share::WHOLE);
        let ticket = ticket.with_owner("worker-7").unwrap();
        let life = life_ms.map(Duration::from_millis);
        let state = TicketState::Holding;
        let place = Place { number: 1, state, ahead: 0, life, look: None, leaving };
        let mut entry = LineEntry::from((ticket, place));
        entry.ttl = TTL;
        entry
    }

    #[test]
    fn a_ticket_lives_on_if_it_was_asked_to_leave_or_misses_its_renewals() {
        let at = at();
        let lives_on = |before, now| lives_on(&at, &before, &now).map(|finding| finding.text);
        let is_told = lives_on(entry(Some(9_000), true), entry(Some(7_000), true));
        assert_eq!(
            is_told.as_deref(),
            Some("worker-7 was asked to leave `the k`, and holds it for 8s at most")
        );
        let is_late = lives_on(entry(Some(9_900), false), entry(Some(7_900), false));
        assert!(is_late.is_some_and(|text| text.contains("does not renew its ticket")));
        assert_eq!(lives_on(entry(Some(900), false), entry(Some(29_000), false)), None);
        assert_eq!(lives_on(entry(Some(900), false), entry(Some(1_900), false)), None);
        assert!(is_suspect(&entry(Some(9_900), false)) && !is_suspect(&entry(Some(10_100), false)));
        assert!(is_suspect(&entry(None, true)) && !is_suspect(&entry(None, false)));
    }

    #[test]
    fn a_command_of_a_cure_has_its_key_as_one_word() {
        let cure = lives_on(&at(), &entry(None, true), &entry(None, true))
            .and_then(|one| one.cure)
            .unwrap();
        assert!(cure.starts_with("tenure --on file:/s break --ticket "), "{cure}");
        assert!(cure.ends_with(" --wait -- 'the k'"), "{cure}");
    }
}
