//! A bundle: the wishes for one record that are sent at the same time, as one command.

use mongodb::bson::{Document, RawArrayBuf, RawDocumentBuf, rawdoc};
use tenure_core::TicketId;

use crate::answer::{self, Outcome};
use crate::ask::{joins, renews};
use crate::call::Update;
use crate::count::millis;
use crate::fresh::Fresh;
use crate::line::VerbSet;
use crate::location::Location;
use crate::projection::Projections;
use crate::request::{Reads, Request, Verb};

/// Builds the command for these wishes, each of which is for another ticket. There is at least one.
pub(crate) fn update<'a>(
    spot: &'a Location,
    wishes: &[&Request],
    inbox: &str,
    fresh: &Fresh,
) -> Update<'a> {
    let mixture = VerbSet {
        renews: wishes.iter().any(|wish| wish.verb == Verb::Renew),
        leaves: wishes.iter().any(|wish| matches!(wish.verb, Verb::Leave { .. })),
        joins: wishes.iter().any(|wish| matches!(wish.verb, Verb::Join { .. })),
    };
    let seen = wishes.iter().filter(|wish| !matches!(wish.verb, Verb::Leave { .. }));
    let reads = wishes.iter().fold(Reads::Nothing, |reads, wish| reads.and(&wish.reads));
    let answers = &spot.kit.answers;
    Update {
        filter: &spot.filter,
        filling: spot.filling.as_deref().filter(|_| mixture.joins),
        first: first(wishes, inbox, answers, Some(fresh)),
        stages: spot.kit.stages(mixture),
        fields: answers.of(seen.map(|wish| &wish.ticket), mixture, &reads),
        makes: mixture.joins && spot.makes,
        expects: if mixture.joins { RawDocumentBuf::new() } else { answers.stands() },
        sort: None,
    }
}

/// Builds the command with which a ticket leaves that did something else earlier in the same step.
pub(crate) fn leave<'a>(spot: &'a Location, id: TicketId, inbox: &str) -> Update<'a> {
    let (mixture, answers) = (VerbSet { leaves: true, ..VerbSet::default() }, &spot.kit.answers);
    let mut leave = RawArrayBuf::new();
    leave.push(rawdoc! { "id": id.to_string(), "soon": false });
    let ask = rawdoc! {
        "key": "", "inbox": inbox, "ttl": 0_i64, "renew": [], "leave": leave, "join": [],
    };
    Update {
        filter: &spot.filter,
        filling: None,
        first: answers.asks(ask),
        stages: spot.kit.stages(mixture),
        fields: RawDocumentBuf::new(),
        makes: false,
        expects: RawDocumentBuf::new(),
        sort: None,
    }
}

/// Builds the command that reads a whole line.
pub(crate) fn line(spot: &Location) -> Update<'_> {
    let answers = &spot.kit.answers;
    Update {
        filter: &spot.filter,
        filling: None,
        first: first(&[], "", answers, None),
        stages: spot.kit.stages(VerbSet::default()),
        fields: answers.line(),
        makes: false,
        expects: RawDocumentBuf::new(),
        sort: None,
    }
}

/// Returns the outcome of each wish, or `None` if the record is none of Tenure's.
pub(crate) fn read(
    spot: &Location,
    wishes: &[&Request],
    answer: Option<&Document>,
) -> Option<Vec<Outcome>> {
    let Some(answer) = answer else {
        return Some(wishes.iter().map(|wish| Outcome::of_nobody(wish.verb)).collect());
    };
    let mut reader = answer::Reader::new(answer, wishes, &spot.kit.refusals)?;
    wishes.iter().map(|wish| reader.next(wish)).collect()
}

/// The first stage, with what the callers ask for.
fn first(
    wishes: &[&Request],
    inbox: &str,
    answers: &Projections,
    fresh: Option<&Fresh>,
) -> RawDocumentBuf {
    let (mut renew, mut leave, mut join) =
        (RawArrayBuf::new(), RawArrayBuf::new(), RawArrayBuf::new());
    let mut longest = 0;
    for wish in wishes {
        let ticket = &wish.ticket;
        if matches!(wish.verb, Verb::Join { .. } | Verb::Renew) {
            longest = longest.max(millis(ticket.ttl));
        }
        match wish.verb {
            Verb::Join { hurry } => join.push(joins(ticket, hurry)),
            Verb::Renew => renew.push(renews(ticket)),
            Verb::Leave { soon } => {
                leave.push(rawdoc! { "id": ticket.id.to_string(), "soon": soon });
            }
            Verb::Look => {}
        }
    }
    let key = wishes.first().map_or("", |wish| wish.ticket.key.as_str());
    let mut ask = rawdoc! {
        "key": key, "inbox": inbox, "ttl": longest, "renew": renew, "leave": leave, "join": join,
    };
    if let Some(fresh) = fresh {
        fresh.name_in(&mut ask);
    }
    answers.asks(ask)
}
