//! The referee compares the belief of every holder with the stores, at one moment of the world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_core::sync::Mutex;
use tenure_core::{Engine as _, ErrorKind, Key, Memory, TicketId, TicketState};

use super::World;
use crate::fault::{Asked, Verb};
use crate::sim::holder::View;

/// Maximum requests at one moment; more are an endless loop.
const QUESTIONS_PER_MOMENT_MAX: u32 = 20_000;

/// Clones are the same referee.
#[derive(Clone)]
pub(super) struct Referee {
    world: World,
    stores: Arc<Vec<Memory>>,
    ledger: Arc<Mutex<Ledger>>,
}

#[derive(Default)]
struct Ledger {
    believers: BTreeMap<u64, Believer>,
    made: u64,
    keys: BTreeMap<String, Record>,
    /// Tickets that their owners released or gave up.
    left: BTreeSet<TicketId>,
    moment: Duration,
    questions: u32,
    violation: Option<String>,
    log: Option<Vec<String>>,
    counts: Counts,
}

/// The counts of a story.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Granted locks.
    pub grants: u64,
    /// Locks that were lost while they were held.
    pub losses: u64,
    /// Requests that ended in an error.
    pub errors: u64,
    /// Writes that a fence refused.
    pub refused: u64,
}

/// A holder of a granted lock.
pub(super) struct Believer {
    pub(super) who: String,
    pub(super) key: String,
    pub(super) take: u32,
    pub(super) of: u32,
    pub(super) token: u64,
    pub(super) id: TicketId,
    pub(super) view: Arc<dyn View>,
    /// Its work must stop before its ticket is released.
    pub(super) works: bool,
}

/// The observations of a key.
#[derive(Default)]
struct Record {
    last: u64,
    last_exclusive: u64,
    /// The highest token that the resource has accepted.
    fence: u64,
    /// Holders that were notified of a loss, which is final.
    lost: Vec<(String, Arc<dyn View>)>,
}

impl Referee {
    pub(super) fn new(world: World, stores: Vec<Memory>, keeps_log: bool) -> Self {
        let ledger = Ledger { log: keeps_log.then(Vec::new), ..Ledger::default() };
        Self { world, stores: Arc::new(stores), ledger: Arc::new(Mutex::new(ledger)) }
    }

    /// Adds a line to the log, if there is one.
    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        let passed = self.world.passed();
        if let Some(log) = self.ledger().log.as_mut() {
            log.push(format!("{:>12.6}  {}", passed.as_secs_f64(), line()));
        }
    }

    /// Reports a violation. The first one is kept.
    pub(super) fn object(&self, sentence: String) {
        self.note(|| format!("VIOLATION: {sentence}"));
        self.ledger().violation.get_or_insert(sentence);
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.ledger().violation.clone()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.ledger().counts);
    }

    pub(super) fn counts(&self) -> Counts {
        self.ledger().counts
    }

    pub(super) fn take_log(&self) -> Vec<String> {
        self.ledger().log.take().unwrap_or_default()
    }

    /// Adds a holder, and returns its number.
    pub(super) fn grant(&self, believer: Believer) -> u64 {
        let Believer { ref who, ref key, take, of, token, .. } = believer;
        self.note(|| format!("{who} is granted {key} ({take}/{of}) with the token {token}"));
        let key = key.clone();
        let exclusive = take == of;
        let who = who.clone();
        let mut ledger = self.ledger();
        ledger.counts.grants += 1;
        let record = ledger.keys.entry(key.clone()).or_default();
        let last = if exclusive { record.last } else { record.last_exclusive };
        record.last = record.last.max(token);
        if exclusive {
            record.last_exclusive = token;
        }
        ledger.made += 1;
        let number = ledger.made;
        ledger.believers.insert(number, believer);
        drop(ledger);
        // Semaphores are served in order, but replies may overtake each other.
        if token <= last && (exclusive || of > 1_000_000) {
            self.object(format!("{who} was granted {key} with the token {token} after {last}"));
        }
        self.look(&key);
        number
    }

    /// Notes the start of work, which must end before the ticket is released.
    pub(super) fn begin_work(&self, number: u64) {
        if let Some(believer) = self.ledger().believers.get_mut(&number) {
            believer.works = true;
        }
    }

    /// Reduces its share.
    pub(super) fn shrink(&self, number: u64, take: u32) {
        if let Some(believer) = self.ledger().believers.get_mut(&number) {
            believer.take = take;
        }
    }

    /// Ends it: released, or lost.
    pub(super) fn end(&self, number: u64) {
        let believer = self.ledger().believers.remove(&number);
        let Some(believer) = believer else { return };
        if believer.view.check().is_ok() {
            return;
        }
        self.count(|counts| counts.losses += 1);
        let mut ledger = self.ledger();
        let record = ledger.keys.entry(believer.key).or_default();
        record.lost.push((believer.who, believer.view));
    }

    /// Checks all holders that may believe to hold this key, at this moment.
    pub(super) fn look(&self, key: &str) {
        let believers: Vec<_> = {
            let ledger = self.ledger();
            let of_key = ledger.believers.values().filter(|believer| believer.key == key);
            of_key.map(|b| (b.who.clone(), b.take, b.of, b.token, b.id, b.view.clone())).collect()
        };
        let mut sum = 0;
        let mut shown = Vec::new();
        for (who, take, of, token, id, view) in believers {
            if view.check().is_err() {
                continue;
            }
            sum += u64::from(take);
            shown.push(format!("{who} ({take}/{of}, token {token})"));
            if sum > u64::from(of) {
                self.object(format!("{key} is held by {} at once", shown.join(" and ")));
            }
            self.compare_with_stores(key, &who, token, id);
        }
        self.see_that_losses_stay(key);
    }

    /// Checks that a majority of the stores serves the holder at the same moment. The stores of a
    /// quorum may know it by another id and token, but they know its owner.
    fn compare_with_stores(&self, key: &str, who: &str, token: u64, id: TicketId) {
        let key = Key::new(key).expect("the key is valid");
        let votes = self.stores.iter().filter(|store| {
            let line = store.line(&key).now_or_never().and_then(Result::ok).unwrap_or_default();
            line.iter().any(|(ticket, place)| {
                let known = match self.stores.len() {
                    1 => ticket.id == id && place.number == token,
                    _ => &*ticket.owner == who,
                };
                known && place.state == TicketState::Holding
            })
        });
        if votes.count() <= self.stores.len() / 2 {
            self.object(format!(
                "{who} believes to hold {key} with the token {token}, but the store does not serve it"
            ));
        }
    }

    fn see_that_losses_stay(&self, key: &str) {
        let lost: Vec<_> =
            self.ledger().keys.get(key).map(|record| record.lost.clone()).unwrap_or_default();
        for (who, view) in lost {
            if view.check().is_ok() {
                self.object(format!(
                    "{who} was notified that {key} is lost, and believes again to hold it"
                ));
            }
        }
    }

    /// A write reaches the resource.
    pub(super) fn write(&self, who: &str, key: &str, token: u64, view: &dyn View) {
        let believes = view.check().is_ok();
        let mut ledger = self.ledger();
        let record = ledger.keys.entry(key.to_owned()).or_default();
        let fence = record.fence;
        record.fence = fence.max(token);
        if token >= fence {
            return;
        }
        ledger.counts.refused += 1;
        drop(ledger);
        self.note(|| {
            format!("the write of {who} to {key} with {token} is refused: {fence} came before")
        });
        if believes {
            self.object(format!(
                "{who} holds {key} with the token {token}, and a newer one, {fence}, came before it"
            ));
        }
    }

    /// Observes each request before it is sent.
    pub(super) fn observe(&self, who: &str, asked: Asked<'_>) {
        self.count_question(who, asked);
        let Some(id) = asked.id() else { return };
        let mut ledger = self.ledger();
        let works = ledger.believers.values().any(|believer| believer.works && believer.id == id);
        let has_left = ledger.left.contains(&id);
        if asked.verb == Verb::Leave {
            ledger.left.insert(id);
        }
        drop(ledger);
        if asked.verb == Verb::Renew && has_left {
            self.object(format!("{who} renews a ticket that it released"));
        }
        if asked.verb == Verb::Leave && works {
            self.object(format!("{who} gives up its seat, but its work continues"));
        }
    }

    fn count_question(&self, who: &str, asked: Asked<'_>) {
        let moment = self.world.passed();
        let mut ledger = self.ledger();
        ledger.questions = if ledger.moment == moment { ledger.questions + 1 } else { 0 };
        ledger.moment = moment;
        let questions = ledger.questions;
        drop(ledger);
        assert!(
            questions < QUESTIONS_PER_MOMENT_MAX,
            "{who} repeats {asked:?} without end while time stands still (seed {})",
            self.world.seed()
        );
    }

    /// Returns the tickets that are left in the stores.
    pub(super) fn left_behind(&self, keys: impl Iterator<Item = String>) -> Vec<String> {
        let mut found = Vec::new();
        for key in keys {
            let name = Key::new(&key).expect("the key is valid");
            for store in self.stores.iter() {
                let line = store.line(&name).now_or_never().and_then(Result::ok);
                let tickets = line.map_or(0, |line| line.len());
                if tickets > 0 {
                    found.push(format!("{tickets} in {key}"));
                }
            }
        }
        found
    }

    /// Reports an error that no fault of the network excuses.
    pub(super) fn report_error(&self, who: &str, error: &tenure_core::Error, calm: bool) {
        self.count(|counts| counts.errors += 1);
        self.note(|| format!("{who} gets the error: {error}"));
        let excused = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost);
        if calm || !excused {
            self.object(format!("{who} got an error without a fault: {error}"));
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }
}
