//! The line as MongoDB keeps it: a step is the stages of one update.
//!
//! A line has these fields:
//!
//! | field | contents |
//! |---|---|
//! | `key`, `of` | its name, and the capacity that all its tickets agree on |
//! | `held`, `waiting` | the tickets that are served, and those behind, each in the order of its numbers |
//! | `last` | the last number that was given |
//! | `made` | the name of a [fresh](crate::fresh) record, in which no number was given yet |
//! | `at` | the server's clock at the last step, in milliseconds; it never goes back |
//! | `next_expiry` | a time before which no ticket's life ends |
//! | `step` | the number of steps; it makes every step a write, which only a server that is the primary can confirm |
//! | `notices` | the letters that the last step wrote, for the clients whose inboxes are named in them |
//! | `did`, `newly_served` | of the last step: the outcomes of its leaves and joins, and the number of tickets that it served |
//! | `bytes` | the document's length before the last step that was not [short](crate::short) |
//! | `reap` | the time at which the TTL index may delete the record, long after the last ticket's life; with `true` beside it once a ticket stood in the line |
//!
//! A ticket has the fields `id`, `n` (its number), `ends`, `take`, `told`, `inbox`, `ttl_us`,
//! `owner` and `note`. While the stages run, the field `ask` has the requests of callers. So all
//! stages but the first are the same for every call, and are built once. One step may carry out
//! many verbs of each kind. `PIPELINES.md` of this crate shows the stages as the server gets them.

use mongodb::bson::raw::CString;
use mongodb::bson::{Document, RawDocumentBuf};
use tenure_core::{Key, NUMBER_MAX};

use crate::field_prefix::FieldPrefix;
use crate::{stages, verbs};

/// Milliseconds for which a record is kept after the last life has ended and the clock has passed
/// its last number. Until then no number is given twice, even by a clock that is set back or that
/// of another member.
pub(crate) const KEEP_MS: i64 = 600 * 1000;
/// A number greater than the length of any array.
pub(crate) const ALL: i64 = i32::MAX as i64;

/// Returns the id of a line's record.
pub(crate) fn record(key: &Key) -> String {
    key.canonical("tenure")
}

/// Outcomes of a leave or a join, as the field `did` has them.
pub(crate) mod outcome {
    pub(crate) const ABSENT: i64 = 0;
    pub(crate) const WAITING: i64 = 1;
    pub(crate) const HOLDING: i64 = 2;
    pub(crate) const TOLD: i64 = 3;
    pub(crate) const BUSY: i64 = 11;
    pub(crate) const MIXED: i64 = 12;
    pub(crate) const OF_ANOTHER: i64 = 13;
    pub(crate) const FULL: i64 = 14;
    pub(crate) const NO_NUMBERS_LEFT: i64 = 15;
    pub(crate) const TOO_LONG: i64 = 16;
    pub(crate) const KNOWN: i64 = 20;
    pub(crate) const SERVED: i64 = 21;
    pub(crate) const QUEUED: i64 = 22;
    pub(crate) const FRESH: i64 = 23;
    /// The first refusal of this place. The next ones follow it.
    pub(crate) const REFUSED: i64 = 100;
}

/// Returns a stage as it is sent.
pub fn raw(stage: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(stage).expect("a stage is a document")
}

/// Appends the fields of another document.
pub(crate) fn append_all(document: &mut RawDocumentBuf, more: &RawDocumentBuf) {
    for field in more {
        let (name, value) = field.expect("it was made of a document");
        document.append(name, value);
    }
}

/// Returns a field's name as it is sent.
pub(crate) fn c_string(name: impl Into<String>) -> CString {
    CString::try_from(name.into()).expect("a field's name has no NUL")
}

/// The kinds of verbs in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VerbSet {
    pub(crate) renews: bool,
    pub(crate) leaves: bool,
    pub(crate) joins: bool,
}

/// The stages of a step for lines in one place, after the first stage.
pub struct Steps {
    pub(crate) begin: Vec<RawDocumentBuf>,
    pub(crate) renew: Vec<RawDocumentBuf>,
    pub(crate) leave: Vec<RawDocumentBuf>,
    pub(crate) join: Vec<RawDocumentBuf>,
    pub(crate) serve: Vec<RawDocumentBuf>,
}

impl Steps {
    /// Builds the stages for lines in this place.
    pub fn new(place: &FieldPrefix) -> Self {
        let built = |stages: &[Document]| -> Vec<_> {
            stages.iter().map(|stage| raw(&place.stage(stage))).collect()
        };
        Self {
            begin: built(&[stages::open(), stages::expire()]),
            renew: built(&[verbs::renew(place.limits.notes)]),
            leave: built(&verbs::leave()),
            join: built(&verbs::join(place)),
            serve: built(&[stages::count_newly_served(), stages::serve()]),
        }
    }

    /// Returns the stages of these verbs. They remove tickets whose life has ended, then renew,
    /// leave and join, and then serve the tickets that are next.
    pub(crate) fn of(&self, verbs: VerbSet) -> impl Iterator<Item = &[RawDocumentBuf]> {
        let some = [
            (true, &self.begin),
            (verbs.renews, &self.renew),
            (verbs.leaves, &self.leave),
            (verbs.joins, &self.join),
            (true, &self.serve),
        ];
        some.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, stages)| stages.as_slice())
    }
}

pub(crate) fn number_max() -> i64 {
    i64::try_from(NUMBER_MAX).unwrap_or(i64::MAX)
}
