//! Sequences: a number beside the line, changed only by a client that knows its version.
//!
//! A client combines its calls. It has one request in flight for each sequence, which takes numbers
//! for all callers that wait by then. With a request for each caller the store would refuse all but
//! one of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use tenure_core::sync::Mutex;
use tenure_core::{CounterValue, Error, Key, Reason, Result, Time, errors};
use tokio::sync::oneshot;

use crate::contract::{Register, RegisterValue, SessionStore};
use crate::engine::SessionEngine;
use crate::parts::{Parts, RETRY};

/// The callers of one client that wait for numbers. A sequence is in the map as long as a task
/// takes numbers from it.
#[derive(Default)]
pub(crate) struct SequenceCallers(Mutex<HashMap<Register, Vec<NumberCall>>>);

/// A caller that waits for numbers.
struct NumberCall {
    key: Key,
    /// Count of numbers that it asks for.
    by: u64,
    /// The time at which it is refused if other clients were quicker each time.
    until: Time,
    sender: oneshot::Sender<Result<CounterValue>>,
}

impl<S: SessionStore> SessionEngine<S> {
    pub(crate) async fn next(
        &self,
        key: &Key,
        by: u64,
        register: &Register,
    ) -> Result<CounterValue> {
        let Parts { store, host, counting, answers_within, .. } = &*self.parts;
        if by == 0 {
            let value = errors::checked_sum(key, store.read(register).await?.value, 0)?;
            return Ok(CounterValue::of_sequence(value));
        }
        let (sender, receiver) = oneshot::channel();
        let until = host.now().plus(*answers_within / 2);
        if counting.push(register, NumberCall { key: key.clone(), by, until, sender }) {
            let (parts, register) = (self.parts.clone(), register.clone());
            host.spawn(Box::pin(Taker { parts, register, has_ended: false }.run()));
        }
        receiver.await.unwrap_or_else(|_| Err(store.silence()))
    }
}

impl SequenceCallers {
    /// Adds a caller. Returns whether the sequence needs a task.
    fn push(&self, register: &Register, call: NumberCall) -> bool {
        match self.0.lock().entry(register.clone()) {
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push(call);
                false
            }
            Entry::Vacant(none) => {
                none.insert(vec![call]);
                true
            }
        }
    }

    /// Moves waiting callers to `calls`, and removes those that have gone. Returns whether any are
    /// left; otherwise the task ends.
    fn take(&self, register: &Register, calls: &mut Vec<NumberCall>) -> bool {
        let mut all = self.0.lock();
        let Some(waiting) = all.get_mut(register) else { return false };
        calls.append(waiting);
        calls.retain(|call| !call.sender.is_closed());
        if calls.is_empty() {
            all.remove(register);
        }
        !calls.is_empty()
    }
}

impl NumberCall {
    fn answer(self, answer: Result<u64>) {
        // A caller that has gone leaves a gap, which a sequence may have.
        let _ = self.sender.send(answer.map(CounterValue::of_sequence));
    }
}

/// The task that takes numbers from one sequence, until no caller waits for one.
struct Taker<S: SessionStore> {
    parts: Arc<Parts<S>>,
    register: Register,
    /// No caller waits, and the sequence is out of the map. Another task may have put it back.
    has_ended: bool,
}

impl<S: SessionStore> Taker<S> {
    async fn run(mut self) {
        let host = self.parts.host.clone();
        let (mut calls, mut known, mut backoff) = (Vec::new(), None, RETRY);
        while self.parts.counting.take(&self.register, &mut calls) {
            match self.attempt(&mut calls, known.take()).await {
                Ok((written, true)) => (known, backoff) = (Some(written), RETRY),
                Ok((written, false)) => {
                    known = Some(written);
                    refuse_late(&mut calls, host.now());
                    self.parts.pause(&mut backoff).await;
                }
                Err(error) => calls.drain(..).for_each(|call| call.answer(Err(error.clone()))),
            }
        }
        self.has_ended = true;
    }

    /// Takes one block of numbers, and gives each caller its part if no other client was quicker.
    /// Returns the sequence as it is then, and whether the block was taken.
    async fn attempt(
        &self,
        calls: &mut Vec<NumberCall>,
        known: Option<RegisterValue>,
    ) -> Result<(RegisterValue, bool)> {
        let Parts { store, .. } = &*self.parts;
        let before = match known {
            Some(known) => known,
            None => self.parts.in_time(store.read(&self.register)).await?,
        };
        let (mut last, mut values) = (before.value, Vec::with_capacity(calls.len()));
        for call in std::mem::take(calls) {
            match errors::checked_sum(&call.key, last, call.by) {
                Ok(value) => {
                    last = value;
                    values.push(value);
                    calls.push(call);
                }
                Err(full) => call.answer(Err(full)),
            }
        }
        if calls.is_empty() {
            return Ok((before, true));
        }
        let write = store.write(&self.register, last, before.version);
        let (written, is_taken) = self.parts.in_time(write).await?;
        if is_taken {
            calls.drain(..).zip(values).for_each(|(call, value)| call.answer(Ok(value)));
        }
        Ok((written, is_taken))
    }
}

impl<S: SessionStore> Drop for Taker<S> {
    /// Releases the callers if the runtime has ended: each gets an error.
    fn drop(&mut self) {
        if !self.has_ended {
            self.parts.counting.0.lock().remove(&self.register);
        }
    }
}

/// Refuses the callers that have lost to other clients for half of their time. They still wait for
/// an answer.
fn refuse_late(calls: &mut Vec<NumberCall>, now: Time) {
    for call in calls.extract_if(.., |call| now.has_reached(call.until)) {
        let refused = Error::unavailable(format!(
            "other clients changed the sequence {:?} each time this client took a number: ask again",
            call.key
        ))
        .with_reason(Reason::Contended)
        .with_key(&call.key);
        call.answer(Err(refused));
    }
}
