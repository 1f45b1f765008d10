//! Joining a line.

use tenure_core::{
    Error, LINE_TICKETS_MAX, Loss, NUMBER_MAX, Place, Result, Ticket, TicketState, WaitMode,
    errors, served,
};

use crate::contract::{
    Enter, Entered, Precondition, Register, RegisterValue, Remove, SessionStore,
};
use crate::engine::SessionEngine;
use crate::node::{LineId, Node, TicketName};
use crate::parts::{Parts, RETRY};

/// Maximum attempts of a join to which other tickets came first, before the caller has to retry.
pub(crate) const ATTEMPTS_MAX: u32 = 64;

/// The outcome of one attempt to join.
enum JoinAttempt {
    In(Place),
    Busy,
    /// The line was not as expected: retry on these terms.
    Again(Precondition, RegisterValue),
}

impl<S: SessionStore> SessionEngine<S> {
    pub(crate) async fn join_line(
        &self,
        ticket: &Ticket,
        patience: WaitMode,
    ) -> Result<Option<Place>> {
        if let Some(place) = self.join_again(ticket).await? {
            return Ok(Some(place));
        }
        let name = TicketName::of(ticket);
        if !self.ask(&name, ticket) {
            return Err(self.parts.store.silence());
        }
        let joined = self.join_anew(ticket, &name, patience).await;
        // A refused ticket is not in the line. One without an answer may be.
        if joined.as_ref().is_err_and(|error| !error.is_retryable()) {
            self.stay_out(&name, ticket).await;
        }
        joined
    }

    /// Joins with a ticket that is not known to be in its line.
    async fn join_anew(
        &self,
        ticket: &Ticket,
        name: &TicketName,
        patience: WaitMode,
    ) -> Result<Option<Place>> {
        let mut base = self.raise(name, ticket).await?;
        let is_all = ticket.share.take() == ticket.share.of();
        // A part that would not wait joins, and leaves again if it is not served. Others that share
        // the capacity come and go all the time.
        let joins_first = patience == WaitMode::Wait || (!is_all && self.fits.seems(&name.line));
        let mut precondition =
            if joins_first { Precondition::SameCapacity } else { Precondition::EmptyLine };
        let (mut is_second, mut backoff) = (false, RETRY);
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt(ticket, name, precondition, base, patience).await {
                Ok(JoinAttempt::In(place)) => {
                    return self.served_or_out(ticket, place, patience).await;
                }
                Ok(JoinAttempt::Again(next, now)) => {
                    // The view of the line is fresh: retry at once. Later it is of less use.
                    let is_news = next != precondition;
                    (precondition, base) = (next, now);
                    if !is_news {
                        self.parts.pause(&mut backoff).await;
                    }
                }
                Ok(JoinAttempt::Busy) => {
                    self.stay_out(name, ticket).await;
                    return Ok(None);
                }
                // The session was over before a ticket used it, so no lock is lost by that. If it
                // happens again, the store is too slow for sessions to outlive a join.
                Err(error) if error.loss() == Some(Loss::SessionGone) => {
                    if std::mem::replace(&mut is_second, true) {
                        return Err(self.parts.store.silence());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.stay_out(name, ticket).await;
        Err(Error::unavailable(format!(
            "the line of {:?} changed {ATTEMPTS_MAX} times while a ticket tried to join it: ask again",
            ticket.key
        )))
    }

    /// Notes that a join begins, or goes on. It ends if the ticket is given up meanwhile. Returns
    /// `false` if too many joins are in flight.
    fn ask(&self, name: &TicketName, ticket: &Ticket) -> bool {
        let Parts { own, host, answers_within, .. } = &*self.parts;
        let (now, longest) = (host.now(), *answers_within * 2);
        own.ask(name.id, now, now.plus(ticket.ttl.max(longest)))
    }

    /// Ensures that a ticket is not in its line. If an earlier join of it was not answered, it is
    /// removed, or never let in. If that is not answered either, the ticket stays known, and is
    /// removed when it is overdue.
    async fn stay_out(&self, name: &TicketName, ticket: &Ticket) {
        let Parts { own, host, .. } = &*self.parts;
        if own.was_asked_again(name.id, host.now())
            && let Some(mine) = own.get(name.id)
            && self.parts.remove(mine).await.is_err()
        {
            own.give_up(name.id);
            return;
        }
        own.end(name.id, host.now(), ticket.ttl);
    }

    /// Removes a ticket again if it is not served and its owner would not wait.
    async fn served_or_out(
        &self,
        ticket: &Ticket,
        place: Place,
        patience: WaitMode,
    ) -> Result<Option<Place>> {
        if patience == WaitMode::Wait || place.state == TicketState::Holding {
            return Ok(Some(place));
        }
        let Parts { own, store, .. } = &*self.parts;
        self.fits.note(&LineId::of(&ticket.key), false);
        // A repeated join must not find the ticket in its line: the removal may still be on its
        // way.
        own.turn_away(ticket.id);
        // After any failure the ticket may still be in its line, and the caller must know that.
        self.leave_now(ticket).await.map_err(|_| store.silence())?;
        Ok(None)
    }

    /// Renews a ticket that is in the line already, so that it keeps its place.
    async fn join_again(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let Some(mine) = self.parts.own.get(ticket.id) else { return Ok(None) };
        if let Some(seen) = &mine.seen {
            refuse_other_owner(&seen.node, ticket)?;
        }
        if mine.is_condemned() {
            // A removal may be on its way. It must not find the ticket there once it is in again.
            self.parts.remove(mine).await?;
            self.parts.own.forget_condemned(ticket.id);
            return Ok(None);
        }
        if mine.seen.is_none() {
            return Ok(None);
        }
        self.parts.own.ask_again(ticket.id);
        match self.renew_in_line(ticket).await {
            Err(error) if error.loss() == Some(Loss::SessionGone) => Ok(None),
            renewed => renewed,
        }
    }

    async fn attempt(
        &self,
        ticket: &Ticket,
        name: &TicketName,
        precondition: Precondition,
        base: RegisterValue,
        patience: WaitMode,
    ) -> Result<JoinAttempt> {
        let session = self.session(ticket.ttl).await?;
        if !self.parts.own.begin(name, &session, self.parts.host.now()) {
            return Err(self.parts.store.silence());
        }
        let body = Node::body(ticket, base.value, false);
        let (of, base_version) = (session.id, base.version);
        let enter = Enter { name, body: &body, session: of, precondition, base_version };
        let entered = self.parts.store.enter(&enter).await;
        if entered.as_ref().is_err_and(|error| error.loss() == Some(Loss::SessionGone)) {
            session.finish();
        }
        match entered? {
            Entered::Existing(node) => {
                refuse_other_owner(&node, ticket)?;
                let now = self.parts.host.now();
                match self.sessions.find(node.session).filter(|session| !session.is_over(now)) {
                    Some(session) => {
                        if !self.parts.own.begin(name, &session, now) {
                            return Err(self.parts.store.silence());
                        }
                    }
                    None => self.clear(&node).await?,
                }
                match self.renew_known(ticket).await {
                    // A session other than this one is over.
                    Err(error) if error.loss() == Some(Loss::SessionGone) => {
                        Err(self.parts.store.silence())
                    }
                    renewed => {
                        Ok(renewed?.map_or(JoinAttempt::Again(precondition, base), JoinAttempt::In))
                    }
                }
            }
            Entered::In { node, position, total } => {
                // A ticket is removed with its session, which may be over before the answer comes.
                let is_over = || session.is_over(self.parts.host.now());
                if is_over() {
                    return Err(Error::lost(Loss::SessionGone));
                }
                let is_allowed = self.refuse_too_many(ticket, &node, total).await;
                // A ticket that is refused from here on is in the line, and has to be removed.
                is_allowed.inspect_err(|_| self.parts.own.ask_again(ticket.id))?;
                let seen = self.parts.note(node, position);
                if is_over() {
                    return Err(Error::lost(Loss::SessionGone));
                }
                if !self.parts.own.sign(ticket.id, self.parts.host.now()) {
                    // It was given up meanwhile. The removal may have looked for it before it came
                    // in.
                    self.clear(&seen.node).await?;
                    self.parts.store.forget(ticket.id);
                    return Err(self.parts.store.silence());
                }
                let place = self.place(&seen);
                if place.life.is_none() {
                    // It was given up in this moment, and is being removed.
                    return Err(self.parts.store.silence());
                }
                Ok(JoinAttempt::In(place))
            }
            Entered::Again => Ok(JoinAttempt::Again(precondition, base)),
            Entered::Out { at, taken, other_capacity, base: now } => {
                if let Some(of) = other_capacity {
                    return Err(errors::other_capacity(&ticket.key, of.into(), ticket.share));
                }
                if now != base {
                    return Ok(JoinAttempt::Again(
                        precondition,
                        self.raise_to(name, ticket, now, at).await?,
                    ));
                }
                if patience == WaitMode::Wait {
                    return Ok(JoinAttempt::Again(precondition, base));
                }
                let fits = served(taken, ticket.share);
                self.fits.note(&name.line, fits);
                // If it fits, other tickets have left since, or it is a part.
                let joins = JoinAttempt::Again(Precondition::SameCapacity, base);
                Ok(if fits { joins } else { JoinAttempt::Busy })
            }
        }
    }

    /// Removes an earlier attempt of the same ticket, which came in with a session that is over.
    async fn clear(&self, node: &Node) -> Result<()> {
        self.parts.store.remove(&Remove::just(node)).await.map(drop)
    }

    /// Refuses a ticket beyond the maximum of a line or of numbers. The count is known only when
    /// the ticket is in.
    async fn refuse_too_many(&self, ticket: &Ticket, node: &Node, total: usize) -> Result<()> {
        let refusal = if total > LINE_TICKETS_MAX {
            errors::line_is_full(&ticket.key)
        } else if node.number() > NUMBER_MAX {
            errors::no_numbers_left(&ticket.key, node.number())
        } else {
            return Ok(());
        };
        self.clear(node).await?;
        Err(refusal)
    }

    /// Ensures that new numbers are not below the ticket's floor. For a ticket that is in the line
    /// already they are above it.
    pub(crate) async fn raise(&self, name: &TicketName, ticket: &Ticket) -> Result<RegisterValue> {
        if ticket.floor == 0 {
            return Ok(RegisterValue::default());
        }
        if ticket.floor > NUMBER_MAX {
            return Err(errors::no_numbers_left(&ticket.key, ticket.floor));
        }
        let register = Register::Base(name.line.clone());
        let (at, base) = (self.parts.store.now().await?, self.parts.store.read(&register).await?);
        self.raise_to(name, ticket, base, at).await
    }

    async fn raise_to(
        &self,
        name: &TicketName,
        ticket: &Ticket,
        mut base: RegisterValue,
        at: u64,
    ) -> Result<RegisterValue> {
        let register = Register::Base(name.line.clone());
        let mut backoff = RETRY;
        for _ in 0..ATTEMPTS_MAX {
            // The next number is above the current one.
            if at.saturating_add(base.value) >= ticket.floor {
                return Ok(base);
            }
            let (now, written) =
                self.parts.store.write(&register, ticket.floor - at, base.version).await?;
            base = now;
            if written {
                return Ok(base);
            }
            self.parts.pause(&mut backoff).await;
        }
        Err(self.parts.store.silence())
    }
}

fn refuse_other_owner(node: &Node, ticket: &Ticket) -> Result<()> {
    if node.ticket.owner == ticket.owner {
        return Ok(());
    }
    Err(errors::id_of_another(&ticket.key, ticket.id, &node.ticket.owner))
}
