//! Lanes: each client sends one command at a time for a line, and batches all requests that come
//! meanwhile.
//!
//! MongoDB lets many commands try to change a document at once. All but one fail inside the server
//! and are retried there, so 100 tasks with one key would keep the server busy with retries.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, MutexGuard};

use mongodb::bson::Document;
use tenure_core::sync::Mutex;
use tenure_core::{Error, Key, Result, TicketId};
use tenure_kit::subscriptions::Subscriptions;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, timeout};

use crate::answer::{self, Outcome};
use crate::bundle;
use crate::call::{Calls, Update};
use crate::count::millis;
use crate::facts::Topology;
use crate::fresh::Fresh;
use crate::letter;
use crate::line::KEEP_MS;
use crate::local_tickets::LocalTickets;
use crate::location::Location;
use crate::projection::Reply;
use crate::request::{Request, Verb};
use crate::trouble;
use crate::turns::Turns;

/// Maximum wishes of one command.
const BATCH_MAX: usize = 64;
/// Maximum wishes that wait in one lane. A line has no more tickets.
const WAITING_MAX: usize = tenure_core::LINE_TICKETS_MAX;

/// The lanes of the lines that this client changes.
pub(crate) struct KeyedBatcher {
    carrier: Arc<BatchSender>,
}

/// Sends wishes to the server, and returns their answers.
struct BatchSender {
    calls: Arc<Calls>,
    posts: ClientState,
    topology: Topology,
    /// Limits the commands that change one document at a time.
    turns: Turns,
    /// The waiting wishes of each line that has a lane.
    waiting: Mutex<HashMap<String, VecDeque<Asked>>>,
}

/// The letters of this client's tickets, and the lines that these stand in.
pub(crate) struct ClientState {
    pub(crate) mail: Arc<Subscriptions>,
    pub(crate) roll: Arc<LocalTickets>,
    pub(crate) inbox: String,
}

/// A wish and its callers. Equal wishes share one answer.
struct Asked {
    wish: Request,
    answers: Vec<oneshot::Sender<Result<Outcome>>>,
}

impl KeyedBatcher {
    pub(crate) fn new(calls: Arc<Calls>, posts: ClientState, topology: Topology) -> Self {
        let (turns, waiting) = (Turns::default(), Mutex::default());
        let carrier = BatchSender { calls, posts, topology, turns, waiting };
        Self { carrier: Arc::new(carrier) }
    }

    /// Sends a wish for the line of a record, in a batch if a command is in flight there.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the wish is sent, it is not sent.
    pub(crate) async fn ask(&self, spot: &Arc<Location>, wish: Request) -> Result<Outcome> {
        let calls = &self.carrier.calls;
        let key = wish.ticket.key.clone();
        let answered = self.carrier.enter(spot, wish)?;
        match timeout(calls.timeout, answered).await {
            Ok(Ok(came)) => {
                let told = |error| trouble::in_line(error, &calls.collection, spot, &key);
                match came {
                    Ok(Outcome::Refused(error)) => Ok(Outcome::Refused(told(error))),
                    came => came.map_err(told),
                }
            }
            _ => Err(trouble::late(&calls.name)),
        }
    }

    /// Delivers the letters of a step that was not sent by a lane.
    pub(crate) fn hear(&self, said: &Document) {
        self.carrier.deliver(Some(said));
    }

    /// Waits for the caller's turn to change the document.
    pub(crate) async fn turn(&self, spot: &Location) -> Option<OwnedSemaphorePermit> {
        self.carrier.turn(spot).await
    }

    /// Returns the inbox of this client.
    pub(crate) fn inbox(&self) -> &str {
        &self.carrier.posts.inbox
    }

    /// Reads a whole line.
    pub(crate) async fn line(&self, spot: &Location, key: &Key) -> Result<Option<Document>> {
        let carrier = &self.carrier;
        let answer = carrier.calls.look(&bundle::line(spot), carrier.topology).await;
        let collection = &carrier.calls.collection;
        let answer = answer.map_err(|error| trouble::in_line(error, collection, spot, key))?;
        Ok(answer.map(|answer| spot.kit.answers.open(answer).said))
    }
}

impl BatchSender {
    fn enter(
        self: &Arc<Self>,
        spot: &Arc<Location>,
        wish: Request,
    ) -> Result<oneshot::Receiver<Result<Outcome>>> {
        let (answer, answered) = oneshot::channel();
        let asked = Asked { wish, answers: vec![answer] };
        let mut lanes = self.lanes();
        match lanes.get_mut(spot.line()) {
            Some(waiting) if waiting.len() >= WAITING_MAX => {
                return Err(Error::unavailable(format!(
                    "{WAITING_MAX} calls of this client wait for {} already, for the line of {:?}",
                    self.calls.name.servers, asked.wish.ticket.key
                )));
            }
            Some(waiting) => waiting.push_back(asked),
            None => {
                lanes.insert(spot.line().to_owned(), [asked].into());
                let (carrier, spot) = (self.clone(), spot.clone());
                self.calls.home.spawn(Lane { carrier, spot, is_open: true }.carry());
            }
        }
        Ok(answered)
    }

    /// Sends these wishes and returns the outcome of each. A single wish tries the short verb if
    /// that may apply.
    async fn send(&self, spot: &Location, wishes: &[&Request]) -> Result<Vec<Outcome>> {
        let (mut fresh, until) = (Fresh::new(), Instant::now() + self.calls.timeout);
        if let [wish] = wishes
            && let Some(came) = self.send_alone(spot, wish, &mut fresh, until).await?
        {
            return Ok(vec![came]);
        }
        let _turn = self.turn(spot).await;
        let strange = || trouble::strange(&self.calls.name);
        let mut left = HashMap::new();
        let (came, document) = loop {
            let mut sent: Vec<&Request> =
                wishes.iter().filter(|wish| !left.contains_key(&wish.ticket.id)).copied().collect();
            let answer = self.send_bundle(spot, &sent, &fresh).await?;
            let (said, document) = answer.map(|it| (it.said, it.document)).unzip();
            self.deliver(said.as_ref());
            if !fresh.sees(said.as_ref().filter(|_| spot.is_record())).await {
                break (
                    bundle::read(spot, &sent, said.as_ref()).ok_or_else(strange)?,
                    document.flatten(),
                );
            }
            // The record is fresh: the server refused the joins and made the leaves, which are not
            // sent again.
            sent.retain(|wish| matches!(wish.verb, Verb::Leave { .. }));
            let came = bundle::read(spot, &sent, said.as_ref()).ok_or_else(strange)?;
            left.extend(sent.iter().map(|wish| wish.ticket.id).zip(came));
            if Instant::now() > until {
                return Err(trouble::contended(&self.calls.name));
            }
        };
        let mut came = came.into_iter();
        let all = wishes.iter().map(|wish| {
            let came = left.remove(&wish.ticket.id).or_else(|| came.next())?;
            Some(came.reading(wish, document.as_ref()))
        });
        all.collect::<Option<_>>().ok_or_else(strange)
    }

    async fn send_bundle(
        &self,
        spot: &Location,
        wishes: &[&Request],
        fresh: &Fresh,
    ) -> Result<Option<Reply>> {
        let update = bundle::update(spot, wishes, &self.posts.inbox, fresh);
        let answer = if wishes.iter().all(|wish| wish.verb == Verb::Look) {
            self.calls.look(&update, self.topology).await?
        } else {
            self.calls.update(&update).await?
        };
        Ok(answer.map(|answer| spot.kit.answers.open(answer)))
    }

    /// Waits for a turn if the document may have several lines: MongoDB would let all their
    /// commands try at once.
    async fn turn(&self, spot: &Location) -> Option<OwnedSemaphorePermit> {
        match spot.kit.alone {
            Some(_) => None,
            None => Some(self.turns.wait(&spot.record).await),
        }
    }

    /// Sends the short verb, if it applies. Returns `None` if it does not, or the record was
    /// different from what was expected.
    async fn send_alone(
        &self,
        spot: &Location,
        wish: &Request,
        fresh: &mut Fresh,
        until: Instant,
    ) -> Result<Option<Outcome>> {
        // Only a join is refused by a fresh record. A record in which a ticket stands may have the
        // field `made`, too.
        let may_be_fresh = spot.is_record() && matches!(wish.verb, Verb::Join { .. });
        let answer = loop {
            let Some(update) = self.alone(spot, wish, fresh) else { return Ok(None) };
            let Some(answer) = self.calls.update(&update).await? else { return Ok(None) };
            let answer = spot.kit.answers.open_alone(answer);
            if !fresh.sees(Some(&answer.said).filter(|_| may_be_fresh)).await {
                break answer;
            }
            if Instant::now() > until {
                return Err(trouble::contended(&self.calls.name));
            }
        };
        if let Verb::Join { .. } = wish.verb {
            self.posts.roll.came_alone(&spot.record, wish.ticket.id);
        }
        self.deliver(Some(&answer.said));
        let came = answer::alone(&answer.said, wish.verb);
        let came = came.ok_or_else(|| trouble::strange(&self.calls.name))?;
        Ok(Some(came.reading(wish, answer.document.as_ref())))
    }

    /// Returns the short verb for a ticket that may be alone in its line.
    fn alone<'a>(
        &'a self,
        spot: &'a Location,
        wish: &Request,
        fresh: &Fresh,
    ) -> Option<Update<'a>> {
        let (ticket, record, alone) = (&wish.ticket, &spot.record, spot.kit.alone.as_ref()?);
        let is_likely = match wish.verb {
            Verb::Join { .. } => {
                !self.posts.roll.has_others(record, ticket.id) && ticket.floor == 0
            }
            Verb::Renew => self.posts.roll.may_be_alone(record, ticket.id) && ticket.floor == 0,
            // A ticket with a long ttl leaves a date that is far away.
            Verb::Leave { soon } => {
                let lived_long = millis(ticket.ttl) > KEEP_MS;
                !soon && !lived_long && self.posts.roll.may_be_alone(record, ticket.id)
            }
            Verb::Look => false,
        };
        let (inbox, is_known) = (&self.posts.inbox, !fresh.seen().is_empty());
        let short = match wish.verb {
            _ if !is_likely => return None,
            Verb::Join { .. } if is_known => alone.first(ticket, inbox, fresh),
            Verb::Join { .. } => alone.join(ticket, inbox, fresh),
            Verb::Renew => alone.renew(ticket, inbox),
            Verb::Leave { .. } => alone.leave(ticket, inbox),
            Verb::Look => return None,
        };
        Some(Update {
            filter: &spot.filter,
            filling: None,
            first: short.first,
            stages: [short.stages, &[], &[]],
            fields: match wish.verb {
                Verb::Leave { .. } => spot.kit.answers.of_leave_alone(),
                _ => spot.kit.answers.of_alone(&wish.reads),
            },
            // A document that is filled when it is inserted takes the long verb. A known fresh
            // record exists, or the long verb inserts another one.
            makes: matches!(wish.verb, Verb::Join { .. })
                && spot.makes
                && spot.filling.is_none()
                && !is_known,
            expects: short.expects,
            sort: None,
        })
    }

    /// Delivers the letters in an answer to tickets of this client, which need no change stream
    /// then.
    fn deliver(&self, answer: Option<&Document>) {
        if let Some(notices) = answer.and_then(|answer| answer.get_str("notices").ok()) {
            letter::deliver(&self.posts.mail, &self.posts.inbox, notices);
        }
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<String, VecDeque<Asked>>> {
        self.waiting.lock()
    }
}

/// The lane of one record, while a command is in flight. If its task ends early, waiting callers
/// get an error.
struct Lane {
    carrier: Arc<BatchSender>,
    spot: Arc<Location>,
    is_open: bool,
}

impl Lane {
    async fn carry(mut self) {
        loop {
            let asked = self.next();
            if asked.is_empty() {
                return;
            }
            let wishes: Vec<&Request> = asked.iter().map(|one| &one.wish).collect();
            for wish in wishes.iter().filter(|wish| matches!(wish.verb, Verb::Join { .. })) {
                self.carrier.posts.roll.sends(&self.spot.record, wish.ticket.id);
            }
            let came = self.carrier.send(&self.spot, &wishes).await;
            for (at, one) in asked.into_iter().enumerate() {
                let came = came.as_ref().map(|all| all[at].clone()).map_err(Error::clone);
                for answer in one.answers {
                    let _ = answer.send(came.clone()); // the caller may have gone
                }
            }
        }
    }

    /// Takes the next batch. If there is none, the lane is closed.
    fn next(&mut self) -> Vec<Asked> {
        let mut lanes = self.carrier.lanes();
        let waiting = lanes.get_mut(self.spot.line());
        let next = waiting.map(take).unwrap_or_default();
        if next.is_empty() {
            lanes.remove(self.spot.line());
            self.is_open = false;
        }
        next
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.is_open {
            self.carrier.lanes().remove(self.spot.line());
        }
    }
}

/// Takes the next batch of at most [`BATCH_MAX`] wishes. Leaves come first, because other
/// tickets wait for them. The tickets of a batch differ, and wishes without a caller are dropped.
fn take(waiting: &mut VecDeque<Asked>) -> Vec<Asked> {
    let mut tickets: HashMap<TicketId, usize> = HashMap::new();
    let mut next: Vec<Asked> = Vec::new();
    let mut later = VecDeque::new();
    waiting.retain(|asked| !asked.answers.iter().all(oneshot::Sender::is_closed));
    waiting.make_contiguous().sort_by_key(|asked| !matches!(asked.wish.verb, Verb::Leave { .. }));
    while next.len() < BATCH_MAX
        && let Some(asked) = waiting.pop_front()
    {
        match tickets.get(&asked.wish.ticket.id) {
            Some(at) if next[*at].wish == asked.wish => next[*at].answers.extend(asked.answers),
            Some(_) => later.push_back(asked),
            None => {
                tickets.insert(asked.wish.ticket.id, next.len());
                next.push(asked);
            }
        }
    }
    later.append(waiting);
    *waiting = later;
    next
}

#[cfg(test)]
mod tests {
    use tenure_core::{Share, Ticket};

    use super::*;

    fn asks(ticket: &Ticket, verb: Verb) -> (Asked, oneshot::Receiver<Result<Outcome>>) {
        let (answer, answered) = oneshot::channel();
        (Asked { wish: Request::new(ticket.clone(), verb), answers: vec![answer] }, answered)
    }

    #[test]
    fn a_ticket_is_once_in_a_command_and_a_wish_without_a_caller_is_not_sent() {
        let ticket = || Ticket::new(Key::new("k").unwrap(), Share::WHOLE);
        let (one, other) = (ticket(), ticket());
        let (asked, mut listens): (VecDeque<_>, Vec<_>) = [
            asks(&one, Verb::Renew),
            asks(&one, Verb::Join { hurry: false }),
            asks(&one, Verb::Renew),
            asks(&one, Verb::Look),
            asks(&other, Verb::Leave { soon: false }),
        ]
        .into_iter()
        .unzip();
        let mut waiting = asked;
        drop(listens.remove(1));
        let next = |waiting: &mut _| {
            let next = take(waiting).into_iter();
            next.map(|asked| (asked.wish.ticket.id, asked.wish.verb)).collect::<Vec<_>>()
        };
        let leave = (other.id, Verb::Leave { soon: false });
        assert_eq!(next(&mut waiting), [leave, (one.id, Verb::Renew)], "both renewals are one");
        assert_eq!(next(&mut waiting), [(one.id, Verb::Look)]);
        assert!(next(&mut waiting).is_empty() && waiting.is_empty());
    }

    #[test]
    fn a_command_has_a_limit_and_the_others_go_with_the_next() {
        let mut listens = Vec::new();
        let mut waiting: VecDeque<Asked> = VecDeque::new();
        for _ in 0..=BATCH_MAX {
            let (asked, listen) =
                asks(&Ticket::new(Key::new("k").unwrap(), Share::WHOLE), Verb::Look);
            waiting.push_back(asked);
            listens.push(listen);
        }
        assert_eq!((take(&mut waiting).len(), take(&mut waiting).len()), (BATCH_MAX, 1));
    }
}
