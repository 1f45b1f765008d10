//! A keep-alive of a session, and whether its answer counts.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, ready, select};
use tenure_core::{Backoff, Result};
use tenure_queue::SessionId;
use tokio::time::{sleep, timeout};

use crate::calls::unary;
use crate::client::Etcd;
use crate::connect::answers;
use crate::link::MemberConnection;
use crate::status::{Code, Status};
use crate::wire::{LeaseKeepAliveResponse, RangeResponse, ResponseHeader};
use crate::{ask, link};

/// Maximum keep-alives in a row, if the first one met a change of leaders.
const SIGNS_MAX: usize = 2;
/// First pause between two reads that confirm a keep-alive, as a part of the time for all of them.
const PAUSE_PART: u32 = 24;
/// Longest pause between them, as a part of that time.
const PAUSE_PART_MAX: u32 = 8;

impl Etcd {
    /// Sends a keep-alive. Returns the remaining life of the session, counted from before it;
    /// `None` if it is over.
    pub(crate) async fn keep_alive(
        &self,
        session: SessionId,
        within: Duration,
    ) -> Result<Option<Duration>> {
        let connection = self.cluster.link.connection().await?;
        let failed = |status: Status| self.cluster.failed(&connection, &status);
        for _ in 0..SIGNS_MAX {
            // Both at once, because a round trip to the member may take most of the time limit.
            let confirming =
                pin!(timeout(within * 5 / 6, self.confirmed_term(&connection, within)));
            let (answer, term) =
                match select(pin!(beat(&connection, session, within)), confirming).await {
                    Either::Left((answer, confirming)) => (answer, Either::Left(confirming)),
                    Either::Right((term, beat)) => (beat.await, Either::Right(ready(term))),
                };
            let Some(answer) = answer else {
                link::leave(&self.cluster.link, &connection);
                return Err(self.cluster.silence());
            };
            let answer = answer.map_err(failed)?;
            if answer.ttl <= 0 {
                return self.has_ended(session).await;
            }
            let Ok(term) = term.await else {
                // A member whose disk stands still answers keep-alives, and no reads.
                link::leave(&self.cluster.link, &connection);
                return Err(self.cluster.silence());
            };
            let term = term.map_err(failed)?;
            connection.heard.fetch_add(1, Ordering::Relaxed);
            if term == term_of(answer.header) {
                return Ok(Some(Duration::from_secs(answer.ttl.unsigned_abs())));
            }
        }
        Err(self.cluster.silence())
    }

    /// Reads whether a lease has ended that a leader does not know. A leader of 3.4, or before
    /// 3.5.3, may have yet to apply the grant of a young lease (etcd's issue 13675). The session's
    /// key goes with the lease, and a majority confirms the read.
    async fn has_ended(&self, session: SessionId) -> Result<Option<Duration>> {
        let range = match self.cluster.range(ask::get(self.keys.session(session))).await {
            // The cluster went back to older data, or lets this user read nothing: that does not
            // contradict.
            Err(error) if !error.is_retryable() => return Ok(None),
            range => range?.0,
        };
        let lives = range.kvs.iter().any(|kept| kept.lease == session.cast_signed());
        if lives { Err(self.cluster.silence()) } else { Ok(None) }
    }

    /// Returns the term that a majority confirms.
    ///
    /// A leader whose disk stands still renews leases although another leader may have been chosen
    /// since. It does not answer a read, which a majority has to confirm. Once it answers, the
    /// answer is of a later term. etcd 3.4.31 and 3.5.13 and later ask the others by themselves,
    /// but such a member does not report its leader's version.
    async fn confirmed_term(
        &self,
        open: &MemberConnection,
        within: Duration,
    ) -> Result<u64, Status> {
        let mut pauses = Backoff::new(within / PAUSE_PART, within / PAUSE_PART_MAX);
        loop {
            let read = unary(&open.wire, ask::RANGE, ask::get(self.keys.broken())).await;
            match read {
                Ok(RangeResponse { header, .. }) => return Ok(term_of(header)),
                // Another leader is being chosen, and callers that waited for the one before get
                // this error.
                Err(status) if status.code() == Code::Unavailable => {
                    sleep(pauses.pause()).await;
                }
                Err(status) => return Err(status),
            }
        }
    }
}

fn term_of(header: Option<ResponseHeader>) -> u64 {
    header.map_or(0, |header| header.raft_term)
}

/// Returns the answer to a keep-alive; `None` if the member answers neither that nor a request for
/// its status.
async fn beat(
    open: &MemberConnection,
    session: SessionId,
    within: Duration,
) -> Option<Result<LeaseKeepAliveResponse, Status>> {
    let mut beat = pin!(open.keep_alives.send(session.cast_signed()));
    if let Ok(answer) = timeout(within / 2, &mut beat).await {
        return Some(answer);
    }
    // A member may have passed it on to a leader that stands still. It waits for that leader only,
    // and for no later one. So another stream is another try.
    let again = pin!(open.keep_alives.send_anew(session.cast_signed()));
    let (beat, lives) = (pin!(either(beat, again)), timeout(within / 3, answers(&open.wire)));
    match select(beat, pin!(lives)).await {
        Either::Left((answer, _)) => Some(answer),
        // A member whose leader stands still answers other requests, and any other member would
        // wait for that leader, too.
        Either::Right((Ok(true), beat)) => Some(beat.await),
        Either::Right(_) => None,
    }
}

/// Returns the first result, or the other one if the first is an error.
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
