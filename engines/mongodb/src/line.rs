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
//! | `did`, `newly_served`, `bytes` | of the last step: the outcomes of its leaves and joins, the number of tickets that it served, and the document's length before it |
//! | `reap` | the time at which the TTL index may delete the record, long after the last ticket's life; with `true` beside it while a ticket may stand in the line |
//!
//! A ticket has the fields `id`, `n` (its number), `ends`, `take`, `told`, `inbox`, `ttl_us`,
//! `owner` and `note`. While the stages run, the field `ask` has the requests of callers. So all
//! stages but the first are the same for every call, and are built once. One step may carry out
//! many verbs of each kind.

use mongodb::bson::raw::CString;
use mongodb::bson::{Bson, Document, RawDocumentBuf, bson, doc};
use tenure_core::{Key, NUMBER_MAX};

use crate::field_prefix::FieldPrefix;

/// Milliseconds for which a record is kept after the last life has ended and the clock has passed
/// its last number. Until then no number is given twice, even by a clock that is set back or that
/// of another member.
pub(crate) const KEEP_MS: i64 = 600 * 1000;
/// Letters that are concatenated at a time. A text that grows letter by letter is copied for each
/// letter.
const LETTERS_AT_ONCE: i64 = 64;
/// A number greater than the length of any array.
pub(crate) const ALL: i64 = i32::MAX as i64;

/// Returns the id of a line's record.
pub(crate) fn record(key: &Key) -> String {
    key.canonical("tenure")
}

/// Outcomes of a leave or a join, as `did` has them.
pub(crate) mod did {
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

/// The stages of every mixture of verbs, after the first stage.
pub struct Steps(Vec<Vec<RawDocumentBuf>>);

/// Returns a stage as it is sent.
pub fn raw(stage: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(stage).expect("a stage is a document")
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

impl VerbSet {
    const ALL: usize = 8;

    fn nth(at: usize) -> Self {
        Self { renews: at & 1 != 0, leaves: at & 2 != 0, joins: at & 4 != 0 }
    }

    fn at(self) -> usize {
        usize::from(self.renews) | usize::from(self.leaves) << 1 | usize::from(self.joins) << 2
    }
}

impl Steps {
    /// Builds the stages for a line in this place.
    pub fn new(lens: &FieldPrefix) -> Self {
        let writer = Writer(lens);
        Self((0..VerbSet::ALL).map(|at| writer.step(VerbSet::nth(at))).collect())
    }

    /// Returns the stages of a mixture. They remove tickets whose life has ended, then renew, leave
    /// and join, and then serve the tickets that are next.
    pub(crate) fn of(&self, mixture: VerbSet) -> &[RawDocumentBuf] {
        &self.0[mixture.at()]
    }
}

/// Builds the stages for a line in this place.
pub(crate) struct Writer<'a>(pub(crate) &'a FieldPrefix);

impl Writer<'_> {
    fn step(&self, mixture: VerbSet) -> Vec<RawDocumentBuf> {
        let mut stages = vec![self.open(), self.expire()];
        if mixture.renews {
            stages.push(self.renew());
        }
        if mixture.leaves {
            stages.extend(self.leave());
        }
        if mixture.joins {
            stages.extend(self.join());
        }
        stages.extend([self.count_newly_served(), self.serve()]);
        stages.iter().map(raw).collect()
    }

    pub(crate) fn set<const N: usize>(&self, fields: [(&str, Bson); N]) -> Document {
        doc! { "$set": self.fields(fields) }
    }

    /// Returns those of these fields that the line keeps, by their names in the document.
    pub(crate) fn fields<const N: usize>(&self, fields: [(&str, Bson); N]) -> Document {
        let kept = fields.into_iter().filter(|(name, _)| self.0.keeps(name));
        kept.map(|(name, value)| (self.0.name(name), value)).collect()
    }

    pub(crate) fn value(&self, field: &str) -> Bson {
        Bson::String(self.0.value(field))
    }

    /// Returns the index of a ticket in one of the arrays, or -1 if it is not there.
    pub(crate) fn index_in(&self, array: &str, id: &str) -> Bson {
        bson!({ "$indexOfArray": [self.value(&format!("{array}.id")), id] })
    }

    pub(crate) fn sum_held(&self) -> Bson {
        bson!({ "$sum": self.value("held.take") })
    }

    pub(crate) fn size(&self, array: &str) -> Bson {
        bson!({ "$size": self.value(array) })
    }

    /// Whether a ticket's life may have ended.
    fn is_late(&self) -> Bson {
        bson!({ "$lte": [self.value("next_expiry"), self.value("at")] })
    }

    fn open(&self) -> Document {
        let array = |name: &str| bson!({ "$ifNull": [self.value(name), []] });
        // One refusal ends the whole step. It comes before any expression that may fail.
        let held = bson!({ "$cond": [self.is_readable(), array("held"), self.refuse("held")] });
        let now = bson!({ "$max": [self.value("at"), { "$toLong": "$$NOW" }] });
        let step = bson!({ "$add": [{ "$ifNull": [self.value("step"), 0_i64] }, 1_i64] });
        self.set([
            ("held", held),
            ("waiting", array("waiting")),
            ("at", now),
            ("step", step),
            ("bytes", bson!({ "$bsonSize": "$$ROOT" })),
        ])
    }

    /// Removes all tickets whose life has ended before any ticket is served in their place.
    fn expire(&self) -> Document {
        // A ticket whose end cannot be read stays, and the step is refused when it comes to who
        // holds. MongoDB has nothing, and the double that is no number, below all numbers, and
        // texts and all else above them.
        let lives = bson!({ "$or": [
            { "$gt": ["$$this.ends", self.value("at")] }, { "$lt": ["$$this.ends", 0_i64] },
        ] });
        let living = |array: &str| {
            let living = bson!({ "$filter": { "input": self.value(array), "as": "this", "cond": lives.clone() } });
            bson!({ "$cond": [self.is_late(), living, self.value(array)] })
        };
        let all = bson!({ "$concatArrays": [self.value("held"), self.value("waiting")] });
        let gone = bson!({ "$filter": { "input": all, "as": "this", "cond": { "$not": [lives.clone()] } } });
        let notices = bson!({ "$cond": [self.is_late(), letters(&gone, "O"), ""] });
        self.set([
            ("held", living("held")),
            ("waiting", living("waiting")),
            ("notices", notices),
            ("did", bson!([])),
        ])
    }

    /// Counts the waiting tickets that are served now: the first ones, for as long as they fit.
    /// Mostly it is none or one.
    pub(crate) fn count_newly_served(&self) -> Document {
        let take_of = |at: i64| {
            let take = bson!({ "$arrayElemAt": [self.value("waiting.take"), at] });
            bson!({ "$ifNull": [take, ALL] })
        };
        let room = bson!({ "$subtract": [self.value("of"), self.sum_held()] });
        let is_more = |sum: Bson| bson!({ "$gt": [sum, "$$room"] });
        let first_two = bson!({ "$add": [take_of(0), take_of(1)] });
        let fits = bson!({ "$lte": [{ "$add": ["$$value.sum", "$$this"] }, "$$room"] });
        let counted = bson!({
            "sum": { "$add": ["$$value.sum", { "$cond": [fits.clone(), "$$this", ALL] }] },
            "n": { "$add": ["$$value.n", { "$cond": [fits, 1_i64, 0_i64] }] },
        });
        let count = bson!({ "$let": {
            "vars": { "all": { "$reduce": {
                "input": self.value("waiting.take"),
                "initialValue": { "sum": 0_i64, "n": 0_i64 },
                "in": counted,
            } } },
            "in": "$$all.n",
        } });
        let newly_served = bson!({ "$let": { "vars": { "room": room }, "in": { "$switch": {
            "branches": [
                { "case": { "$eq": [self.size("waiting"), 0_i64] }, "then": 0_i64 },
                { "case": is_more(take_of(0)), "then": 0_i64 },
                { "case": is_more(first_two), "then": 1_i64 },
            ],
            "default": count,
        } } } });
        self.set([("newly_served", newly_served)])
    }

    /// Serves the tickets that were counted, and writes their letters.
    pub(crate) fn next_served(&self) -> Document {
        let nobody = bson!({ "$eq": [self.value("newly_served"), 0_i64] });
        let newly_served = bson!({ "$slice": [self.value("waiting"), self.value("newly_served")] });
        let others = bson!({ "$slice": [self.value("waiting"), self.value("newly_served"), ALL] });
        let unless_nobody = |field: &str, other: Bson| bson!({ "$cond": [nobody.clone(), self.value(field), other] });
        let held = bson!({ "$concatArrays": [self.value("held"), newly_served.clone()] });
        let notices = bson!({ "$concat": [self.value("notices"), letters(&newly_served, "S")] });
        let held = unless_nobody("held", held);
        self.fields([
            ("held", Self::held_by_readable(&held)),
            ("waiting", unless_nobody("waiting", others)),
            ("notices", unless_nobody("notices", notices)),
        ])
    }

    fn serve(&self) -> Document {
        let first_end = bson!({ "$min": [{ "$min": self.value("held.ends") }, { "$min": self.value("waiting.ends") }] });
        // One end may be the double NaN. The holders ahead of that ticket must be able to read the
        // line.
        let first_end = bson!({ "$max": [0_i64, first_end] });
        let mut fields = self.next_served();
        fields.extend(self.fields([
            (
                "next_expiry",
                bson!({ "$cond": [self.is_late(), first_end, self.value("next_expiry")] }),
            ),
            ("reap", self.reap()),
            ("ask", bson!("$$REMOVE")),
        ]));
        doc! { "$set": fields }
    }

    /// Returns the date at which the record may be reaped. While tickets stand in the line, it is
    /// far enough ahead that most renewals leave it as it is. Otherwise each renewal would write
    /// the index.
    fn reap(&self) -> Bson {
        let count = bson!({ "$add": [self.size("held"), self.size("waiting")] });
        let passed = bson!({ "$toLong": { "$divide": [self.value("last"), 1000_i64] } });
        let date = |from: Bson, keep: i64| bson!({ "$toDate": { "$add": [from, keep] } });
        let idle = date(bson!({ "$max": [self.value("at"), passed.clone()] }), KEEP_MS);
        let ends = bson!({ "$add": [self.value("at"), self.value("ask.ttl")] });
        let least = bson!({ "$max": [ends, passed] });
        let kept = bson!({ "$cond": [{ "$isArray": self.value("reap") }, { "$arrayElemAt": [self.value("reap"), 0] }, Bson::Null] });
        let is_kept = bson!({ "$gte": [kept, date(bson!("$$least"), KEEP_MS)] });
        let moved = bson!([date(bson!("$$least"), 2 * KEEP_MS), true]);
        let busy = bson!({ "$let": {
            "vars": { "least": least },
            "in": { "$cond": [is_kept, self.value("reap"), moved] },
        } });
        bson!({ "$cond": [{ "$eq": [count, 0_i64] }, idle, busy] })
    }
}

/// Returns the letters of one kind to these tickets, in one text. An update replaces a text as a
/// whole, so a change stream has it as a whole. Of an array it may have only elements.
pub(crate) fn letters(tickets: &Bson, kind: &str) -> Bson {
    let letter = bson!({ "$concat": [
        "$$value", "$$this.inbox", "$$this.id", kind, { "$toString": "$$this.n" }, " ",
    ] });
    let some = bson!({ "$slice": ["$$tickets", "$$this", LETTERS_AT_ONCE] });
    let some = bson!({ "$reduce": { "input": some, "initialValue": "", "in": letter } });
    let starts = bson!({ "$range": [0_i64, { "$size": "$$tickets" }, LETTERS_AT_ONCE] });
    bson!({ "$let": { "vars": { "tickets": tickets.clone() }, "in": { "$reduce": {
        "input": starts,
        "initialValue": "",
        "in": { "$concat": ["$$value", some] },
    } } } })
}

pub(crate) fn number_max() -> i64 {
    i64::try_from(NUMBER_MAX).unwrap_or(i64::MAX)
}
