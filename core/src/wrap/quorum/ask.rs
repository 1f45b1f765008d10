//! The verbs, each sent to every store at once.

use super::Quorum;
use super::poll::Poll;
use crate::sweep::Trace;
use crate::wrap::AnyEngine;
use crate::{Engine as _, Key, Leave, Left, Place, Result, Ticket, TicketId};

impl Quorum {
    /// Asks every store at once, until the answers decide it.
    pub(super) async fn ask<T, F>(
        &self,
        decided: impl Fn(&Poll<T>) -> bool,
        verb: impl Fn(usize, AnyEngine) -> F,
    ) -> Poll<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let verbs = self.nodes.iter().enumerate();
        let verbs = verbs.map(|(index, node)| verb(index, node.engine.clone()));
        Poll::of(verbs, &self.board, &self.rest, decided).await
    }

    /// A sign of life to every store.
    pub(super) async fn renew_everywhere(&self, ticket: Ticket) -> Poll<Option<Place>> {
        let enough = |poll: &Poll<_>| poll.answers().flatten().count() >= self.majority();
        self.ask(enough, |_, engine| {
            let ticket = ticket.clone();
            async move { engine.renew(&ticket).await }
        })
        .await
    }

    /// Takes one attempt out of every store.
    pub(super) async fn leave_everywhere(&self, attempt: &Ticket, how: Leave) -> Result<Left> {
        let leave = |_, engine: AnyEngine| {
            let attempt = attempt.clone();
            async move { engine.leave(&attempt, how).await }
        };
        self.verdict_on_leaving(&self.ask(|poll| self.is_out(poll), leave).await)
    }

    /// The same for the attempt that holds: a store that does not confirm it is asked again in the
    /// background, and one that may only now take the ticket in is watched.
    pub(super) async fn give_up(&self, attempt: &Ticket, late: &[usize]) -> Result<Left> {
        let leave = |index: usize, _| {
            let (node, attempt) = (self.nodes[index].clone(), attempt.clone());
            let trace = if late.contains(&index) { Trace::Joining } else { Trace::InLine };
            async move {
                let left = node.engine.leave(&attempt, Leave::Now).await;
                if !trace.is_settled_by(&left) {
                    node.sweeper.give_back(attempt, trace);
                }
                left
            }
        };
        self.verdict_on_leaving(&self.ask(|poll| self.is_out(poll), leave).await)
    }

    fn is_out(&self, poll: &Poll<Left>) -> bool {
        count(poll, Left::Holding) >= self.majority()
    }

    fn verdict_on_leaving(&self, poll: &Poll<Left>) -> Result<Left> {
        let (out, told) = (count(poll, Left::Holding), count(poll, Left::Told));
        let majority = self.majority();
        if out >= majority {
            return Ok(Left::Holding);
        }
        if told >= majority {
            return Ok(Left::Told);
        }
        if out + told + poll.silent() >= majority {
            return Err(poll.too_few("let it go", majority));
        }
        Ok(Left::Absent)
    }

    /// Takes out another client's ticket, or one that this client has given up.
    pub(super) async fn leave_by_name(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        let mut found = Left::Absent;
        for attempt in self.attempts_of(ticket).await? {
            match self.leave_everywhere(&attempt, how).await? {
                Left::Absent => {}
                left => found = left,
            }
        }
        Ok(found)
    }

    /// What the stores have of another client's ticket, or of one that this client has given up.
    async fn attempts_of(&self, ticket: &Ticket) -> Result<Vec<Ticket>> {
        let poll = self.look_everywhere(&ticket.key).await;
        let mut ids: Vec<TicketId> = poll
            .enough_answers(self.majority())?
            .into_iter()
            .flatten()
            .map(|(found, _)| found.id)
            .filter(|id| id.whole() == ticket.id.whole())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids.into_iter().map(|id| Ticket { id, ..ticket.clone() }).collect())
    }

    /// The line of a key as every store has it.
    pub(super) async fn look_everywhere(&self, key: &Key) -> Poll<Vec<(Ticket, Place)>> {
        self.ask(
            |_| false,
            |_, engine| {
                let key = key.clone();
                async move { engine.line(&key).await }
            },
        )
        .await
    }
}

fn count(poll: &Poll<Left>, wanted: Left) -> usize {
    poll.answers().filter(|left| **left == wanted).count()
}
