//! The queue of one direction of one connection, in the order of arrival.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

use super::act::RuleState;

/// Queued bytes above which the proxy stops reading.
const BYTES_MAX: usize = 32 << 20;
/// Interval of a slow direction.
const SLOW_BEAT: Duration = Duration::from_millis(1);

/// The condition of all connections in one direction.
#[derive(Clone, Copy, Default)]
pub(super) struct Condition {
    pub(super) delay: Duration,
    pub(super) bytes_per_ms: Option<usize>,
    pub(super) hole: bool,
}

/// Queued bytes.
struct Parcel {
    load: Load,
    came: Instant,
    late_by: Duration,
    /// The rule that holds them.
    held: Option<usize>,
}

enum Load {
    Bytes { bytes: Vec<u8>, sent: usize },
    End { rule: Option<usize> },
}

/// The next action of a queue.
pub(super) enum Step {
    Send(Vec<u8>),
    /// The end of the connection, by a rule or by a side.
    End(Option<usize>),
    /// A wait until a change, or until this instant.
    Wait(Option<Instant>),
}

/// The queue of one direction of one connection.
#[derive(Default)]
pub(super) struct Queue {
    parcels: VecDeque<Parcel>,
    /// Queued bytes.
    bytes: usize,
    /// The next time at which a slow direction may send.
    next_beat: Option<Instant>,
    /// A rule has cut this direction: nothing more is queued.
    pub(super) shut: bool,
    pub(super) changed: Arc<Condvar>,
}

impl Queue {
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        self.push_held(bytes, Duration::ZERO, None);
    }

    /// Queues bytes that are delayed, or held by a rule.
    pub(super) fn push_held(&mut self, bytes: Vec<u8>, late_by: Duration, held: Option<usize>) {
        self.bytes += bytes.len();
        let load = Load::Bytes { bytes, sent: 0 };
        self.parcels.push_back(Parcel { load, came: Instant::now(), late_by, held });
    }

    /// Ends the connection after the queued bytes.
    pub(super) fn push_end(&mut self, rule: Option<usize>) {
        let (load, late_by) = (Load::End { rule }, Duration::ZERO);
        self.parcels.push_back(Parcel { load, came: Instant::now(), late_by, held: None });
    }

    /// Returns the action at this instant.
    pub(super) fn step(&mut self, is: Condition, rules: &[RuleState], now: Instant) -> Step {
        let Some(parcel) = self.parcels.front_mut() else { return Step::Wait(None) };
        if is.hole || parcel.held.is_some_and(|rule| !rules[rule].released) {
            return Step::Wait(None);
        }
        let late_by = parcel.late_by.saturating_add(is.delay);
        let Some(due) = parcel.came.checked_add(late_by) else { return Step::Wait(None) };
        let due = due.max(self.next_beat.filter(|_| is.bytes_per_ms.is_some()).unwrap_or(due));
        if now < due {
            return Step::Wait(Some(due));
        }
        let (bytes, sent) = match &mut parcel.load {
            Load::End { rule } => return Step::End(*rule),
            Load::Bytes { bytes, sent } => (bytes, sent),
        };
        let upto = bytes.len().min(sent.saturating_add(is.bytes_per_ms.unwrap_or(usize::MAX)));
        let piece = bytes[*sent..upto].to_vec();
        *sent = upto;
        let whole = upto == bytes.len();
        self.bytes -= piece.len();
        self.next_beat = is.bytes_per_ms.map(|_| now + SLOW_BEAT);
        if whole {
            self.parcels.pop_front();
        }
        Step::Send(piece)
    }
}
