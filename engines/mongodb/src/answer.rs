//! What a verb answers: a projection of the record, so that of a line of thousands only what the caller needs travels.

use std::time::Duration;

use mongodb::bson::{Bson, Document, RawDocumentBuf, bson, doc, rawdoc};
use tenure_core::{
    Error, Key, Left, NUMBER_MAX, Place, Result, Share, Standing, Tally, Ticket, TicketId, refusal,
    served,
};

use crate::lens::Lens;
use crate::line::{DOCUMENT_BYTES_MAX, did};

/// So many waiting tickets are told when the first holder's life ends: the others would all come at once, and their
/// heartbeats find out as well.
const NEAR: i64 = 3;

/// The projections of the verbs, which are made once.
pub(crate) struct Answers {
    place: RawDocumentBuf,
    pub(crate) left: RawDocumentBuf,
}

impl Answers {
    pub(crate) fn new(lens: &Lens) -> Self {
        let raw =
            |document: Document| RawDocumentBuf::try_from(&document).expect("it is a document");
        let (did, bell) = (lens.value("did"), lens.value("bell"));
        Self { place: raw(place(lens)), left: raw(doc! { "_id": 0, "did": did, "bell": bell }) }
    }

    /// Where this ticket stands, and what the step came to.
    pub(crate) fn place_of(&self, ticket: &Ticket) -> RawDocumentBuf {
        let vars = rawdoc! { "id": ticket.id.to_string() };
        rawdoc! { "_id": 0, "answer": { "$let": { "vars": vars, "in": self.place.clone() } } }
    }
}

/// The expression for where the ticket stands whose id is `$$id`.
fn place(lens: &Lens) -> Document {
    let value = |field: &str| Bson::String(lens.value(field));
    let index = |array: &str| bson!({ "$indexOfArray": [value(&format!("{array}.id")), "$$id"] });
    let of = |array: &str, at: &str, field: &str| bson!({ "$arrayElemAt": [value(&format!("{array}.{field}")), at] });
    let ahead = |array: &str, at: &str| bson!({ "$sum": { "$slice": [value(&format!("{array}.take")), at] } });
    let seat = |array: &str, at: &str| {
        doc! {
            "did": value("did"), "at": value("at"),
            "n": of(array, at, "n"), "ends": of(array, at, "ends"), "told": of(array, at, "told"),
            "owner": { "$cond": [{ "$eq": [value("did"), did::OF_ANOTHER] }, of(array, at, "owner"), "$$REMOVE"] },
        }
    };
    let mut held = seat("held", "$$h");
    held.insert("ahead", ahead("held", "$$h"));
    let mut waiting = seat("waiting", "$$w");
    waiting.insert(
        "ahead",
        bson!({ "$add": [{ "$sum": value("held.take") }, ahead("waiting", "$$w")] }),
    );
    let is_near = bson!({ "$lt": ["$$w", NEAR] });
    waiting.insert("look", bson!({ "$cond": [is_near, { "$min": value("held.ends") }, -1_i64] }));
    let absent =
        doc! { "did": value("did"), "at": value("at"), "of": value("of"), "last": value("last") };
    doc! { "$let": {
        "vars": { "h": index("held"), "w": index("waiting") },
        "in": { "$switch": {
            "branches": [
                { "case": { "$gte": ["$$h", 0] }, "then": held },
                { "case": { "$gte": ["$$w", 0] }, "then": waiting },
            ],
            "default": absent,
        } },
    } }
}

/// What a join came to.
pub(crate) fn joined(answer: &Document, ticket: &Ticket) -> Option<Result<Option<Place>>> {
    let answer = answer.get_document("answer").ok()?;
    let key = &ticket.key;
    Some(match whole(answer, "did")? {
        did::RENEWED | did::SERVED | did::QUEUED => Ok(Some(place_in(answer)?)),
        did::BUSY => Ok(None),
        did::MIXED => Err(refusal::other_capacity(key, number(answer, "of")?, ticket.share)),
        did::OF_ANOTHER => {
            Err(refusal::id_of_another(key, ticket.id, answer.get_str("owner").ok()?))
        }
        did::FULL => Err(refusal::line_is_full(key)),
        did::TOO_LONG => Err(Error::rejected(format!(
            "the line of {key:?} is full: its record has {} MiB, and takes no more tickets",
            DOCUMENT_BYTES_MAX >> 20
        ))),
        did::NO_NUMBERS_LEFT => {
            let after = number(answer, "last").unwrap_or(0) + 1;
            let clock = number(answer, "at")?.saturating_mul(1000);
            Err(refusal::no_numbers_left(key, after.max(clock).max(ticket.floor)))
        }
        _ => return None,
    })
}

/// What a renewal came to, or a look.
pub(crate) enum Stands {
    In(Place),
    Nowhere,
}

/// Reads where a ticket stands, if it stands in its line.
pub(crate) fn seen(answer: &Document) -> Option<Stands> {
    let answer = answer.get_document("answer").ok()?;
    if answer.contains_key("n") { place_in(answer).map(Stands::In) } else { Some(Stands::Nowhere) }
}

/// What is answered of a ticket that is the only one served.
pub(crate) fn fields_of_alone() -> RawDocumentBuf {
    rawdoc! { "_id": 0, "at": 1, "held.n": 1, "held.ends": 1 }
}

/// Where it stands.
pub(crate) fn alone(answer: &Document) -> Option<Place> {
    let seat = answer.get_array("held").ok()?.first()?.as_document()?;
    Some(Place {
        number: number(seat, "n")?,
        standing: Standing::Holding,
        ahead: 0,
        life: Some(millis(number(seat, "ends")?, number(answer, "at")?)),
        look: None,
        leaving: false,
    })
}

/// What a leave came to, and the letters that it wrote.
pub(crate) fn left(answer: &Document) -> Option<(Left, &str)> {
    let left = match whole(answer, "did")? {
        did::ABSENT => Left::Absent,
        did::WAITING => Left::Waiting,
        did::HOLDING => Left::Holding,
        did::TOLD => Left::Told,
        _ => return None,
    };
    Some((left, answer.get_str("bell").ok()?))
}

/// The tickets of a line, from the front.
pub(crate) fn line(answer: &Document, key: &Key) -> Option<Vec<(Ticket, Place)>> {
    let now = number(answer, "at")?;
    let of = u32::try_from(number(answer, "of")?).ok()?;
    let held = answer.get_array("held").ok()?;
    let seats = held.iter().chain(answer.get_array("waiting").ok()?);
    let mut line = Vec::with_capacity(held.len());
    let (mut ahead, mut first_end) = (0, u64::MAX);
    for seat in seats {
        let seat = seat.as_document()?;
        let share = Share::new(u32::try_from(number(seat, "take")?).ok()?, of).ok()?;
        let (ends, holding) = (number(seat, "ends")?, served(ahead, share));
        if holding {
            first_end = first_end.min(ends);
        }
        let place = Place {
            number: number(seat, "n")?,
            standing: if holding { Standing::Holding } else { Standing::Waiting },
            ahead,
            life: Some(millis(ends, now)),
            look: (!holding).then(|| millis(first_end, now)),
            leaving: seat.get_bool("told").ok()?,
        };
        ahead += u64::from(share.take());
        let ticket = Ticket {
            id: seat.get_str("id").ok()?.parse::<TicketId>().ok()?,
            key: key.clone(),
            share,
            ttl: Duration::from_micros(number(seat, "ttl_us")?),
            owner: seat.get_str("owner").ok()?.into(),
            note: seat.get_str("note").ok()?.into(),
            floor: 0,
        };
        line.push((ticket, place));
    }
    Some(line)
}

/// What a count came to.
pub(crate) fn tallied(answer: &Document, key: &Key, by: u64) -> Option<Result<Tally>> {
    let value = number(answer, "value")?;
    if !answer.get_bool("fits").ok()? {
        return Some(Err(refusal::count_is_full(key, value, by)));
    }
    let resets_in = match answer.get("ends") {
        Some(_) => Some(millis(number(answer, "ends")?, number(answer, "at")?)),
        None => None,
    };
    Some(Ok(Tally { value, allowed: answer.get_bool("allowed").ok()?, resets_in }))
}

fn place_in(answer: &Document) -> Option<Place> {
    let now = number(answer, "at")?;
    let look = answer.get("look").map(|_| whole(answer, "look"));
    Some(Place {
        number: number(answer, "n")?,
        standing: if look.is_some() { Standing::Waiting } else { Standing::Holding },
        ahead: number(answer, "ahead")?,
        life: Some(millis(number(answer, "ends")?, now)),
        look: look
            .flatten()
            .and_then(|ends| u64::try_from(ends).ok())
            .map(|ends| millis(ends, now)),
        leaving: answer.get_bool("told").ok()?,
    })
}

/// From one moment to another, or no time if that is over.
fn millis(until: u64, now: u64) -> Duration {
    Duration::from_millis(until.saturating_sub(now))
}

/// A number that is not negative.
fn number(document: &Document, field: &str) -> Option<u64> {
    u64::try_from(whole(document, field)?).ok().filter(|number| *number <= NUMBER_MAX)
}

/// A whole number, in whichever form the server gives it.
pub(crate) fn whole(document: &Document, field: &str) -> Option<i64> {
    match document.get(field)? {
        Bson::Int32(number) => Some((*number).into()),
        Bson::Int64(number) => Some(*number),
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a number that is not whole is none of Tenure's"
        )]
        Bson::Double(number) if number.fract() == 0.0 => Some(*number as i64),
        _ => None,
    }
}
