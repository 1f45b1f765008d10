//! `tenure renew` and `tenure drop`: a claim goes on, or ends.

use std::time::Instant;

use tenure_kit::duration::brief;

use super::directory::ClaimDirectory;
use super::question::{ANSWER_MAX, Question, Standing, Verb};
use super::{ClaimRecord, reference};
use crate::failure::{CLAIM_LOST, Failure, REFUSED, UNREACHABLE, say};

/// Renews a claim, and reports whether it is held.
///
/// Exits with 0 if the claim is held, and with 76 if it is lost. A claim with --ttl starts its time
/// again. `tenure renew` asks the store, so it reports a break. If the store does not answer, the
/// claim counts as held until its lease ends, and a warning says so. If the claim-holder does not
/// answer, because it is stopped, tenure exits with 69.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown, reason = "it is a page for terminals")]
#[command(after_help = "Example:\n  tenure renew && ./publish")]
pub(crate) struct Renew {
    /// The claim: its id, or a file with it [default: $TENURE_CLAIM].
    #[arg(long, value_name = "FILE_OR_ID")]
    claim: Option<String>,
}

/// Ends a claim: releases all of its locks.
///
/// Prints nothing. Exits with 76 if the claim is lost or already dropped.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown, reason = "it is a page for terminals")]
#[command(after_help = "Example:\n  tenure drop --claim claim.json")]
pub(crate) struct Drop {
    /// The claim: its id, or a file with it [default: $TENURE_CLAIM].
    #[arg(long, value_name = "FILE_OR_ID")]
    claim: Option<String>,
}

pub(crate) fn renew(quiet: bool, args: &Renew) -> Result<u8, Failure> {
    use_claim(args.claim.as_deref(), Verb::Renew, quiet)
}

pub(crate) fn drop_claim(quiet: bool, args: &Drop) -> Result<u8, Failure> {
    use_claim(args.claim.as_deref(), Verb::Drop, quiet)
}

fn use_claim(claim: Option<&str>, verb: Verb, quiet: bool) -> Result<u8, Failure> {
    let id = &reference::need(claim)?;
    let Some(directory) = ClaimDirectory::enter()? else {
        return Err(lost(id, None, "you have taken no claim on this machine"));
    };
    let record = directory.record(id);
    let question = Question::ask(id, verb);
    let standing = question.answer(&directory, Instant::now() + ANSWER_MAX);
    if let Standing::Held { warning: Some(warning), expires_in } = &standing {
        let held = match (verb, expires_in) {
            (Verb::Drop, _) => "its locks are free once the store has removed them".into(),
            (_, Some(left)) => format!("it is held for {} without an answer", brief(*left)),
            (_, None) => "it is held".to_owned(),
        };
        if !quiet {
            say(&format!("{}: {warning}; {held}", named(id, record.as_ref())));
        }
    }
    if verb == Verb::Drop && matches!(standing, Standing::Lost(_)) {
        // The loss is reported now, so its record is of no use any more.
        directory.forget(id);
    }
    check(id, record.as_ref(), standing).map(|()| 0)
}

/// Returns an error if the claim is not held, or if its state is unknown.
pub(super) fn check(
    id: &str,
    record: Option<&ClaimRecord>,
    standing: Standing,
) -> Result<(), Failure> {
    let name = named(id, record);
    match standing {
        Standing::Held { .. } => Ok(()),
        Standing::Lost(reason) => Err(lost(id, record, &reason)),
        Standing::Silent => {
            let holder = record.map_or(String::new(), |record| format!(", {},", record.claim.pid));
            Err(Failure::new(
                UNREACHABLE,
                format!(
                    "{name}: the process that holds it{holder} does not answer: it is stopped or overloaded; \
                     continue it, or kill it to give the claim up"
                ),
            ))
        }
        Standing::Elsewhere(machine) => {
            let sentence = format!("{name} is held on the machine {machine}: use it there");
            Err(Failure::new(REFUSED, sentence))
        }
    }
}

fn lost(id: &str, record: Option<&ClaimRecord>, reason: &str) -> Failure {
    Failure::new(CLAIM_LOST, format!("{} is lost: {reason}", named(id, record)))
}

fn named(id: &str, record: Option<&ClaimRecord>) -> String {
    record.map_or_else(|| format!("the claim {id}"), |record| record.claim.named())
}
