//! The queue of one direction of one connection: what waits until it may pass, in the order in which it came.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

use super::act::RuleState;

/// How much may wait before no more is read.
const BYTES_MAX: usize = 32 << 20;
/// The beat of a slow direction.
const SLOW_BEAT: Duration = Duration::from_millis(1);

/// How all connections are in one direction.
#[derive(Clone, Copy, Default)]
pub(super) struct Condition {
    pub(super) delay: Duration,
    pub(super) bytes_per_ms: Option<usize>,
    pub(super) hole: bool,
}

/// Something that waits.
struct Parcel {
    load: Load,
    came: Instant,
    late_by: Duration,
    /// The rule that holds it.
    held: Option<usize>,
}

enum Load {
    Bytes { bytes: Vec<u8>, sent: usize },
    End { rule: Option<usize> },
}

/// What a queue wants to be done now.
pub(super) enum Step {
    Send(Vec<u8>),
    /// The connection ends, for a rule perhaps.
    End(Option<usize>),
    /// Nothing, until something changes, or until this instant.
    Wait(Option<Instant>),
}

/// What waits in one direction of one connection.
#[derive(Default)]
pub(super) struct Queue {
    parcels: VecDeque<Parcel>,
    /// How many bytes wait.
    bytes: usize,
    /// When a slow direction may go on.
    next_beat: Option<Instant>,
    /// Nothing more is let in: a rule has cut it.
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

    /// Bytes that come later than others, or that a rule holds.
    pub(super) fn push_held(&mut self, bytes: Vec<u8>, late_by: Duration, held: Option<usize>) {
        self.bytes += bytes.len();
        let load = Load::Bytes { bytes, sent: 0 };
        self.parcels.push_back(Parcel { load, came: Instant::now(), late_by, held });
    }

    /// The connection ends behind what is here already.
    pub(super) fn push_end(&mut self, rule: Option<usize>) {
        let (load, late_by) = (Load::End { rule }, Duration::ZERO);
        self.parcels.push_back(Parcel { load, came: Instant::now(), late_by, held: None });
    }

    /// What is to be done at this instant.
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
