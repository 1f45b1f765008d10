//! The metrics of all locks, through the `metrics` façade. Without the feature `metrics`, each
//! function does nothing.
//!
//! No key is ever a label. A gauge changes by differences, so each ticket that enters one must
//! leave it: see [`Standing`].

use std::borrow::Cow;
use std::time::Duration;

use crate::lease::state::State;
#[cfg(feature = "metrics")]
use crate::wake::contain_panic;
use crate::{Error, ErrorKind, Guarantees, LeaveMode, Liveness, Loss, Result, TokenDurability};

const WAIT: &str = "tenure_wait_seconds";
const HOLD: &str = "tenure_hold_seconds";
const ATTEMPTS: &str = "tenure_attempts_total";
const RENEWALS: &str = "tenure_renewals_total";
const SLACK: &str = "tenure_renewal_slack_seconds";
const LOSSES: &str = "tenure_losses_total";
const HANDOVERS: &str = "tenure_handovers_total";
const WAKEUPS: &str = "tenure_wakeups_total";
const BREAKS: &str = "tenure_breaks_total";
const HELD: &str = "tenure_held";
const WAITING: &str = "tenure_waiting";
const CANDIDATES: &str = "tenure_candidates";
const LEADER: &str = "tenure_leader";
const LEADER_TOKEN: &str = "tenure_leader_token";
const REQUEST: &str = "tenure_request_seconds";
const STORE_UP: &str = "tenure_store_up";
const PENDING: &str = "tenure_sweeper_pending";
const PROFILE: &str = "tenure_profile_info";
const BUILD: &str = "tenure_build_info";

/// Names and values of labels.
type Label = (&'static str, Cow<'static, str>);

/// The labels of one lock's metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    pub(crate) engine: &'static str,
    /// See [`Locks::with_metric_group`](crate::Locks::with_metric_group).
    pub(crate) group: Option<&'static str>,
    /// See [`Election::metric_name`](crate::Election::metric_name).
    pub(crate) election: Option<&'static str>,
}

impl Meter {
    /// The group, if there is one, and these labels. Without the feature `metrics` no recorder
    /// reads them, and there are none.
    fn group_and<const N: usize>(self, more: [(&'static str, &'static str); N]) -> Vec<Label> {
        if !cfg!(feature = "metrics") {
            return Vec::new();
        }
        let group = self.group.map(|group| ("group", group));
        group.into_iter().chain(more).map(|(name, value)| (name, value.into())).collect()
    }

    fn kind(self, kind: &'static str) -> Vec<Label> {
        self.group_and([("engine", self.engine), ("kind", kind)])
    }

    /// Shows the candidate's election, also while this process does not lead.
    pub(crate) fn campaigns(self) {
        self.leads(0.0, 0.0);
    }

    fn stands(self, candidates: f64) {
        if let Some(election) = self.election {
            shift(CANDIDATES, &[("election", election.into())], candidates);
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "tokens are far below 2^53")]
    fn lead_by(self, token: u64, sign: f64) {
        self.leads(sign, sign * token as f64);
    }

    fn leads(self, leaders: f64, token: f64) {
        if let Some(election) = self.election {
            let labels = [("election", election.into())];
            shift(LEADER, &labels, leaders);
            shift(LEADER_TOKEN, &labels, token);
        }
    }

    pub(crate) fn attempted(self, kind: &'static str, outcome: &'static str) {
        let labels = [("engine", self.engine), ("kind", kind), ("outcome", outcome)];
        count(ATTEMPTS, &self.group_and(labels), 1);
    }

    pub(crate) fn served(self, waited: Duration) {
        record(WAIT, &self.group_and([]), waited);
    }

    /// A waiting ticket was served, and its owner learned it from a push or a poll.
    pub(crate) fn handed_over(self, wakeup: Wakeup) {
        count(HANDOVERS, &self.group_and([]), 1);
        let labels = [("engine", self.engine.into()), ("by", wakeup.label().into())];
        count(WAKEUPS, &labels, 1);
    }

    pub(crate) fn held(self, time: Duration) {
        record(HOLD, &self.group_and([]), time);
    }

    pub(crate) fn lost(self, loss: Loss) {
        count(LOSSES, &self.group_and([("cause", loss.label())]), 1);
    }

    /// A renewal was confirmed when this much of the lease was left.
    pub(crate) fn renewed_with(self, slack: Duration) {
        record(SLACK, &[("engine", self.engine.into())], slack);
    }
}

/// How the owner of a waiting ticket learned that it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// The store's push.
    Push,
    /// A renewal.
    Poll,
}

impl Wakeup {
    fn label(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Poll => "poll",
        }
    }
}

/// The gauge that a ticket is in: it waits, or it holds with this token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Waiting { kind: &'static str },
    Holding { kind: &'static str, token: u64 },
}

impl Standing {
    pub(crate) fn of(state: State, kind: &'static str) -> Option<Self> {
        match state {
            State::Waiting => Some(Self::Waiting { kind }),
            State::Holding(token) => Some(Self::Holding { kind, token }),
            State::Asked | State::Lost(_) | State::Released => None,
        }
    }

    /// Moves a ticket from one gauge to another.
    pub(crate) fn change(meter: Meter, from: Option<Self>, to: Option<Self>) {
        if from != to {
            for (standing, by) in [(from, -1.0), (to, 1.0)] {
                standing.inspect(|it| it.shift(meter, by));
            }
        }
    }

    fn shift(self, meter: Meter, by: f64) {
        meter.stands(by);
        match self {
            Self::Waiting { kind } => shift(WAITING, &meter.kind(kind), by),
            Self::Holding { kind, token } => {
                shift(HELD, &meter.kind(kind), by);
                meter.lead_by(token, by);
            }
        }
    }
}

/// A dropped ticket that waits for its release. Dropping this takes it out of the gauge.
#[derive(Debug)]
pub(crate) struct PendingRelease(&'static str);

impl PendingRelease {
    pub(crate) fn new(engine: &'static str) -> Self {
        shift(PENDING, &[("engine", engine.into())], 1.0);
        Self(engine)
    }
}

impl Drop for PendingRelease {
    fn drop(&mut self) {
        shift(PENDING, &[("engine", self.0.into())], -1.0);
    }
}

pub(crate) fn renewed(outcome: &'static str) {
    count(RENEWALS, &[("outcome", outcome.into())], 1);
}

/// A break was carried out.
pub(crate) fn broken(how: LeaveMode) {
    count(BREAKS, &[("how", how_broken(how).into())], 1);
}

fn how_broken(how: LeaveMode) -> &'static str {
    match how {
        LeaveMode::Graceful => "asked",
        LeaveMode::Now => "forced",
    }
}

/// A request to the store was answered, or failed.
pub(crate) fn requested<T>(
    engine: &'static str,
    verb: &'static str,
    outcome: &Result<T>,
    took: Duration,
) {
    let outcome = outcome.as_ref().map_or_else(failure, |_| "ok");
    let labels = [("engine", engine.into()), ("verb", verb.into()), ("outcome", outcome.into())];
    record(REQUEST, &labels, took);
}

/// The label of a failed request or attempt.
pub(crate) fn failure(error: &Error) -> &'static str {
    if error.kind() == ErrorKind::Unavailable { "unavailable" } else { "refused" }
}

/// Whether a store answers.
pub(crate) fn store_is_up(engine: &'static str, store: &str, is_up: bool) {
    let labels = [("engine", engine.into()), ("store", store.to_owned().into())];
    set(STORE_UP, &labels, f64::from(u8::from(is_up)));
}

/// Shows the guarantees of a store, and the version of this crate.
pub(crate) fn show(guarantees: &Guarantees) {
    let yes = |is_so: bool| Cow::from(if is_so { "yes" } else { "no" });
    let lives_by = match guarantees.liveness {
        Liveness::Process => "process",
        Liveness::Kernel => "kernel",
        Liveness::Lease => "lease",
        Liveness::Session => "session",
    };
    let tokens = match guarantees.fencing {
        TokenDurability::None => "none",
        TokenDurability::Volatile => "volatile",
        TokenDurability::Durable => "durable",
    };
    let labels = [
        ("engine", guarantees.name.into()),
        ("store", guarantees.store.clone().into()),
        ("ticket_lives_by", lives_by.into()),
        ("tokens", tokens.into()),
        ("in_order", yes(guarantees.fair)),
        ("push", yes(guarantees.push)),
        ("failover", yes(guarantees.survives.failover)),
    ];
    set(PROFILE, &labels, 1.0);
    set(BUILD, &[("version", env!("CARGO_PKG_VERSION").into())], 1.0);
}

/// Describes every metric to the installed recorder, and shows the counters with zero: one that
/// first appears with a loss shows no increase to an alert.
#[cfg(feature = "metrics")]
pub(crate) fn describe() {
    use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

    use crate::contract::stale::REFUSALS_METRIC as REFUSALS;

    for (name, help) in [
        (ATTEMPTS, "Attempts to take a lock, by outcome"),
        (RENEWALS, "Renewals of tickets, by outcome: kept, lost or failed"),
        (LOSSES, "Locks that were lost while a guard held them, by cause"),
        (HANDOVERS, "Locks that were given to a waiting ticket"),
        (WAKEUPS, "Waiting tickets that were served, by how their owner learned it: push or poll"),
        (BREAKS, "Tickets that this program has broken: asked or forced"),
        (REFUSALS, "Writes with an old token that a fence has refused"),
    ] {
        describe_counter!(name, help);
    }
    for (name, help) in [
        (HELD, "Locks that this program holds"),
        (WAITING, "Tickets of this program that wait in a line"),
        (CANDIDATES, "Tickets of this program in the election: they wait, or one leads"),
        (LEADER, "Whether this program leads the election"),
        (LEADER_TOKEN, "The term of this program, or 0 while it does not lead"),
        (STORE_UP, "Whether the store answers"),
        (PENDING, "Dropped tickets that wait for their release"),
        (PROFILE, "Guarantees of the store, as labels"),
        (BUILD, "Version of the program's tenure, as a label"),
    ] {
        describe_gauge!(name, help);
    }
    for (name, help) in [
        (WAIT, "Time from joining a line to holding the lock"),
        (HOLD, "Time from holding a lock to its release or loss"),
        (SLACK, "Time that was left of a lease when its renewal was confirmed"),
        (REQUEST, "Time in which the store answered a request"),
    ] {
        describe_histogram!(name, Unit::Seconds, help);
    }
    for loss in Loss::OF_GUARDS {
        count(LOSSES, &[("cause", loss.label().into())], 0);
    }
    for outcome in ["kept", "lost", "failed"] {
        count(RENEWALS, &[("outcome", outcome.into())], 0);
    }
    for how in [LeaveMode::Graceful, LeaveMode::Now] {
        count(BREAKS, &[("how", how_broken(how).into())], 0);
    }
    for name in [HANDOVERS, REFUSALS] {
        count(name, &[], 0);
    }
}

#[cfg(feature = "metrics")]
fn owned(labels: &[Label]) -> Vec<metrics::Label> {
    labels.iter().map(metrics::Label::from).collect()
}

#[cfg(feature = "metrics")]
fn count(name: &'static str, labels: &[Label], by: u64) {
    contain_panic(|| metrics::counter!(name, owned(labels)).increment(by));
}

#[cfg(feature = "metrics")]
fn record(name: &'static str, labels: &[Label], time: Duration) {
    contain_panic(|| metrics::histogram!(name, owned(labels)).record(time.as_secs_f64()));
}

#[cfg(feature = "metrics")]
fn shift(name: &'static str, labels: &[Label], by: f64) {
    contain_panic(|| metrics::gauge!(name, owned(labels)).increment(by));
}

#[cfg(feature = "metrics")]
fn set(name: &'static str, labels: &[Label], to: f64) {
    contain_panic(|| metrics::gauge!(name, owned(labels)).set(to));
}

#[cfg(not(feature = "metrics"))]
pub(crate) fn describe() {}

#[cfg(not(feature = "metrics"))]
fn count(_: &'static str, _: &[Label], _: u64) {}

#[cfg(not(feature = "metrics"))]
fn record(_: &'static str, _: &[Label], _: Duration) {}

#[cfg(not(feature = "metrics"))]
fn shift(_: &'static str, _: &[Label], _: f64) {}

#[cfg(not(feature = "metrics"))]
fn set(_: &'static str, _: &[Label], _: f64) {}
