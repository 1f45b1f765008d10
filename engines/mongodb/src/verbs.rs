//! The verbs: what a step does for tickets that renew, leave and join, in this order.
//!
//! All verbs of one step are in flight at the same time, so any order of them is right. Each is for
//! another ticket. The field `ask` has their requests in three arrays. The array `did` has the
//! outcomes of leaves and joins.

use mongodb::bson::{Bson, Document, bson};
use tenure_core::LINE_TICKETS_MAX;

use crate::line::{ALL, Writer, did, letters, number_max};

impl Writer<'_> {
    /// Renews the tickets that stand in the line. A ticket that was asked to leave does not change,
    /// so its life ends as before.
    pub(crate) fn renew(&self) -> Document {
        let signs = self.value("ask.renew");
        let is_there = bson!({ "$in": ["$$this.id", { "$concatArrays": [self.value("held.id"), self.value("waiting.id")] }] });
        let floors = bson!({ "$map": {
            "input": signs.clone(), "as": "this", "in": { "$cond": [is_there, "$$this.floor", 0_i64] },
        } });
        let floor = bson!({ "$min": [{ "$max": floors }, number_max()] });
        let has_floor = bson!({ "$gt": [{ "$max": self.value("ask.renew.floor") }, 0_i64] });
        let has_floor = bson!({ "$and": [has_floor, self.has_last()] });
        let last = bson!({ "$cond": [has_floor, { "$max": [self.value("last"), floor] }, self.value("last")] });
        self.set([
            ("held", self.each_in("held", &signs, &self.renewed())),
            ("waiting", self.each_in("waiting", &signs, &self.renewed())),
            ("last", last),
        ])
    }

    /// The seat of a ticket, `$$it`, after its renewal, `$$this`.
    fn renewed(&self) -> Bson {
        let has_room = bson!({ "$lt": [self.value("bytes"), self.0.limits.notes] });
        let changes = bson!({
            "ends": { "$max": ["$$it.ends", { "$add": [self.value("at"), "$$this.ttl"] }] },
            "take": { "$min": ["$$it.take", "$$this.take"] },
            "inbox": self.value("ask.inbox"),
            "note": { "$cond": [has_room, "$$this.note", "$$it.note"] },
        });
        bson!([{ "$cond": ["$$it.told", "$$it", { "$mergeObjects": ["$$it", changes] }] }])
    }

    /// The array after each of these requests has put another value, `other`, in the place of its
    /// ticket, if the ticket is in it.
    fn each_in(&self, array: &str, asked: &Bson, other: &Bson) -> Bson {
        let other = bson!({ "$let": { "vars": { "it": { "$arrayElemAt": ["$$value", "$$i"] } }, "in": other.clone() } });
        let ahead = bson!({ "$slice": ["$$value", "$$i"] });
        let behind = bson!({ "$slice": ["$$value", { "$add": ["$$i", 1_i64] }, ALL] });
        let changed = bson!({ "$concatArrays": [ahead, other, behind] });
        let is_there = bson!({ "$gte": ["$$i", 0_i64] });
        let one = bson!({ "$let": {
            "vars": { "i": { "$indexOfArray": ["$$value.id", "$$this.id"] } },
            "in": { "$cond": [is_there, changed, "$$value"] },
        } });
        bson!({ "$reduce": { "input": asked.clone(), "initialValue": self.value(array), "in": one } })
    }

    /// A ticket that leaves is out. A served ticket that is asked to leave stays until its owner
    /// has stopped.
    pub(crate) fn leave(&self) -> [Document; 3] {
        let seat = |array: &str, at: &str, did: Bson| {
            let seat = bson!({ "$arrayElemAt": [self.value(array), at] });
            let case = bson!({ "$gte": [at, 0_i64] });
            bson!({ "case": case, "then": { "$mergeObjects": [seat, { "did": did, "soon": "$$this.soon" }] } })
        };
        let how = bson!({ "$cond": ["$$this.soon", did::TOLD, did::HOLDING] });
        let of_waiting = bson!({ "$cond": [self.follows_the_dead(), how.clone(), did::WAITING] });
        let found = bson!({ "$let": {
            "vars": { "h": self.index_in("held", "$$this.id"), "w": self.index_in("waiting", "$$this.id") },
            "in": { "$switch": {
                "branches": [seat("held", "$$h", how), seat("waiting", "$$w", of_waiting)],
                "default": { "id": "$$this.id", "did": did::ABSENT },
            } },
        } });
        let found =
            bson!({ "$map": { "input": self.value("ask.leave"), "as": "this", "in": found } });
        let told = bson!([{ "$mergeObjects": ["$$it", { "told": true }] }]);
        let stays = bson!({ "$eq": ["$$this.did", did::TOLD] });
        let told_or_out = bson!({ "$cond": [stays, told, bson!([])] });
        let left = |array: &str| self.each_in(array, &self.value("ask.found"), &told_or_out);
        [
            self.set([("ask.found", found)]),
            self.set([("held", left("held")), ("waiting", left("waiting"))]),
            self.set([
                ("did", self.value("ask.found.did")),
                ("notices", bson!({ "$concat": [self.value("notices"), self.letters_of_leave()] })),
            ]),
        ]
    }

    /// Whether the waiting ticket at `$$w` fits after dead tickets were removed. It counts as
    /// served then, although the stage that serves runs after the verbs.
    fn follows_the_dead(&self) -> Bson {
        let up_to_it =
            bson!({ "$slice": [self.value("waiting.take"), { "$add": ["$$w", 1_i64] }] });
        let sum = bson!({ "$add": [self.sum_held(), { "$sum": up_to_it }] });
        bson!({ "$lte": [sum, self.value("of")] })
    }

    /// The letters of leaves. A client is notified of a ticket of its own that another client asked
    /// to leave or took out. A leave that finds no ticket may be a repeated one whose answer was
    /// lost. So its client is notified of all its served tickets.
    fn letters_of_leave(&self) -> Bson {
        let some = |array: &str, cond: Bson| bson!({ "$filter": { "input": self.value(array), "as": "this", "cond": cond } });
        let is_own = bson!({ "$eq": ["$$this.inbox", self.value("ask.inbox")] });
        let is_out = bson!({ "$in": ["$$this.did", [did::HOLDING, did::WAITING]] });
        let is_out = |soon: bool, more: Bson| bson!({ "$and": [is_out.clone(), { "$eq": ["$$this.soon", soon] }, more] });
        let out = is_out(false, bson!({ "$not": [is_own.clone()] }));
        // The owner knows. The letter informs onlookers that the ticket did not leave by itself.
        let broken = is_out(true, bson!(true));
        let told =
            bson!({ "$and": [{ "$eq": ["$$this.did", did::TOLD] }, { "$not": ["$$this.told"] }] });
        let missed = bson!({ "$in": [did::ABSENT, self.value("ask.found.did")] });
        bson!({ "$concat": [
            letters(&some("ask.found", out), "O"),
            letters(&some("ask.found", broken), "B"),
            letters(&some("ask.found", told), "T"),
            { "$cond": [missed, letters(&some("held", is_own), "S"), ""] },
        ] })
    }

    /// A ticket that joins goes to the back of the line, and is served at once if no ticket waits
    /// and it fits. A ticket that is in the line already gets `did::KNOWN`, and its client renews
    /// it.
    pub(crate) fn join(&self) -> [Document; 2] {
        let sum = bson!({ "$add": [self.sum_held(), { "$sum": self.value("waiting.take") }] });
        let begin = bson!({
            "n": { "$add": [self.size("held"), self.size("waiting")] },
            "sum": sum,
            "of": { "$ifNull": [self.value("of"), 0_i64] },
            "last": { "$ifNull": [self.value("last"), 0_i64] },
            "held": [], "waiting": [], "did": [],
        });
        let joined = bson!({ "$reduce": { "input": self.value("ask.join"), "initialValue": begin, "in": self.join_one() } });
        let both = |array: &str| bson!({ "$concatArrays": [self.value(array), self.value(&format!("ask.joined.{array}"))] });
        let ends = |array: &str| bson!({ "$min": self.value(&format!("ask.joined.{array}.ends")) });
        let made = bson!({ "$ifNull": [self.value("made"), self.value("ask.made")] });
        let [last, made] = match self.is_fresh() {
            None => [self.value("ask.joined.last"), Bson::Null],
            Some(is_fresh) => [
                bson!({ "$cond": [is_fresh.clone(), "$$REMOVE", self.value("ask.joined.last")] }),
                bson!({ "$cond": [is_fresh, made, "$$REMOVE"] }),
            ],
        };
        [
            self.set([("ask.joined", joined)]),
            self.set([
                ("held", both("held")),
                ("waiting", both("waiting")),
                ("did", both("did")),
                ("last", last),
                ("made", made),
                ("of", self.value("ask.joined.of")),
                ("key", bson!({ "$ifNull": [self.value("key"), self.value("ask.key")] })),
                (
                    "next_expiry",
                    bson!({ "$min": [self.value("next_expiry"), ends("held"), ends("waiting")] }),
                ),
            ]),
        ]
    }

    /// One more ticket, `$$this`, behind those that joined before it in this step, `$$value`.
    fn join_one(&self) -> Bson {
        let mut clock = bson!({ "$multiply": [self.value("at"), 1000_i64] });
        if self.0.field_name().is_some() {
            clock = bson!({ "$add": [clock, "$$this.low"] });
        }
        let next = bson!({ "$max": [{ "$add": ["$$value.last", 1_i64] }, clock, "$$this.floor"] });
        let sum = bson!({ "$add": ["$$value.sum", "$$this.take"] });
        let seat = bson!([{
            "id": "$$this.id", "n": "$$next", "ends": { "$add": [self.value("at"), "$$this.ttl"] },
            "take": "$$this.take", "told": false, "inbox": self.value("ask.inbox"),
            "ttl_us": "$$this.ttl_us", "owner": "$$this.owner", "note": "$$this.note",
        }]);
        let also = |field: &str, what: i64, more: &Bson| {
            let all = format!("$$value.{field}");
            bson!({ "$cond": [{ "$eq": ["$$did", what] }, { "$concatArrays": [all.as_str(), more.clone()] }, all.as_str()] })
        };
        let did = bson!({ "$concatArrays": ["$$value.did", ["$$did"]] });
        let joined = bson!({
            "n": { "$add": ["$$value.n", 1_i64] }, "sum": "$$sum", "of": "$$this.of", "last": "$$next",
            "held": also("held", did::SERVED, &seat), "waiting": also("waiting", did::QUEUED, &seat),
            "did": did.clone(),
        });
        let other = bson!({ "$mergeObjects": ["$$value", { "did": did }] });
        let joins = bson!({ "$in": ["$$did", [did::SERVED, did::QUEUED]] });
        bson!({ "$let": {
            "vars": {
                "next": next, "sum": sum,
                "h": self.index_in("held", "$$this.id"), "w": self.index_in("waiting", "$$this.id"),
            },
            "in": { "$let": { "vars": { "did": self.verdict() }, "in": { "$cond": [joins, joined, other] } } },
        } })
    }

    /// The outcome of the join of this ticket.
    fn verdict(&self) -> Bson {
        let known = |array: &str, at: &str| {
            let owner = bson!({ "$arrayElemAt": [self.value(&format!("{array}.owner")), at] });
            let is_own = bson!({ "$eq": [owner, "$$this.owner"] });
            let verdict = bson!({ "$cond": [is_own, did::KNOWN, did::OF_ANOTHER] });
            bson!({ "case": { "$gte": [at, 0_i64] }, "then": verdict })
        };
        let case = |case: Bson, then: i64| bson!({ "case": case, "then": then });
        let is_mixed = bson!({ "$and": [{ "$gt": ["$$value.n", 0_i64] }, { "$ne": ["$$value.of", "$$this.of"] }] });
        // The tickets ahead of it in the line fit as well then.
        let fits = bson!({ "$lte": ["$$sum", "$$this.of"] });
        let nobody_waits = bson!({ "$eq": [self.size("waiting"), 0_i64] });
        let most = i64::try_from(LINE_TICKETS_MAX).unwrap_or(ALL);
        let refusals = self.0.refusals.iter().zip(did::REFUSED..);
        let mut cases: Vec<Bson> =
            refusals.map(|(refusal, did)| case(refusal.when.clone(), did)).collect();
        cases.extend(self.is_fresh().map(|is_fresh| case(is_fresh, did::FRESH)));
        let others = [
            known("held", "$$h"),
            known("waiting", "$$w"),
            case(is_mixed, did::MIXED),
            case(bson!({ "$and": ["$$this.hurry", { "$not": [fits.clone()] }] }), did::BUSY),
            case(bson!({ "$gte": ["$$value.n", most] }), did::FULL),
            case(bson!({ "$gte": [self.value("bytes"), self.0.limits.tickets] }), did::TOO_LONG),
            case(bson!({ "$gt": ["$$next", number_max()] }), did::NO_NUMBERS_LEFT),
            case(bson!({ "$and": [fits, nobody_waits] }), did::SERVED),
        ];
        cases.extend(others);
        bson!({ "$switch": { "branches": cases, "default": did::QUEUED } })
    }

    /// Whether the record has no last number, and is not the fresh record that the client has seen.
    /// In a program's document this is not checked: its first number goes by the clock alone.
    fn is_fresh(&self) -> Option<Bson> {
        let is_other = bson!({ "$ne": [self.value("made"), self.value("ask.seen")] });
        let is_fresh = bson!({ "$and": [{ "$not": [self.has_last()] }, is_other] });
        self.0.field_name().is_none().then_some(is_fresh)
    }

    /// Whether a number was given in the line.
    pub(crate) fn has_last(&self) -> Bson {
        bson!({ "$gt": [self.value("last"), Bson::Null] })
    }
}
