//! A batch: the requests for one record that are sent at the same time, as one command.

use mongodb::bson::{Document, RawArrayBuf, RawDocumentBuf, cstr, rawdoc};
use tenure_core::TicketId;

use crate::answer::{AnswerReader, VerbOutcome};
use crate::command::RecordUpdate;
use crate::counter::millis;
use crate::fresh::Fresh;
use crate::line::VerbSet;
use crate::location::Location;
use crate::request::{Reads, TicketRequest, Verb};

/// Builds the command for these requests, each of which is for another ticket.
pub(crate) fn update<'a>(
    location: &'a Location,
    requests: &[&TicketRequest],
    inbox: &str,
    fresh: &Fresh,
) -> RecordUpdate<'a> {
    let verbs = VerbSet {
        renews: requests.iter().any(|request| request.verb == Verb::Renew),
        leaves: requests.iter().any(|request| request.is_leave()),
        joins: requests.iter().any(|request| request.is_join()),
    };
    let seen = requests.iter().filter(|request| !request.is_leave());
    let reads = requests.iter().fold(Reads::Nothing, |reads, request| reads.and(&request.reads));
    let projections = &location.pipelines.answers;
    RecordUpdate {
        filling: location.filling.as_deref().filter(|_| verbs.joins),
        makes: verbs.joins && location.makes,
        expects: if verbs.joins { RawDocumentBuf::new() } else { projections.stands() },
        ..RecordUpdate::new(
            &location.filter,
            first(location, requests, inbox, fresh),
            location.pipelines.stages(verbs),
            projections.of(seen.map(|request| &request.ticket), verbs, &reads),
        )
    }
}

/// Builds the command with which a ticket leaves that did something else earlier in the same step.
pub(crate) fn leave<'a>(location: &'a Location, id: TicketId, inbox: &str) -> RecordUpdate<'a> {
    let mut leave = RawArrayBuf::new();
    leave.push(rawdoc! { "id": id.to_string(), "soon": false });
    let ask = rawdoc! { "inbox": inbox, "ttl": 0_i64, "leave": leave };
    let stages = location.pipelines.stages(VerbSet { leaves: true, ..VerbSet::default() });
    RecordUpdate::new(
        &location.filter,
        location.pipelines.answers.asks(ask),
        stages,
        RawDocumentBuf::new(),
    )
}

/// Builds the command that reads a whole line.
pub(crate) fn line(location: &Location) -> RecordUpdate<'_> {
    let projections = &location.pipelines.answers;
    let first = projections.asks(rawdoc! { "ttl": 0_i64 });
    let stages = location.pipelines.stages(VerbSet::default());
    RecordUpdate::new(&location.filter, first, stages, projections.line())
}

/// Returns the outcome of each request, or `None` if the record is none of Tenure's.
pub(crate) fn read(
    location: &Location,
    requests: &[&TicketRequest],
    answer: Option<&Document>,
) -> Option<Vec<VerbOutcome>> {
    let Some(answer) = answer else {
        return Some(requests.iter().map(|request| VerbOutcome::of_nobody(request.verb)).collect());
    };
    let mut reader = AnswerReader::new(answer, requests, &location.pipelines.refusals)?;
    requests.iter().map(|request| reader.next(request)).collect()
}

/// The first stage, with what the callers ask for.
pub(crate) fn first(
    location: &Location,
    requests: &[&TicketRequest],
    inbox: &str,
    fresh: &Fresh,
) -> RawDocumentBuf {
    let (mut renew, mut leave, mut join) =
        (RawArrayBuf::new(), RawArrayBuf::new(), RawArrayBuf::new());
    let mut longest = 0;
    for request in requests {
        match request.verb {
            Verb::Join { .. } => join.push(request.argument()),
            Verb::Renew => renew.push(request.argument()),
            Verb::Leave { .. } => leave.push(request.argument()),
            Verb::Look => {}
        }
        if matches!(request.verb, Verb::Join { .. } | Verb::Renew) {
            longest = longest.max(millis(request.ticket.ttl));
        }
    }
    let mut ask = rawdoc! { "inbox": inbox, "ttl": longest };
    for (name, arguments) in [(cstr!("renew"), renew), (cstr!("leave"), leave)] {
        if !arguments.is_empty() {
            ask.append(name, arguments);
        }
    }
    if !join.is_empty() {
        let key = requests.first().map_or("", |request| request.ticket.key.as_str());
        ask.append(cstr!("key"), key);
        ask.append(cstr!("join"), join);
        fresh.name_in(&mut ask);
    }
    location.pipelines.answers.asks(ask)
}
