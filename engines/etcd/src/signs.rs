//! A sign of life of a session, and whether its answer is worth anything.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::Result;
use tenure_queue::SessionId;
use tokio::time::timeout;

use crate::calls::unary;
use crate::client::Etcd;
use crate::connect::answers;
use crate::link::Open;
use crate::status::{Code, Status};
use crate::wire::{LeaseKeepAliveResponse, RangeResponse, ResponseHeader};
use crate::{ask, facts, link, trouble};

/// So often a sign of life is given at once, where the first one met a change of leaders.
const SIGNS_MAX: usize = 2;

impl Etcd {
    /// Gives a sign of life. Answers for how long the session lives from before it; `None` if it is over.
    pub(crate) async fn sign(
        &self,
        session: SessionId,
        within: Duration,
    ) -> Result<Option<Duration>> {
        let connection = self.link.connection().await?;
        let failed = |status: Status| self.failed(&connection, &status);
        for _ in 0..SIGNS_MAX {
            let Some(answer) = beat(&connection, session, within).await else {
                link::leave(&self.link, &connection);
                return Err(trouble::silence(self.settings()));
            };
            let answer = answer.map_err(failed)?;
            connection.heard.fetch_add(1, Ordering::Relaxed);
            if answer.ttl <= 0 {
                return Ok(None);
            }
            let is_confirmed = facts::knows_who_leads(connection.version.as_deref())
                || self.is_of_now(&connection, &answer).await.map_err(failed)?;
            if is_confirmed {
                return Ok(Some(Duration::from_secs(answer.ttl.unsigned_abs())));
            }
        }
        Err(trouble::silence(self.settings()))
    }

    /// Whether whoever renewed a lease leads the cluster, and did when it was asked. A leader that is stuck, because its disk stands still,
    /// renews leases as if nobody else had been chosen since. It has no answer to a read, which a majority has to confirm; and
    /// once it has one, that is of a later term.
    async fn is_of_now(
        &self,
        open: &Open,
        answer: &LeaseKeepAliveResponse,
    ) -> Result<bool, Status> {
        let read: Result<RangeResponse, _> =
            unary(&open.wire, ask::RANGE, ask::get(self.keys.broken())).await;
        let term = |header: Option<ResponseHeader>| header.map(|header| header.raft_term);
        match read {
            Ok(read) => Ok(term(answer.header) == term(read.header)),
            // Another leader is chosen just now.
            Err(status) if status.code() == Code::Unavailable => Ok(false),
            Err(status) => Err(status),
        }
    }
}

/// What a sign of life is answered with; `None` if the member answers neither that nor whether it lives.
async fn beat(
    open: &Open,
    session: SessionId,
    within: Duration,
) -> Option<Result<LeaseKeepAliveResponse, Status>> {
    let mut beat = pin!(open.beats.beat(session.cast_signed()));
    if let Ok(answer) = timeout(within / 2, &mut beat).await {
        return Some(answer);
    }
    // A member that passed it on to a leader who stands still waits for that, and for nobody who was chosen since: another stream is
    // another try.
    let again = pin!(open.beats.beat_anew(session.cast_signed()));
    let (beat, lives) = (pin!(either(beat, again)), timeout(within / 3, answers(&open.wire)));
    match select(beat, pin!(lives)).await {
        Either::Left((answer, _)) => Some(answer),
        // A member whose leader stands still answers other things, and any other member would wait for that leader, too.
        Either::Right((Ok(true), beat)) => Some(beat.await),
        Either::Right(_) => None,
    }
}

/// What comes first, unless that is a failure: then the other one.
async fn either<T, E>(
    one: impl Future<Output = Result<T, E>> + Unpin,
    other: impl Future<Output = Result<T, E>> + Unpin,
) -> Result<T, E> {
    match select(one, other).await {
        Either::Left((Err(_), other)) => other.await,
        Either::Right((Err(_), one)) => one.await,
        Either::Left((answer, _)) | Either::Right((answer, _)) => answer,
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn one_sign_of_life_that_fails_is_no_answer_while_another_is_under_way() {
        for (one, other, answer) in [
            (Ok(1), Ok(2), Ok(1)),
            (Err("broken"), Ok(2), Ok(2)),
            (Ok(1), Err("broken"), Ok(1)),
            (Err("broken"), Err("broken, too"), Err("broken, too")),
        ] {
            assert_eq!(either(ready(one), ready(other)).await, answer);
        }
        assert_eq!(either(pending(), ready(Ok::<_, ()>(2))).await, Ok(2));
    }
}
