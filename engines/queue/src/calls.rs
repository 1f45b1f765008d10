//! Callers of one client that wait for numbers of a sequence.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::MutexGuard;

use tenure_core::sync::Mutex;
use tenure_core::{CounterValue, Error, Key, Reason, Result, Time};
use tokio::sync::oneshot;

use crate::contract::Register;

/// Maximum callers that one request takes numbers for.
const CALLS_MAX: usize = 1024;

/// The callers of one client that wait for numbers. A sequence is in the map as long as a task
/// takes numbers from it.
#[derive(Default)]
pub(crate) struct Calls(Mutex<HashMap<Register, VecDeque<Call>>>);

/// A caller that waits for numbers.
pub(crate) struct Call {
    pub(crate) key: Key,
    /// Count of numbers that it asks for.
    pub(crate) by: u64,
    /// The time at which it is refused if other clients were quicker each time.
    pub(crate) until: Time,
    pub(crate) sender: oneshot::Sender<Result<CounterValue>>,
}

impl Call {
    pub(crate) fn answer(self, answer: Result<u64>) {
        // A caller that has gone leaves a gap, which a sequence may have.
        let _ = self.sender.send(answer.map(CounterValue::of_sequence));
    }
}

impl Calls {
    /// Adds a caller. Returns whether the sequence needs a task.
    pub(crate) fn push(&self, register: &Register, call: Call) -> bool {
        match self.lock().entry(register.clone()) {
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push_back(call);
                false
            }
            Entry::Vacant(none) => {
                none.insert([call].into());
                true
            }
        }
    }

    /// Moves waiting callers to `calls`, and removes those that have gone. Returns whether any are
    /// left; otherwise the task ends.
    pub(crate) fn take(&self, register: &Register, calls: &mut Vec<Call>) -> bool {
        let mut all = self.lock();
        let Some(waiting) = all.get_mut(register) else { return false };
        calls.retain(|call| !call.sender.is_closed());
        while calls.len() < CALLS_MAX
            && let Some(call) = waiting.pop_front()
        {
            if !call.sender.is_closed() {
                calls.push(call);
            }
        }
        if calls.is_empty() {
            all.remove(register);
        }
        !calls.is_empty()
    }

    /// Drops all callers of a sequence whose task has ended. They get no answer from it.
    pub(crate) fn end(&self, register: &Register) {
        self.lock().remove(register);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Register, VecDeque<Call>>> {
        self.0.lock()
    }
}

/// Refuses the callers that have lost to other clients for half of their time. They still wait for
/// an answer.
pub(crate) fn refuse_late(calls: &mut Vec<Call>, now: Time) {
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
