//! The line as MongoDB keeps it: each verb is the stages of one update.
//!
//! What a line has:
//!
//! | field | is |
//! |---|---|
//! | `key`, `of` | its name, and the capacity that all its tickets agree on |
//! | `held`, `waiting` | the tickets that are served, and those behind, each in the order of its numbers |
//! | `last` | the last number that was given |
//! | `at` | the server's clock at the last step, in milliseconds; it never goes back |
//! | `quiet` | no ticket's life ends before this |
//! | `step` | how many steps there were; it makes every step a write, which only a server that is the primary can confirm |
//! | `bell` | the letters that the last step wrote, for the clients whose inboxes stand in them |
//! | `did`, `woken`, `bytes` | what the last step came to, how many it served, and how long the document was before it |
//! | `reap` | when the TTL index may delete the record, long after nobody can stand in the line any more; with `true` beside it while somebody may |
//!
//! A ticket is `id`, `n` (its number), `ends`, `take`, `told`, `inbox`, `ttl_us`, `owner`, `note`. What a caller asks for is in
//! the field `ask` while the stages run. So all stages but the first are the same for every call, and are made once.

use mongodb::bson::{Bson, Document, RawDocumentBuf, bson, doc};
use tenure_core::{LINE_TICKETS_MAX, NUMBER_MAX};

use crate::lens::Lens;

/// A document that is longer takes no more tickets. MongoDB's own limit is 16 MiB.
pub(crate) const DOCUMENT_BYTES_MAX: i64 = 12 << 20;
/// A document that is longer takes no more changed notes: renewals must go on.
pub(crate) const NOTES_BYTES_MAX: i64 = 14 << 20;
/// For so long a record is kept after the last life has ended and the clock has passed its last number: until then a
/// clock that is set back, or that of another member, gives no number twice.
pub(crate) const KEEP_MS: i64 = 600 * 1000;
/// So many letters are put together at a time: a text that grows letter by letter is copied each time.
const LETTERS_AT_ONCE: i64 = 64;
/// More than any array has elements.
const ALL: i64 = i32::MAX as i64;

/// What a join or a leave came to, as `did` says it.
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
    pub(crate) const RENEWED: i64 = 20;
    pub(crate) const SERVED: i64 = 21;
    pub(crate) const QUEUED: i64 = 22;
}

/// The stages of each verb, behind the first.
pub(crate) struct Steps {
    pub(crate) join: Vec<RawDocumentBuf>,
    pub(crate) renew: Vec<RawDocumentBuf>,
    pub(crate) leave: Vec<RawDocumentBuf>,
    /// Nothing is asked for: who is dead is out, and who follows is served.
    pub(crate) look: Vec<RawDocumentBuf>,
}

/// Makes the stages for a line that lives there.
struct Writer<'a>(&'a Lens);

impl Steps {
    pub(crate) fn new(lens: &Lens) -> Self {
        let writer = Writer(lens);
        Self {
            join: writer.verb([writer.may_join(), writer.join_or_renew()]),
            renew: writer.verb([writer.finds(), writer.join_or_renew()]),
            leave: writer.verb([writer.may_leave(), writer.leave()]),
            look: writer.verb([]),
        }
    }
}

impl Writer<'_> {
    fn verb<const N: usize>(&self, own: [Document; N]) -> Vec<RawDocumentBuf> {
        let begin = [self.open(), self.expire()];
        let end = [self.count_woken(), self.serve()];
        let stages = self.0.out.iter().cloned().chain(begin).chain(own).chain(end);
        let stages = stages.chain(self.0.back.iter().cloned());
        let raw = |stage| RawDocumentBuf::try_from(&stage).expect("a stage is a document");
        stages.map(raw).collect()
    }

    fn set<const N: usize>(&self, fields: [(&str, Bson); N]) -> Document {
        let fields = fields.into_iter().map(|(name, value)| (self.0.name(name), value));
        doc! { "$set": fields.collect::<Document>() }
    }

    fn value(&self, field: &str) -> Bson {
        Bson::String(self.0.value(field))
    }

    /// Where the ticket that is asked about stands in one of the arrays; -1 if it does not.
    fn index_in(&self, array: &str) -> Bson {
        bson!({ "$indexOfArray": [self.value(&format!("{array}.id")), self.value("ask.id")] })
    }

    fn sum_held(&self) -> Bson {
        bson!({ "$sum": self.value("held.take") })
    }

    fn size(&self, array: &str) -> Bson {
        bson!({ "$size": self.value(array) })
    }

    /// Whether a ticket's life may have ended.
    fn is_late(&self) -> Bson {
        bson!({ "$lte": [self.value("quiet"), self.value("at")] })
    }

    fn open(&self) -> Document {
        let now = bson!({ "$max": [self.value("at"), { "$toLong": "$$NOW" }] });
        let step = bson!({ "$add": [{ "$ifNull": [self.value("step"), 0_i64] }, 1_i64] });
        self.set([
            ("at", now),
            ("step", step),
            ("bytes", bson!({ "$bsonSize": "$$ROOT" })),
            ("held", bson!({ "$ifNull": [self.value("held"), []] })),
            ("waiting", bson!({ "$ifNull": [self.value("waiting"), []] })),
        ])
    }

    /// Those whose life has ended are all out before anyone is served in their place.
    fn expire(&self) -> Document {
        let lives = bson!({ "$gt": ["$$this.ends", self.value("at")] });
        let living = |array: &str| {
            let living = bson!({ "$filter": { "input": self.value(array), "as": "this", "cond": lives.clone() } });
            bson!({ "$cond": [self.is_late(), living, self.value(array)] })
        };
        let all = bson!({ "$concatArrays": [self.value("held"), self.value("waiting")] });
        let gone = bson!({ "$filter": { "input": all, "as": "this", "cond": { "$not": [lives.clone()] } } });
        let bell = bson!({ "$cond": [self.is_late(), letters(&gone, "O"), ""] });
        self.set([
            ("held", living("held")),
            ("waiting", living("waiting")),
            ("bell", bell),
            ("did", Bson::Int64(did::ABSENT)),
        ])
    }

    /// The number that a ticket would have.
    fn next(&self) -> Bson {
        let after = bson!({ "$add": [{ "$ifNull": [self.value("last"), 0_i64] }, 1_i64] });
        let clock = bson!({ "$multiply": [self.value("at"), 1000_i64] });
        bson!({ "$max": [after, clock, self.value("ask.floor")] })
    }

    fn may_join(&self) -> Document {
        let ask = |field: &str| self.value(&format!("ask.{field}"));
        let owner_of = |array: &str, at: &str| bson!({ "$arrayElemAt": [self.value(&format!("{array}.owner")), at] });
        let known = |array: &str, at: &str| {
            let is_own = bson!({ "$eq": [owner_of(array, at), ask("owner")] });
            let verdict = bson!({ "$cond": [is_own, did::RENEWED, did::OF_ANOTHER] });
            bson!({ "case": { "$gte": [at, 0_i64] }, "then": verdict })
        };
        let case = |case: Bson, then: i64| bson!({ "case": case, "then": then });
        let fits = bson!({ "$lte": [{ "$add": [self.sum_held(), ask("take")] }, ask("of")] });
        let at_once = bson!({ "$and": [{ "$eq": [self.size("waiting"), 0_i64] }, fits] });
        let cases = bson!([
            known("held", "$$h"),
            known("waiting", "$$w"),
            case(
                bson!({ "$and": [{ "$gt": ["$$n", 0_i64] }, { "$ne": [self.value("of"), ask("of")] }] }),
                did::MIXED
            ),
            case(bson!({ "$and": [ask("hurry"), { "$not": ["$$at_once"] }] }), did::BUSY),
            case(
                bson!({ "$gte": ["$$n", i64::try_from(LINE_TICKETS_MAX).unwrap_or(ALL)] }),
                did::FULL
            ),
            case(bson!({ "$gte": [self.value("bytes"), DOCUMENT_BYTES_MAX] }), did::TOO_LONG),
            case(bson!({ "$gt": [self.next(), number_max()] }), did::NO_NUMBERS_LEFT),
            case(bson!("$$at_once"), did::SERVED),
        ]);
        let verdict = bson!({ "$let": {
            "vars": {
                "h": self.index_in("held"),
                "w": self.index_in("waiting"),
                "n": { "$add": [self.size("held"), self.size("waiting")] },
                "at_once": at_once,
            },
            "in": { "$switch": { "branches": cases, "default": did::QUEUED } },
        } });
        self.set([("did", verdict)])
    }

    /// Whether the ticket is there to be renewed.
    fn finds(&self) -> Document {
        let stands = |array| bson!({ "$gte": [self.index_in(array), 0_i64] });
        let found = bson!({ "$or": [stands("held"), stands("waiting")] });
        self.set([("did", bson!({ "$cond": [found, did::RENEWED, did::ABSENT] }))])
    }

    fn join_or_renew(&self) -> Document {
        let ends = bson!({ "$add": [self.value("at"), self.value("ask.ttl")] });
        let ask = |field: &str| self.value(&format!("ask.{field}"));
        let seat = bson!({
            "id": ask("id"), "n": self.next(), "ends": ends.clone(), "take": ask("take"), "told": false,
            "inbox": ask("inbox"), "ttl_us": ask("ttl_us"), "owner": ask("owner"), "note": ask("note"),
        });
        let array = |name: &str, joins: i64| {
            bson!({ "$switch": {
                "branches": [
                    { "case": self.did(joins), "then": { "$concatArrays": [self.value(name), [seat.clone()]] } },
                    { "case": self.did(did::RENEWED), "then": self.renewed(name) },
                ],
                "default": self.value(name),
            } })
        };
        let joins = bson!({ "$in": [self.value("did"), [did::SERVED, did::QUEUED]] });
        let floor =
            bson!({ "$max": [self.value("last"), { "$min": [ask("floor"), number_max()] }] });
        let renews = bson!({ "$cond": [self.did(did::RENEWED), floor, self.value("last")] });
        self.set([
            ("held", array("held", did::SERVED)),
            ("waiting", array("waiting", did::QUEUED)),
            ("last", bson!({ "$cond": [joins.clone(), self.next(), renews] })),
            ("of", bson!({ "$cond": [joins.clone(), ask("of"), self.value("of")] })),
            ("key", bson!({ "$ifNull": [self.value("key"), ask("key")] })),
            ("quiet", bson!({ "$cond": [joins, { "$min": [self.value("quiet"), ends] }, self.value("quiet")] })),
        ])
    }

    fn did(&self, what: i64) -> Bson {
        bson!({ "$eq": [self.value("did"), what] })
    }

    /// The array with a sign of life of the ticket, if it stands there. Nothing changes about a ticket that was told to
    /// leave: its life ends when it would have.
    fn renewed(&self, array: &str) -> Bson {
        let ask = |field: &str| self.value(&format!("ask.{field}"));
        let has_room = bson!({ "$lt": [self.value("bytes"), NOTES_BYTES_MAX] });
        let changes = bson!({
            "ends": { "$max": ["$$it.ends", { "$add": [self.value("at"), ask("ttl")] }] },
            "take": { "$min": ["$$it.take", ask("take")] },
            "inbox": ask("inbox"),
            "note": { "$cond": [has_room, ask("note"), "$$it.note"] },
        });
        let renewed =
            bson!({ "$cond": ["$$it.told", "$$it", { "$mergeObjects": ["$$it", changes] }] });
        self.with_other(array, bson!([renewed]))
    }

    /// The array with something else in the ticket's place, if it stands there. The expression sees the ticket as `it`.
    fn with_other(&self, array: &str, other: Bson) -> Bson {
        let all = self.value(array);
        let other = bson!({ "$let": { "vars": { "it": { "$arrayElemAt": [all.clone(), "$$i"] } }, "in": other } });
        let ahead = bson!({ "$slice": [all.clone(), "$$i"] });
        let behind = bson!({ "$slice": [all.clone(), { "$add": ["$$i", 1_i64] }, ALL] });
        let changed = bson!({ "$concatArrays": [ahead, other, behind] });
        let is_there = bson!({ "$gte": ["$$i", 0_i64] });
        bson!({ "$let": {
            "vars": { "i": self.index_in(array) },
            "in": { "$cond": [is_there, changed, all] },
        } })
    }

    fn may_leave(&self) -> Document {
        let stands = |array| bson!({ "$gte": [self.index_in(array), 0_i64] });
        let leaves = bson!({ "$cond": [self.value("ask.soon"), did::TOLD, did::HOLDING] });
        let other = bson!({ "$cond": [stands("waiting"), did::WAITING, did::ABSENT] });
        self.set([("did", bson!({ "$cond": [stands("held"), leaves, other] }))])
    }

    fn leave(&self) -> Document {
        let told = bson!([{ "$mergeObjects": ["$$it", { "told": true }] }]);
        let held = bson!({ "$switch": {
            "branches": [
                { "case": self.did(did::HOLDING), "then": self.with_other("held", bson!([])) },
                { "case": self.did(did::TOLD), "then": self.with_other("held", told) },
            ],
            "default": self.value("held"),
        } });
        let waiting = bson!({ "$cond": [
            self.did(did::WAITING), self.with_other("waiting", bson!([])), self.value("waiting"),
        ] });
        let bell = bson!({ "$concat": [self.value("bell"), self.letters_of_leave()] });
        self.set([("held", held), ("waiting", waiting), ("bell", bell)])
    }

    /// Whoever is told or taken out by another client hears of it. Whoever asks for a ticket that has left already may
    /// have missed an answer, so it hears of all its tickets that are served.
    fn letters_of_leave(&self) -> Bson {
        let is_it = bson!({ "$eq": ["$$this.id", self.value("ask.id")] });
        let is_own = bson!({ "$eq": ["$$this.inbox", self.value("ask.inbox")] });
        let some = |array: &str, cond: Bson| bson!({ "$filter": { "input": self.value(array), "as": "this", "cond": cond } });
        let not = |cond: &Bson| bson!({ "$not": [cond.clone()] });
        let untold = bson!({ "$and": [is_it.clone(), { "$not": ["$$this.told"] }] });
        let strangers = bson!({ "$and": [is_it, not(&is_own)] });
        let case = |what: i64, letters: Bson| bson!({ "case": self.did(what), "then": letters });
        bson!({ "$switch": {
            "branches": [
                case(did::HOLDING, letters(&some("held", strangers.clone()), "O")),
                case(did::WAITING, letters(&some("waiting", strangers), "O")),
                case(did::TOLD, letters(&some("held", untold), "T")),
                case(did::ABSENT, letters(&some("held", is_own), "S")),
            ],
            "default": "",
        } })
    }

    /// The front of the line is served, for as long as it fits. Mostly it is nobody, or one alone.
    fn count_woken(&self) -> Document {
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
        let woken = bson!({ "$let": { "vars": { "room": room }, "in": { "$switch": {
            "branches": [
                { "case": { "$eq": [self.size("waiting"), 0_i64] }, "then": 0_i64 },
                { "case": is_more(take_of(0)), "then": 0_i64 },
                { "case": is_more(first_two), "then": 1_i64 },
            ],
            "default": count,
        } } } });
        self.set([("woken", woken)])
    }

    fn serve(&self) -> Document {
        let nobody = bson!({ "$eq": [self.value("woken"), 0_i64] });
        let woken = bson!({ "$slice": [self.value("waiting"), self.value("woken")] });
        let others = bson!({ "$slice": [self.value("waiting"), self.value("woken"), ALL] });
        let unless_nobody = |field: &str, other: Bson| bson!({ "$cond": [nobody.clone(), self.value(field), other] });
        let held = bson!({ "$concatArrays": [self.value("held"), woken.clone()] });
        let bell = bson!({ "$concat": [self.value("bell"), letters(&woken, "S")] });
        let first_end = bson!({ "$min": [{ "$min": self.value("held.ends") }, { "$min": self.value("waiting.ends") }] });
        self.set([
            ("held", unless_nobody("held", held)),
            ("waiting", unless_nobody("waiting", others)),
            ("bell", unless_nobody("bell", bell)),
            ("quiet", bson!({ "$cond": [self.is_late(), first_end, self.value("quiet")] })),
            ("reap", self.reap()),
            ("ask", bson!("$$REMOVE")),
        ])
    }

    /// When the record may go. While somebody stands in the line, this is so far ahead that it need not be moved by each
    /// renewal: the index would be written each time.
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

/// The letters of one kind to these tickets, in one text. A text is replaced as a whole, so a change stream shows it as
/// a whole, which an array would not be.
fn letters(tickets: &Bson, kind: &str) -> Bson {
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

fn number_max() -> i64 {
    i64::try_from(NUMBER_MAX).unwrap_or(i64::MAX)
}
