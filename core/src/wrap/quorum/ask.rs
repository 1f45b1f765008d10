//! The verbs, each sent to every store at once.

use super::Quorum;
use super::poll::Poll;
use crate::wrap::AnyEngine;
use crate::{Engine as _, Key, Leave, Left, Place, Result, Ticket, TicketId};

impl Quorum {
    /// Asks every store at once, until the answers decide it.
    pub(super) async fn ask<T, F>(
        &self,
        decided: impl Fn(&Poll<T>) -> bool,
        verb: impl Fn(AnyEngine) -> F,
    ) -> Poll<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let verbs = self.nodes.iter().map(|node| verb(node.engine.clone()));
        Poll::of(verbs, &self.board, &self.host, self.patience, decided).await
    }

    /// A sign of life to every store.
    pub(super) async fn renew_everywhere(&self, ticket: Ticket) -> Poll<Option<Place>> {
        let enough = |poll: &Poll<_>| poll.answers().flatten().count() >= self.majority();
        self.ask(enough, |engine| {
            let ticket = ticket.clone();
            async move { engine.renew(&ticket).await }
        })
        .await
    }

    /// Takes one attempt out of every store.
    pub(super) async fn leave_everywhere(&self, attempt: &Ticket, how: Leave) -> Result<Left> {
        let majority = self.majority();
        let count =
            |poll: &Poll<Left>, wanted| poll.answers().filter(|left| **left == wanted).count();
        let enough = |poll: &Poll<Left>| count(poll, Left::Holding) >= majority;
        let poll = self
            .ask(enough, |engine| {
                let attempt = attempt.clone();
                async move { engine.leave(&attempt, how).await }
            })
            .await;
        let (out, told) = (count(&poll, Left::Holding), count(&poll, Left::Told));
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

    /// What the stores have of another client's ticket, or of one that this client has given up.
    pub(super) async fn attempts_of(&self, ticket: &Ticket) -> Result<Vec<Ticket>> {
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
            |engine| {
                let key = key.clone();
                async move { engine.line(&key).await }
            },
        )
        .await
    }
}
