//! The slots of a key and the last run of each, as a text in the store. Pure: the time is an
//! argument.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::contract::labels::OWNER_BYTES_MAX;
use crate::{Error, Key, Owner, Reason, Result, TicketId, Token};

/// Maximum length of a slot's name, in bytes of UTF-8.
pub const SLOT_BYTES_MAX: usize = 128;
/// Maximum number of slots that are kept for a key.
pub const SLOTS_MAX: usize = 512;

/// The first word of the text, with the version of its format.
const FORMAT: &str = "once-1";

/// The last run of a slot.
///
/// ```
/// use tenure::{SlotRun, SlotState};
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let nightly = locks.once("nightly").slot("2026-11-28");
/// nightly.run(|_, _| async { Ok::<_, std::io::Error>(()) }).await?;
/// let run: SlotRun = nightly.slots().await?.remove(0);
/// assert_eq!((&*run.slot, run.state, run.attempts), ("2026-11-28", SlotState::Succeeded, 1));
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotRun {
    /// The name of the slot.
    pub slot: String,
    /// How far the run has come.
    pub state: SlotState,
    /// Number of runs of this slot that have begun.
    pub attempts: u32,
    /// When the run began or ended, by the clock of the machine that ran it.
    pub at: SystemTime,
    /// When the slot is forgotten, by the clock of the machine that ran it.
    pub kept_until: SystemTime,
    /// The fencing token of the run.
    pub token: Token,
    /// The owner of the lock under which it ran.
    pub owner: Owner,
}

/// How far the last run of a slot has come.
///
/// ```
/// use tenure::SlotState;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let nightly = locks.once("nightly").slot("2026-11-28");
/// nightly.run(|_, _| async { Err::<(), _>("the disk is full") }).await?;
/// assert_eq!(nightly.slots().await?[0].state, SlotState::Failed);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotState {
    /// The run has begun. It still runs, or it was killed, or it lost its lock.
    Begun,
    /// The run has failed.
    Failed,
    /// The run has succeeded. The slot does not run again.
    Succeeded,
}

impl SlotState {
    /// The word for programs: `begun`, `failed` or `succeeded`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Failed => "failed",
            Self::Succeeded => "succeeded",
        }
    }
}

/// A run that begins.
#[derive(Clone, Debug)]
pub(crate) struct Beginning<'a> {
    pub(crate) slot: &'a str,
    pub(crate) token: Token,
    pub(crate) owner: &'a Owner,
    pub(crate) now_ms: u64,
    pub(crate) keep: Duration,
    /// Whether a full history drops its oldest slot. True for schedules, which never repeat one.
    pub(crate) is_scheduled: bool,
}

/// The slots of a key, the oldest run first.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The token of the last holder that began a run.
    pub(crate) token: u64,
    pub(crate) runs: Vec<SlotRun>,
}

impl History {
    /// Reads the text of [`to_text`](Self::to_text). The empty text has no slots.
    pub(crate) fn parse(key: &Key, text: &str) -> Result<Self> {
        Self::parsed(text).ok_or_else(|| {
            Error::rejected(format!(
                "the slots of {key:?} cannot be read: another version of Tenure or another program wrote them; \
                 to forget all of them, reset the key"
            ))
            .with_reason(Reason::UnreadableValue)
            .with_key(key)
        })
    }

    fn parsed(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let Some(head) = lines.next() else { return Some(Self::default()) };
        let mut words = head.split('\t');
        (words.next()? == FORMAT).then_some(())?;
        let _unique = words.next()?;
        let token = words.next()?.parse().ok()?;
        let runs = lines.map(parsed_run).collect::<Option<_>>()?;
        Some(Self { token, runs })
    }

    /// The text for the store. No two calls return the same text.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{FORMAT}\t{}\t{}\n", TicketId::fresh(), self.token);
        for run in &self.runs {
            let (at, until) = (millis(run.at), millis(run.kept_until));
            let SlotRun { slot, state, attempts, token, owner, .. } = run;
            let state = state.label();
            let _ = writeln!(text, "{slot}\t{state}\t{attempts}\t{at}\t{until}\t{token}\t{owner}"); // a String
        }
        text
    }

    /// The last run of a slot.
    pub(crate) fn find(&self, slot: &str) -> Option<&SlotRun> {
        self.runs.iter().find(|run| run.slot == slot)
    }

    /// Forgets the slots whose time is over. The last run stays: its slot may last for longer than
    /// it is kept.
    pub(crate) fn forget_old(&mut self, now_ms: u64) {
        let last = self.runs.pop();
        self.runs.retain(|run| millis(run.kept_until) > now_ms);
        self.runs.extend(last);
    }

    /// Adds a run that begins.
    ///
    /// # Errors
    ///
    /// [`SLOTS_MAX`] other slots are kept, and none of them may be forgotten.
    pub(crate) fn begin(&mut self, key: &Key, run: &Beginning<'_>) -> Result<()> {
        self.forget_old(run.now_ms);
        let attempts = self.find(run.slot).map_or(0, |last| last.attempts).saturating_add(1);
        self.runs.retain(|other| other.slot != run.slot);
        if self.runs.len() >= SLOTS_MAX {
            if !run.is_scheduled {
                return Err(Error::rejected(format!(
                    "{key:?} already keeps the maximum of {SLOTS_MAX} slots: keep them for a shorter time, or \
                     reset some"
                ))
                .with_reason(Reason::SlotsFull)
                .with_key(key));
            }
            self.runs.remove(0);
        }
        self.token = run.token.get();
        self.runs.push(SlotRun {
            slot: run.slot.to_owned(),
            state: SlotState::Begun,
            attempts,
            at: time(run.now_ms),
            kept_until: time(run.now_ms.saturating_add(as_millis(run.keep))),
            token: run.token,
            owner: Owner::shortened(&run.owner.replace(char::is_control, " ")),
        });
        Ok(())
    }

    /// Puts the run in the place of the last run of its slot.
    pub(crate) fn end(&mut self, run: SlotRun) {
        self.runs.retain(|other| other.slot != run.slot);
        self.token = self.token.max(run.token.get());
        self.runs.push(run);
    }
}

fn parsed_run(line: &str) -> Option<SlotRun> {
    let mut words = line.splitn(7, '\t');
    let slot = words.next()?.to_owned();
    let state = match words.next()? {
        "begun" => SlotState::Begun,
        "failed" => SlotState::Failed,
        "succeeded" => SlotState::Succeeded,
        _ => return None,
    };
    let mut number = || words.next()?.parse::<u64>().ok();
    let attempts = u32::try_from(number()?).ok()?;
    let (at, kept_until) = (time(number()?), time(number()?));
    let token = Token::new(number()?).ok()?;
    let owner = Owner::new(words.next()?).ok()?;
    Some(SlotRun { slot, state, attempts, at, kept_until, token, owner })
}

/// A slot's name that the text can hold.
///
/// # Errors
///
/// It is empty or too long, or has control characters.
pub(crate) fn checked_slot(slot: String) -> Result<String> {
    if slot.is_empty() {
        return Err(Error::invalid("a slot must have a name, such as the time of its schedule"));
    }
    if slot.len() > SLOT_BYTES_MAX || slot.contains(char::is_control) {
        return Err(Error::invalid(format!(
            "a slot's name has at most {SLOT_BYTES_MAX} bytes and no control characters: {slot:?} is not one"
        )));
    }
    Ok(slot)
}

/// Milliseconds since 1970.
pub(crate) fn millis(at: SystemTime) -> u64 {
    as_millis(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(crate) fn time(ms: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(UNIX_EPOCH)
}

fn as_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The longest text fits into a value: each line has a slot, an owner, and at most 80 bytes of
/// words and numbers.
const _: () =
    assert!((SLOTS_MAX + 1) * (SLOT_BYTES_MAX + OWNER_BYTES_MAX + 80) < crate::VALUE_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn key() -> Key {
        Key::new("nightly").unwrap()
    }

    fn begin(history: &mut History, slot: &str, now_ms: u64, is_scheduled: bool) -> Result<()> {
        let (token, owner) = (Token::new(now_ms.max(1)).unwrap(), Owner::shortened("a\tb\nc"));
        let keep = Duration::from_millis(HOUR);
        let run = Beginning { slot, token, owner: &owner, now_ms, keep, is_scheduled };
        history.begin(&key(), &run)
    }

    #[test]
    fn a_text_is_read_as_it_was_written_and_no_two_are_the_same() {
        let mut history = History::default();
        begin(&mut history, "one", 5, false).unwrap();
        begin(&mut history, "two", 7, false).unwrap();
        let run = SlotRun { state: SlotState::Succeeded, ..history.runs[0].clone() };
        history.end(run);
        let text = history.to_text();
        assert_ne!(text, history.to_text());
        let again = History::parse(&key(), &text).unwrap();
        assert_eq!(again.token, 7);
        assert_eq!(again.runs, history.runs);
        assert_eq!(&*again.runs[0].owner, "a b c");
        assert!(History::parse(&key(), "").unwrap().runs.is_empty());
    }

    #[test]
    fn a_text_of_another_program_is_refused() {
        let mut history = History::default();
        begin(&mut history, "one", 5, false).unwrap();
        let text = history.to_text();
        for wrong in [
            "x".to_owned(),
            text.replace("once-1", "once-2"),
            text.replace("begun", "over"),
            text.replace("\t1\t", "\tone\t"),
            text.trim_end().rsplit_once('\t').unwrap().0.to_owned(),
        ] {
            let refused = History::parse(&key(), &wrong).unwrap_err();
            assert_eq!(refused.reason(), Some(Reason::UnreadableValue), "{wrong:?}");
        }
    }

    #[test]
    fn the_attempts_of_a_slot_are_counted_until_it_is_forgotten() {
        let mut history = History::default();
        for attempts in 1..4 {
            begin(&mut history, "one", 10, false).unwrap();
            assert_eq!(history.find("one").unwrap().attempts, attempts);
        }
        assert_eq!(history.runs.len(), 1);
        history.forget_old(10 + HOUR);
        assert!(history.find("one").is_some(), "the last run stays");
        begin(&mut history, "two", 10 + HOUR - 1, false).unwrap();
        assert!(history.find("one").is_some(), "its time is not over");
        history.forget_old(10 + HOUR);
        assert!(history.find("one").is_none() && history.find("two").is_some());
    }

    #[test]
    fn a_schedule_forgets_its_oldest_slot_and_other_slots_are_refused() {
        let mut history = History::default();
        for slot in 0..SLOTS_MAX {
            begin(&mut history, &slot.to_string(), 10, false).unwrap();
        }
        let refused = begin(&mut history, "more", 10, false).unwrap_err();
        assert_eq!(refused.reason(), Some(Reason::SlotsFull));
        begin(&mut history, "7", 10, false).expect("this slot is kept already");
        begin(&mut history, "more", 10, true).expect("the oldest slot makes room");
        assert!(history.find("0").is_none() && history.find("1").is_some());
        assert_eq!(history.runs.len(), SLOTS_MAX);
    }

    #[test]
    fn the_longest_text_fits_into_a_value() {
        let mut history = History::default();
        let owner = Owner::shortened(&"o".repeat(OWNER_BYTES_MAX));
        for slot in 0..SLOTS_MAX {
            let slot = format!("{slot:0>SLOT_BYTES_MAX$}");
            let token = Token::new(crate::NUMBER_MAX).unwrap();
            let (now_ms, keep) = (u64::from(u32::MAX) * 1000, Duration::from_secs(1));
            let run =
                Beginning { slot: &slot, token, owner: &owner, now_ms, keep, is_scheduled: false };
            history.begin(&key(), &run).unwrap();
        }
        assert!(history.to_text().len() <= crate::VALUE_BYTES_MAX);
    }
}
