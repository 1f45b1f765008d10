//! `tenure show`: the claims of this user.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tenure_kit::duration::brief;

use super::directory::ClaimDirectory;
use super::question::{ANSWER_MAX, Question, Standing, Verb};
use super::{ClaimRecord, json_line, reference, use_claim};
use crate::failure::{CLAIM_LOST, Failure, answer};
use crate::inspect::table::{Column, Table};
use crate::screen::Screen;

/// Shows your claims on this machine, or one claim.
///
/// With --claim or TENURE_CLAIM it shows that claim, and exits with 76 if that is lost, as `tenure
/// renew` does, but without asking the store. LEFT is the time until the claim ends without a
/// renewal: by the claim-holder, or by `tenure renew` for a claim with --ttl. PARENT is the process
/// with which it ends. A lost claim is shown until `tenure drop`, or for a day.
///
/// With --json, a claim is an object with the fields of `tenure take`, and `state` (held, lost,
/// silent if its claim-holder does not answer, elsewhere if it is on another machine), `reason` of
/// a loss, `since_ms`, `expires_in_ms` and `while_pid`.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown, reason = "it is a page for terminals")]
#[command(after_help = "Example:\n  tenure show")]
pub(crate) struct Args {
    /// The claim: its id, or a file with it [default: $TENURE_CLAIM, or all].
    #[arg(long, value_name = "FILE_OR_ID")]
    claim: Option<String>,
}

const COLUMNS: [Column; 8] = [
    Column::Left("KEYS"),
    Column::Left("STATE"),
    Column::Right("AGE"),
    Column::Right("LEFT"),
    Column::Right("PARENT"),
    Column::Right("PID"),
    Column::Left("CLAIM"),
    Column::Left("REASON"),
];

/// A claim and its state.
struct Shown {
    record: ClaimRecord,
    standing: Standing,
}

/// The fields of `--json`.
#[derive(serde::Serialize)]
struct ShownFields<'a> {
    #[serde(flatten)]
    claim: &'a super::TakenClaim,
    state: &'static str,
    reason: Option<&'a str>,
    since_ms: u128,
    expires_in_ms: Option<u128>,
    while_pid: Option<i32>,
}

pub(crate) fn show(json: bool, args: &Args) -> Result<u8, Failure> {
    let one = reference::find(args.claim.as_deref())?;
    let nothing = || match &one {
        Some(id) => Failure::new(
            CLAIM_LOST,
            format!("the claim {id} is lost: no process holds it any more"),
        ),
        None => Failure::nothing("you have no claim on this machine"),
    };
    let directory = ClaimDirectory::enter()?.ok_or_else(nothing)?;
    let ids = one.clone().map_or_else(|| directory.ids(), |id| Ok(vec![id]))?;
    let claims = look(&directory, ids);
    if claims.is_empty() {
        return Err(nothing());
    }
    let text = if json { claims.iter().map(Shown::object).collect() } else { table(&claims) };
    answer(text)?;
    match (one, claims.into_iter().next()) {
        (Some(id), Some(claim)) => {
            use_claim::check(&id, Some(&claim.record), claim.standing).map(|()| 0)
        }
        _ => Ok(0),
    }
}

/// Asks all claim holders at once, so that stopped ones cost the time limit only once.
fn look(directory: &ClaimDirectory, ids: Vec<String>) -> Vec<Shown> {
    let ask = |id: String| Some((directory.record(&id)?, Question::ask(&id, Verb::Show)));
    let asked: Vec<_> = ids.into_iter().filter_map(ask).collect();
    let deadline = Instant::now() + ANSWER_MAX;
    let mut claims: Vec<_> = asked
        .into_iter()
        .map(|(record, question)| Shown { record, standing: question.answer(directory, deadline) })
        .collect();
    claims.sort_by_key(|claim| claim.record.since_ms);
    claims
}

impl Shown {
    fn state(&self) -> &'static str {
        match self.standing {
            Standing::Held { .. } => "held",
            Standing::Lost(_) => "lost",
            Standing::Silent => "silent",
            Standing::Elsewhere(_) => "elsewhere",
        }
    }

    fn reason(&self) -> Option<&str> {
        match &self.standing {
            Standing::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    fn expires_in(&self) -> Option<Duration> {
        match self.standing {
            Standing::Held { expires_in, .. } => expires_in,
            _ => None,
        }
    }

    /// The time since the claim began, by this machine's clock.
    fn age(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_millis(self.record.since_ms))
    }

    fn object(&self) -> String {
        json_line(&ShownFields {
            claim: &self.record.claim,
            state: self.state(),
            reason: self.reason(),
            since_ms: self.age().as_millis(),
            expires_in_ms: self.expires_in().map(|left| left.as_millis()),
            while_pid: self.record.while_pid,
        })
    }
}

fn table(claims: &[Shown]) -> String {
    let mut table = Table::new(&COLUMNS);
    for shown in claims {
        let claim = &shown.record.claim;
        table.row([
            claim.known_by().collect::<Vec<_>>().join(" "),
            shown.state().into(),
            brief(shown.age()),
            shown.expires_in().map_or(String::new(), brief),
            shown.record.while_pid.map_or(String::new(), |pid| pid.to_string()),
            claim.pid.to_string(),
            claim.claim.clone(),
            shown.reason().unwrap_or_default().to_owned(),
        ]);
    }
    table.render(Screen::of_output())
}
