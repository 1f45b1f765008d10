//! The slots that a store keeps: shown, or forgotten.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure::SlotRun;
use tenure::blocking::block_on;
use tenure_kit::duration::brief;
use tenure_kit::rfc3339::rfc3339_seconds;

use crate::failure::{Failure, NOTHING, answer, say};
use crate::inspect::json::Object;
use crate::inspect::table::{Column, Table};
use crate::screen::{Screen, quoted};
use crate::store::Address;

const COLUMNS: [Column; 7] = [
    Column::Left("SLOT"),
    Column::Left("STATE"),
    Column::Right("RUNS"),
    Column::Left("AT"),
    Column::Left("OWNER"),
    Column::Right("LEFT"),
    Column::Right("TOKEN"),
];

/// Prints the slots of a key, the oldest run first.
pub(super) fn list(at: &Address, json: bool, key: &str) -> Result<u8, Failure> {
    tenure::Key::new(key)?;
    let nothing = format!("no slot of {} is kept", quoted(key));
    let locks = at.look(0)?;
    let runs = block_on(locks.once(key).slots())?;
    let screen = Screen::of_output();
    if json {
        answer(runs.iter().map(|run| object(key, run)).collect::<String>())?;
    } else if !runs.is_empty() {
        let mut table = Table::new(&COLUMNS);
        for run in &runs {
            table.row(row(run));
        }
        answer(table.render(screen))?;
    } else if screen.is_some() {
        say(&nothing);
    }
    Ok(0)
}

/// Forgets all slots.
pub(super) fn reset_all(at: &Address, key: &str) -> Result<u8, Failure> {
    tenure::Key::new(key)?;
    block_on(at.look(0)?.once(key).reset_all())?;
    Ok(0)
}

/// Forgets a slot.
pub(super) fn reset(at: &Address, key: &str, slot: &str) -> Result<u8, Failure> {
    tenure::Key::new(key)?;
    let once = at.look(NOTHING)?.once(key);
    let kept_none =
        Failure::new(NOTHING, format!("the slot {slot} of {} is not kept", quoted(key)));
    if block_on(once.reset(slot))? { Ok(0) } else { Err(kept_none) }
}

fn row(run: &SlotRun) -> [String; 7] {
    let left = run.kept_until.duration_since(SystemTime::now()).unwrap_or_default();
    [
        run.slot.clone(),
        run.state.label().to_owned(),
        run.attempts.to_string(),
        time(run.at),
        run.owner.to_string(),
        brief(Duration::from_secs(left.as_secs())),
        run.token.to_string(),
    ]
}

fn object(key: &str, run: &SlotRun) -> String {
    Object::new()
        .text("key", key)
        .text("slot", &run.slot)
        .text("state", run.state.label())
        .plain("attempts", run.attempts)
        .text("at", &time(run.at))
        .text("owner", &run.owner)
        .plain("token", run.token)
        .text("kept_until", &time(run.kept_until))
        .line()
}

/// A time in UTC, to the second.
pub(super) fn time(at: SystemTime) -> String {
    rfc3339_seconds(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}
