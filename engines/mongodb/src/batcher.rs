//! The batcher: each client sends one command at a time for a line, and batches all requests that
//! come meanwhile.
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

use crate::answer::VerbOutcome;
use crate::batch;
use crate::command::CommandSender;
use crate::facts::Topology;
use crate::fresh::Fresh;
use crate::letter;
use crate::local_tickets::LocalTickets;
use crate::location::Location;
use crate::projection::Reply;
use crate::record_map::RecordTurns;
use crate::request::{TicketRequest, Verb};
use crate::short::{EmptyLine, EmptyLines};
use crate::trouble;

/// Maximum requests of one command.
const BATCH_MAX: usize = 64;
/// Maximum requests that wait for one line. A line has no more tickets.
const WAITING_MAX: usize = tenure_core::LINE_TICKETS_MAX;

/// Sends the requests for each line, one command at a time.
pub(crate) struct KeyedBatcher {
    sender: Arc<BatchSender>,
}

/// Sends batches to the server, and returns their answers.
struct BatchSender {
    commands: Arc<CommandSender>,
    client: ClientState,
    topology: Topology,
    /// Limits the commands that change one document at a time.
    turns: RecordTurns,
    empty_lines: EmptyLines,
    /// The waiting requests of each line with a command in flight.
    waiting: Mutex<HashMap<String, VecDeque<QueuedRequest>>>,
}

/// The letters, tickets and inbox of this client.
pub(crate) struct ClientState {
    pub(crate) mail: Arc<Subscriptions>,
    pub(crate) tickets: Arc<LocalTickets>,
    pub(crate) inbox: String,
}

/// A request and its callers. Equal requests share one answer.
struct QueuedRequest {
    request: TicketRequest,
    answers: Vec<oneshot::Sender<Result<VerbOutcome>>>,
}

impl KeyedBatcher {
    pub(crate) fn new(
        commands: Arc<CommandSender>,
        client: ClientState,
        topology: Topology,
    ) -> Self {
        let (turns, waiting) = (RecordTurns::default(), Mutex::default());
        let empty_lines = EmptyLines::default();
        let sender = BatchSender { commands, client, topology, turns, empty_lines, waiting };
        Self { sender: Arc::new(sender) }
    }

    /// Sends a request for the line at this location, in a batch if a command is in flight there.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the request is sent, it is not sent.
    pub(crate) async fn ask(
        &self,
        location: &Arc<Location>,
        request: TicketRequest,
    ) -> Result<VerbOutcome> {
        let commands = &self.sender.commands;
        let key = request.ticket.key.clone();
        let answered = self.sender.enter(location, request)?;
        match timeout(commands.timeout, answered).await {
            Ok(Ok(outcome)) => {
                let told = |error| trouble::in_line(error, &commands.collection, location, &key);
                match outcome {
                    Ok(VerbOutcome::Refused(error)) => Ok(VerbOutcome::Refused(told(error))),
                    outcome => outcome.map_err(told),
                }
            }
            _ => Err(trouble::late(&commands.servers)),
        }
    }

    /// Delivers the letters of a step that was not sent by this.
    pub(crate) fn deliver(&self, said: &Document) {
        self.sender.deliver(Some(said));
    }

    /// Waits for the caller's turn to change the document.
    pub(crate) async fn turn(&self, location: &Location) -> Option<OwnedSemaphorePermit> {
        self.sender.turn(location).await
    }

    /// Returns the turns of commands that change one record.
    pub(crate) fn turns(&self) -> &RecordTurns {
        &self.sender.turns
    }

    /// Returns the inbox of this client.
    pub(crate) fn inbox(&self) -> &str {
        &self.sender.client.inbox
    }

    /// Reads a whole line.
    pub(crate) async fn line(&self, location: &Location, key: &Key) -> Result<Option<Document>> {
        let commands = &self.sender.commands;
        let answer = commands.look(&batch::line(location), self.sender.topology).await;
        let answer =
            answer.map_err(|error| trouble::in_line(error, &commands.collection, location, key))?;
        Ok(answer.map(|answer| location.pipelines.answers.open(answer).said))
    }
}

impl BatchSender {
    fn enter(
        self: &Arc<Self>,
        location: &Arc<Location>,
        request: TicketRequest,
    ) -> Result<oneshot::Receiver<Result<VerbOutcome>>> {
        let (answer, answered) = oneshot::channel();
        if self.queue(location, QueuedRequest { request, answers: vec![answer] })? {
            // Without the lock: a runtime that has ended drops the worker at once.
            let (sender, location) = (self.clone(), location.clone());
            self.commands.runtime.spawn(LineWorker { sender, location, is_open: true }.work());
        }
        Ok(answered)
    }

    /// Puts a request into the queue of its line. Returns whether the line needs a worker.
    fn queue(&self, location: &Location, queued: QueuedRequest) -> Result<bool> {
        let mut lines = self.lines();
        let Some(waiting) = lines.get_mut(location.line()) else {
            lines.insert(location.line().to_owned(), [queued].into());
            return Ok(true);
        };
        if waiting.len() >= WAITING_MAX {
            return Err(Error::unavailable(format!(
                "{WAITING_MAX} calls of this client wait for {} already, for the line of {:?}",
                self.commands.servers.label, queued.request.ticket.key
            )));
        }
        waiting.push_back(queued);
        Ok(false)
    }

    /// Sends these requests and returns the outcome of each. The joins that found a fresh record
    /// are sent again, and name it.
    async fn send(
        &self,
        location: &Location,
        requests: &[&TicketRequest],
    ) -> Result<Vec<VerbOutcome>> {
        let until = Instant::now() + self.commands.timeout;
        if let [request] = requests
            && let Some(outcome) = self.send_short(location, request).await?
        {
            return Ok(vec![outcome]);
        }
        let mut fresh = Fresh::new();
        let mut outcomes = vec![VerbOutcome::Fresh; requests.len()];
        let _turn = self.turn(location).await;
        loop {
            let is_open = |at: &usize| matches!(outcomes[*at], VerbOutcome::Fresh);
            let open: Vec<usize> = (0..requests.len()).filter(is_open).collect();
            if open.is_empty() {
                return Ok(outcomes);
            }
            if Instant::now() > until {
                return Err(trouble::contended(&self.commands.servers));
            }
            let sent: Vec<&TicketRequest> = open.iter().map(|at| requests[*at]).collect();
            let reply = self.send_batch(location, &sent, &fresh).await?;
            let (said, document) = reply.map(|reply| (reply.said, reply.document)).unzip();
            self.deliver(said.as_ref());
            let read = batch::read(location, &sent, said.as_ref());
            let read = read.ok_or_else(|| trouble::strange(&self.commands.servers))?;
            if read.iter().any(|outcome| matches!(outcome, VerbOutcome::Fresh)) {
                fresh.see(said.as_ref()).await;
            }
            for (at, outcome) in open.into_iter().zip(read) {
                outcomes[at] =
                    outcome.reading(requests[at], document.as_ref().and_then(Option::as_ref));
            }
        }
    }

    /// Sends a request by a short step. Returns `None` if the request has none, or the record does
    /// not match it.
    async fn send_short(
        &self,
        location: &Location,
        request: &TicketRequest,
    ) -> Result<Option<VerbOutcome>> {
        let Some(short) = &location.pipelines.short else { return Ok(None) };
        let seen = self.empty_lines.remove(&location.record);
        let Some(update) = short.of(location, request, &self.client.inbox, seen) else {
            return Ok(None);
        };
        let Some(answer) = self.commands.update(&update).await? else { return Ok(None) };
        let said = location.pipelines.answers.open(answer).said;
        self.deliver(Some(&said));
        if let Some(line) = EmptyLine::of(&said) {
            self.empty_lines.insert(&location.record, line);
        }
        let outcomes = batch::read(location, &[request], Some(&said));
        let outcome = outcomes.and_then(|outcomes| outcomes.into_iter().next());
        outcome.map(Some).ok_or_else(|| trouble::strange(&self.commands.servers))
    }

    async fn send_batch(
        &self,
        location: &Location,
        requests: &[&TicketRequest],
        fresh: &Fresh,
    ) -> Result<Option<Reply>> {
        let update = batch::update(location, requests, &self.client.inbox, fresh);
        let answer = if requests.iter().all(|request| request.verb == Verb::Look) {
            self.commands.look(&update, self.topology).await?
        } else {
            self.commands.update(&update).await?
        };
        Ok(answer.map(|answer| location.pipelines.answers.open(answer)))
    }

    /// Waits for a turn if the document may have several lines: MongoDB would let all their
    /// commands try at once.
    async fn turn(&self, location: &Location) -> Option<OwnedSemaphorePermit> {
        if location.pipelines.is_of_part() {
            Some(self.turns.wait(&location.record).await)
        } else {
            None
        }
    }

    /// Delivers the letters in an answer to tickets of this client, which need no change stream
    /// then.
    fn deliver(&self, answer: Option<&Document>) {
        if let Some(notices) = answer.and_then(|answer| answer.get_str("notices").ok()) {
            letter::deliver(&self.client.mail, &self.client.inbox, notices);
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<String, VecDeque<QueuedRequest>>> {
        self.waiting.lock()
    }
}

/// Sends the requests for one line, until none waits. If its task ends early, waiting callers get
/// an error.
struct LineWorker {
    sender: Arc<BatchSender>,
    location: Arc<Location>,
    is_open: bool,
}

impl LineWorker {
    async fn work(mut self) {
        loop {
            let batch = self.next();
            if batch.is_empty() {
                return;
            }
            let requests: Vec<&TicketRequest> = batch.iter().map(|one| &one.request).collect();
            for join in requests.iter().filter(|request| request.is_join()) {
                self.sender.client.tickets.sends(&self.location.record, join.ticket.id);
            }
            let outcomes = self.sender.send(&self.location, &requests).await;
            for (at, one) in batch.into_iter().enumerate() {
                let outcome = outcomes.as_ref().map(|all| all[at].clone()).map_err(Error::clone);
                for answer in one.answers {
                    let _ = answer.send(outcome.clone()); // the caller may have gone
                }
            }
        }
    }

    /// Takes the next batch. If there is none, the line has no worker any more.
    fn next(&mut self) -> Vec<QueuedRequest> {
        let mut lines = self.sender.lines();
        let waiting = lines.get_mut(self.location.line());
        let next = waiting.map(take).unwrap_or_default();
        if next.is_empty() {
            lines.remove(self.location.line());
            self.is_open = false;
        }
        next
    }
}

impl Drop for LineWorker {
    fn drop(&mut self) {
        if self.is_open {
            self.sender.lines().remove(self.location.line());
        }
    }
}

/// Takes the next batch of at most [`BATCH_MAX`] requests. Leaves come first, because other tickets
/// wait for them. The tickets of a batch differ, and requests without a caller are dropped.
fn take(waiting: &mut VecDeque<QueuedRequest>) -> Vec<QueuedRequest> {
    let mut tickets: HashMap<TicketId, usize> = HashMap::new();
    let mut next: Vec<QueuedRequest> = Vec::new();
    let mut later = VecDeque::new();
    waiting.retain(|queued| !queued.answers.iter().all(oneshot::Sender::is_closed));
    waiting.make_contiguous().sort_by_key(|queued| !queued.request.is_leave());
    while next.len() < BATCH_MAX
        && let Some(queued) = waiting.pop_front()
    {
        match tickets.get(&queued.request.ticket.id) {
            Some(at) if next[*at].request == queued.request => {
                next[*at].answers.extend(queued.answers);
            }
            Some(_) => later.push_back(queued),
            None => {
                tickets.insert(queued.request.ticket.id, next.len());
                next.push(queued);
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

    fn asks(
        ticket: &Ticket,
        verb: Verb,
    ) -> (QueuedRequest, oneshot::Receiver<Result<VerbOutcome>>) {
        let (answer, answered) = oneshot::channel();
        (
            QueuedRequest {
                request: TicketRequest::new(ticket.clone(), verb),
                answers: vec![answer],
            },
            answered,
        )
    }

    #[test]
    fn a_ticket_is_once_in_a_command_and_a_request_without_a_caller_is_not_sent() {
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
            next.map(|asked| (asked.request.ticket.id, asked.request.verb)).collect::<Vec<_>>()
        };
        let leave = (other.id, Verb::Leave { soon: false });
        assert_eq!(next(&mut waiting), [leave, (one.id, Verb::Renew)], "both renewals are one");
        assert_eq!(next(&mut waiting), [(one.id, Verb::Look)]);
        assert!(next(&mut waiting).is_empty() && waiting.is_empty());
    }

    #[test]
    fn a_command_has_a_limit_and_the_others_go_with_the_next() {
        let mut listens = Vec::new();
        let mut waiting: VecDeque<QueuedRequest> = VecDeque::new();
        for _ in 0..=BATCH_MAX {
            let (asked, listen) =
                asks(&Ticket::new(Key::new("k").unwrap(), Share::WHOLE), Verb::Look);
            waiting.push_back(asked);
            listens.push(listen);
        }
        assert_eq!((take(&mut waiting).len(), take(&mut waiting).len()), (BATCH_MAX, 1));
    }
}
