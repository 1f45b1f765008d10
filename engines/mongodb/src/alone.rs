//! Alone: three short verbs for a ticket that is the only one served, in a line in which no
//! ticket's life can have ended.
//!
//! MongoDB parses a pipeline anew for each call, so a short one saves the server much work. Each
//! short verb names what it expects of the record. If the record is different, nothing happens, and
//! the client sends the verb for all kinds of lines.

use mongodb::bson::raw::CString;
use mongodb::bson::{Bson, Document, RawDocumentBuf, bson, cstr, doc, rawdoc};
use tenure_core::Ticket;

use crate::ask::joins;
use crate::field_prefix::FieldPrefix;
use crate::fresh::Fresh;
use crate::line::{KEEP_MS, Writer, c_string, did, raw};

/// A short verb of one ticket: what it expects of the record besides the id, and its stages.
pub(crate) struct FastCommand<'a> {
    pub(crate) expects: RawDocumentBuf,
    pub(crate) first: RawDocumentBuf,
    pub(crate) stages: &'a [RawDocumentBuf],
}

/// The part of a verb that is the same for all tickets.
struct Plan {
    expects: RawDocumentBuf,
    /// Fields that its first stage sets besides `ask`.
    sets: RawDocumentBuf,
    /// Stages after the first.
    stages: Vec<RawDocumentBuf>,
}

impl Plan {
    /// The first stage sets `sets`, and the second one `fields`.
    fn in_stages(expects: &Document, sets: &Document, fields: Document) -> Self {
        let stages = vec![raw(&doc! { "$set": fields })];
        Self { expects: raw(expects), sets: raw(sets), stages }
    }
}

/// The three short verbs, which are built once.
pub(crate) struct Uncontended {
    /// Into an empty line.
    join: Plan,
    /// Into a fresh record, by a command that names it.
    first: Plan,
    renew: Plan,
    /// Out of a line, whose next tickets are served.
    leave: Plan,
    ask: CString,
    /// Names of fields of the only ticket served: its id, its take, and its inbox.
    names: [CString; 3],
}

impl Uncontended {
    /// Builds the short verbs of a line in this place, which is no part.
    pub(crate) fn new(lens: &FieldPrefix) -> Self {
        let writer = Writer(lens);
        let (renew, leave) = (writer.renew_alone(), writer.leave_alone());
        let join = writer.join_alone();
        let first = writer.join_first();
        let ask = c_string(lens.name("ask"));
        let names =
            ["id", "take", "inbox"].map(|field| c_string(lens.name(&format!("held.0.{field}"))));
        Self { join, first, renew, leave, ask, names }
    }

    /// Joins a record, which is inserted if there is none. An inserted record is fresh, and the
    /// ticket does not stand in it yet.
    pub(crate) fn join(&self, ticket: &Ticket, inbox: &str, fresh: &Fresh) -> FastCommand<'_> {
        self.asks(&self.join, ticket, inbox, Some(fresh))
    }

    /// Joins the fresh record that the client has seen, which must be there.
    pub(crate) fn first(&self, ticket: &Ticket, inbox: &str, fresh: &Fresh) -> FastCommand<'_> {
        let mut short = self.asks(&self.first, ticket, inbox, None);
        short.expects.append(cstr!("made"), fresh.seen());
        short
    }

    /// Renews a ticket whose share is unchanged.
    pub(crate) fn renew(&self, ticket: &Ticket, inbox: &str) -> FastCommand<'_> {
        let mut short = self.asks(&self.renew, ticket, inbox, None);
        let [id, take, _] = &self.names;
        short.expects.append(id, ticket.id.to_string());
        short.expects.append(take, i64::from(ticket.share.take()));
        short
    }

    pub(crate) fn leave(&self, ticket: &Ticket, inbox: &str) -> FastCommand<'_> {
        let mut expects = self.leave.expects.clone();
        let [id, _, own] = &self.names;
        expects.append(id, ticket.id.to_string());
        expects.append(own, inbox);
        let first = rawdoc! { "$set": self.leave.sets.clone() };
        FastCommand { expects, first, stages: &self.leave.stages }
    }

    fn asks<'a>(
        &self,
        plan: &'a Plan,
        ticket: &Ticket,
        inbox: &str,
        fresh: Option<&Fresh>,
    ) -> FastCommand<'a> {
        let one = joins(ticket, false);
        let mut ask = rawdoc! { "key": ticket.key.as_str(), "inbox": inbox, "one": one };
        if let Some(fresh) = fresh {
            ask.append(cstr!("made"), fresh.name());
        }
        let mut sets = plan.sets.clone();
        sets.append(&self.ask, rawdoc! { "$literal": ask });
        let first = rawdoc! { "$set": sets };
        FastCommand { expects: plan.expects.clone(), first, stages: &plan.stages }
    }
}

impl Writer<'_> {
    fn join_alone(&self) -> Plan {
        let mut expects = self.nobody_readable();
        if self.0.field_name().is_some() {
            // Most of the document is the program's own, and may be long.
            let size = bson!({ "$bsonSize": "$$ROOT" });
            expects.insert("$expr", bson!({ "$lt": [size, self.0.limits.tickets] }));
            return self.join_by(&expects, Document::new(), |number, _| number);
        }
        // A record that this command inserts is fresh.
        let unless_fresh = |it, fresh| bson!({ "$cond": [self.has_last(), it, fresh] });
        let made = unless_fresh(bson!("$$REMOVE"), self.value("ask.made"));
        self.join_by(&expects, self.fields([("made", made)]), unless_fresh)
    }

    fn join_first(&self) -> Plan {
        let mut expects = self.nobody_readable();
        expects.insert(self.0.name("last"), absent());
        let known = self.fields([("made", bson!("$$REMOVE"))]);
        self.join_by(&expects, known, |it, _| it)
    }

    /// A ticket that joins an empty line, unless the record is fresh.
    fn join_by(
        &self,
        expects: &Document,
        also: Document,
        unless_fresh: impl Fn(Bson, Bson) -> Bson,
    ) -> Plan {
        let last = bson!({ "$add": [{ "$ifNull": [self.value("last"), 0_i64] }, 1_i64] });
        let next = bson!({ "$max": [last, { "$multiply": [self.now(), 1000_i64] }] });
        let next = unless_fresh(next, bson!("$$REMOVE"));
        let size = bson!({ "$bsonSize": "$$ROOT" });
        let sets = self.fields([("at", self.now()), ("last", next), ("bytes", size)]);
        let one = |field: &str| self.value(&format!("ask.one.{field}"));
        let mut number = self.value("last");
        if self.0.field_name().is_some() {
            // A stranger may have removed the last number of a document. Then the clock alone
            // counts.
            number = bson!({ "$add": [number, one("low")] });
        }
        let seat = bson!({
            "id": one("id"), "n": number.clone(), "ends": self.ends(), "take": one("take"), "told": false,
            "inbox": self.value("ask.inbox"), "ttl_us": one("ttl_us"), "owner": one("owner"), "note": one("note"),
        });
        let mut fields = self.said_by_step(Some(did::SERVED));
        fields.extend(self.fields([
            ("did", unless_fresh(bson!([did::SERVED]), bson!([]))),
            ("held", unless_fresh(bson!([seat]), bson!([]))),
            ("waiting", bson!([])),
            ("of", one("of")),
            ("next_expiry", self.ends()),
            ("key", bson!({ "$ifNull": [self.value("key"), self.value("ask.key")] })),
            ("reap", self.reap_alone(&[is_late_enough(), is_soon_enough()])),
            ("ask", bson!("$$REMOVE")),
        ]));
        if self.0.field_name().is_some() {
            fields.extend(self.fields([("last", number)]));
        }
        fields.extend(also);
        Plan::in_stages(expects, &sets, fields)
    }

    fn renew_alone(&self) -> Plan {
        let expects = doc! {
            self.0.name("held.1"): absent(),
            self.0.name("held.0.told"): false,
            self.0.name("bytes"): { "$lt": self.0.limits.notes },
            "$expr": self.is_calm(),
        };
        let changes = bson!({
            "ends": { "$max": ["$$it.ends", self.ends()] },
            "inbox": self.value("ask.inbox"),
            "note": self.value("ask.one.note"),
        });
        let renewed = bson!({ "$let": {
            "vars": { "it": { "$arrayElemAt": [self.value("held"), 0] } },
            "in": { "$mergeObjects": ["$$it", changes] },
        } });
        let mut fields = self.said_by_step(None);
        fields.extend(self.fields([
            ("held", bson!([renewed])),
            ("reap", self.reap_alone(&[is_late_enough()])),
            ("ask", bson!("$$REMOVE")),
        ]));
        let sets = self.fields([("at", self.now())]);
        Plan::in_stages(&expects, &sets, fields)
    }

    /// Leaves, and serves the next tickets. The date of the record stays as it is, so the index is
    /// not written.
    fn leave_alone(&self) -> Plan {
        let expects = doc! {
            self.0.name("held.1"): absent(),
            "$expr": { "$and": [self.is_calm(), self.is_readable()] },
        };
        let mut sets = self.said_by_step(Some(did::HOLDING));
        sets.extend(self.fields([("held", bson!([])), ("at", self.now())]));
        let serve = doc! { "$set": self.next_served() };
        Plan {
            expects: raw(&expects),
            sets: raw(&sets),
            stages: vec![raw(&self.count_newly_served()), raw(&serve)],
        }
    }

    /// The date at which the record may be reaped. It stays as it is if it satisfies `will_do`.
    fn reap_alone(&self, will_do: &[Bson]) -> Bson {
        let reap = self.value("reap");
        let first = bson!({ "$arrayElemAt": [reap.clone(), 0] });
        let kept = bson!({ "$cond": [{ "$isArray": reap.clone() }, first, Bson::Null] });
        let least = bson!({ "$max": [self.ends(), self.passed()] });
        bson!({ "$let": {
            "vars": { "kept": kept, "least": least },
            "in": { "$cond": [{ "$and": will_do }, reap, [date("$$least", 2 * KEEP_MS), true]] },
        } })
    }

    /// The fields that every step writes.
    fn said_by_step(&self, did: Option<i64>) -> Document {
        let step = bson!({ "$add": [{ "$ifNull": [self.value("step"), 0_i64] }, 1_i64] });
        let did: Vec<i64> = did.into_iter().collect();
        self.fields([
            ("notices", bson!("")),
            ("did", bson!(did)),
            ("newly_served", bson!(0_i64)),
            ("step", step),
        ])
    }

    fn now(&self) -> Bson {
        bson!({ "$max": [self.value("at"), { "$toLong": "$$NOW" }] })
    }

    /// The end of a life that begins now.
    fn ends(&self) -> Bson {
        bson!({ "$add": [self.value("at"), self.value("ask.one.ttl")] })
    }

    /// The time at which the clock has passed the last number.
    fn passed(&self) -> Bson {
        bson!({ "$toLong": { "$divide": [self.value("last"), 1000_i64] } })
    }

    /// Whether no ticket's life has ended.
    fn is_calm(&self) -> Bson {
        bson!({ "$gt": [self.value("next_expiry"), self.now()] })
    }
}

fn is_late_enough() -> Bson {
    bson!({ "$gte": ["$$kept", date("$$least", KEEP_MS)] })
}

/// Only for an empty line: in others a ticket may live longer.
fn is_soon_enough() -> Bson {
    bson!({ "$lte": ["$$kept", date("$$least", 2 * KEEP_MS)] })
}

fn date(from: &str, keep: i64) -> Bson {
    bson!({ "$toDate": { "$add": [from, keep] } })
}

fn absent() -> Document {
    doc! { "$exists": false }
}
