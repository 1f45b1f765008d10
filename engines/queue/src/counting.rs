//! Sequences: a number beside the line, changed only by a client that knows its version.
//!
//! A client combines its calls. It has one request in flight for each sequence, which takes numbers
//! for all callers that wait by then. With a request for each caller the store would refuse all but
//! one of them.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use tenure_core::{CounterValue, Key, Result, errors};
use tokio::sync::oneshot;

use crate::calls::{Call, refuse_late};
use crate::contract::{Register, Store, Written};
use crate::parts::Parts;
use crate::pauses::Pauses;
use crate::queue::Queue;

impl<S: Store> Queue<S> {
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
        if counting.push(register, Call { key: key.clone(), by, until, sender }) {
            let (parts, register) = (self.parts.clone(), register.clone());
            let taker = Taker { parts, register, has_ended: false };
            host.spawn(Box::pin(taker.run()));
        }
        receiver.await.unwrap_or_else(|_| Err(store.silence()))
    }
}

/// The task that takes numbers from one sequence, until no caller waits for one.
struct Taker<S: Store> {
    parts: Arc<Parts<S>>,
    register: Register,
    has_ended: bool,
}

impl<S: Store> Taker<S> {
    async fn run(mut self) {
        let host = self.parts.host.clone();
        let (mut calls, mut known, mut pauses) = (Vec::new(), None, Pauses::on(&*host));
        while self.parts.counting.take(&self.register, &mut calls) {
            match self.attempt(&mut calls, known.take()).await {
                Ok((written, true)) => (known, pauses) = (Some(written), Pauses::on(&*host)),
                Ok((written, false)) => {
                    known = Some(written);
                    refuse_late(&mut calls, host.now());
                    pauses.rest().await;
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
        calls: &mut Vec<Call>,
        known: Option<Written>,
    ) -> Result<(Written, bool)> {
        let Parts { store, .. } = &*self.parts;
        let before = match known {
            Some(known) => known,
            None => self.wanted(calls, store.read(&self.register)).await?,
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
        let (written, is_taken) = self.wanted(calls, write).await?;
        if is_taken {
            calls.drain(..).zip(values).for_each(|(call, value)| call.answer(Ok(value)));
        }
        Ok((written, is_taken))
    }

    /// Returns the answer to a request. Drops the request once no caller waits for it.
    async fn wanted<T>(
        &self,
        calls: &mut [Call],
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let gone = async {
            for call in calls {
                call.sender.closed().await;
            }
        };
        match select(pin!(self.parts.in_time(request)), pin!(gone)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(self.parts.store.silence()),
        }
    }
}

impl<S: Store> Drop for Taker<S> {
    /// Releases the callers if the runtime has ended: each gets an error.
    fn drop(&mut self) {
        if !self.has_ended {
            self.parts.counting.end(&self.register);
        }
    }
}
