//! Two processes that hand a lock to each other: from the call to release to the return of lock.
//!
//! The releaser waits next, and the holder releases only after the other process has waited for a
//! while. So each turn is one hand-over to a waiter that certainly waits, also for a poller, whose
//! releaser could otherwise take the lock again before the waiter polls.

use std::time::Duration;

use super::elsewhere::Elsewhere;
use super::kind::Kind;
use super::side::{FAILED, GONE, Side};
use super::stores::Stores;
use super::turns::alarm;
use crate::figures::{Table, median, readable, times, us};

const ROUNDS: usize = 5;
/// Turns of a round for waiters that the server notifies, and for waiters that poll.
const NOTIFIED_TURNS: usize = 120;
const POLLING_TURNS: usize = 8;
/// Minimum time that a waiter waits, and the range that is spread evenly above it.
const WAIT_MIN: Duration = Duration::from_millis(3);
const WAIT_SPREAD: Duration = Duration::from_millis(4);

struct Pair {
    name: String,
    sides: [Side; 2],
    /// Maximum pause between two polls of a waiter.
    poll: Duration,
    /// The goal for its time, as a multiple of Tenure's.
    wanted: &'static str,
    /// Turns so far. If the number is even, the first side holds.
    turns: usize,
    took: Vec<Duration>,
    /// Turns in which the waiter held before the release was called.
    overlaps: u64,
    token: u64,
    tokens_grow: bool,
    failure: Option<String>,
}

impl Pair {
    fn of(kind: Kind, urls: &[String]) -> Self {
        let key = format!("handover-{}", kind.name);
        let sides = [0, 1].map(|side| Side::of(kind, side, &key, urls));
        Self { wanted: kind.handover_wanted, ..Self::new(kind.to_string(), sides, kind.poll) }
    }

    fn new(name: String, mut sides: [Side; 2], poll: Duration) -> Self {
        let (_, token) = lock(&sides[0].ask("lock")).expect("the lock is free");
        Self {
            name,
            sides,
            poll,
            wanted: "> 1 ×",
            turns: 0,
            took: Vec::new(),
            overlaps: 0,
            token,
            tokens_grow: true,
            failure: None,
        }
    }

    fn round(&mut self) {
        let turns = if self.poll.is_zero() { NOTIFIED_TURNS } else { POLLING_TURNS };
        for _ in 0..turns {
            if self.failure.is_none() {
                self.failure = self.turn().err();
            }
        }
    }

    fn turn(&mut self) -> Result<(), String> {
        let gap = self.gap();
        let [first, second] = &mut self.sides;
        let (holder, waiter) =
            if self.turns.is_multiple_of(2) { (first, second) } else { (second, first) };
        self.turns += 1;
        waiter.say("lock");
        std::thread::sleep(gap);
        holder.say("release");
        let released: u64 = holder.hear().parse().map_err(|_| GONE)?;
        let (held, token) = lock(&waiter.hear())?;
        self.overlaps += u64::from(held < released);
        self.took.push(Duration::from_nanos(held.saturating_sub(released)));
        self.tokens_grow &= token > self.token;
        self.token = token;
        Ok(())
    }

    /// Steps of the golden ratio spread evenly, and do not resonate with the pauses of a poller.
    fn gap(&self) -> Duration {
        #[allow(clippy::cast_precision_loss, reason = "a count of some hundreds")]
        let part = (self.turns as f64 * 0.618_034).fract();
        WAIT_MIN + (WAIT_SPREAD + self.poll).mul_f64(part)
    }

    fn median(&self) -> Duration {
        median(&mut self.took.clone())
    }

    fn longest(&self) -> String {
        let longest = self.took.iter().max().copied().unwrap_or_default();
        format!("at most {}{}", readable(longest), alarm(self.overlaps))
    }
}

fn lock(answer: &str) -> Result<(u64, u64), String> {
    if let Some(failure) = answer.strip_prefix(FAILED) {
        return Err(failure.to_owned());
    }
    let (at, token) = answer.split_once(' ').ok_or(GONE)?;
    Ok((at.parse().unwrap(), token.parse().unwrap()))
}

fn alternate(pairs: &mut [Pair]) {
    for _ in 0..ROUNDS {
        for pair in &mut *pairs {
            pair.round();
        }
    }
}

/// Tenure and its floors, where the server notifies a waiter.
pub(crate) struct Notified {
    /// The fewest requests that a hand-over needs, by the same client. Tenure is compared with the
    /// last.
    pub(crate) floors: &'static [Kind],
    pub(crate) ours: Kind,
    pub(crate) wanted: &'static str,
}

/// Adds the rows of one server or cluster.
pub(crate) fn run(
    table: &mut Table,
    stores: &Stores,
    notified: &Notified,
    peers: &[Kind],
    elsewhere: &[Elsewhere],
) {
    let urls = &stores.urls;
    let case = stores.case("hand-over between two processes");
    let kinds = notified.floors.iter().chain([&notified.ours]);
    let mut pairs: Vec<Pair> = kinds.map(|kind| Pair::of(*kind, urls)).collect();
    alternate(&mut pairs);
    let [hops @ .., floor, ours] = pairs.as_slice() else { unreachable!() };
    for hop in hops {
        table.row(format!("{case}: {}", hop.name), us(hop.median()), hop.longest(), "–");
    }
    let (name, longest) = (&floor.name, floor.longest());
    table.row(
        format!("{case}: {name}, the floor"),
        us(floor.median()),
        format!("1; {longest}"),
        "–",
    );
    let beside =
        format!("{:.2} × the floor; {}", times(ours.median(), floor.median()), ours.longest());
    table.row(case.as_str(), us(ours.median()), beside, notified.wanted);
    let ours = ours.median();
    drop(pairs);

    let mut peers: Vec<Pair> = peers.iter().map(|kind| Pair::of(*kind, urls)).collect();
    for peer in elsewhere {
        match pair_elsewhere(peer, &urls[0]) {
            Ok(pair) => peers.push(pair),
            Err(error) => peer.row_absent(table, &case, &error),
        }
    }
    alternate(&mut peers);
    rows_of_peers(table, &case, &peers, ours);
}

/// Adds the rows of a case without a floor: Tenure first, then the peers. Returns whether the token
/// of Tenure grew in each turn.
pub(crate) fn run_beside(table: &mut Table, stores: &Stores, case: &str, kinds: &[Kind]) -> bool {
    let case = stores.case(case);
    let mut pairs: Vec<Pair> = kinds.iter().map(|kind| Pair::of(*kind, &stores.urls)).collect();
    alternate(&mut pairs);
    let [ours, peers @ ..] = pairs.as_slice() else { unreachable!() };
    table.row(case.as_str(), us(ours.median()), ours.longest(), "–");
    rows_of_peers(table, &case, peers, ours.median());
    ours.tokens_grow
}

fn rows_of_peers(table: &mut Table, case: &str, peers: &[Pair], ours: Duration) {
    for peer in peers {
        let case = format!("{case}, {}", peer.name);
        if let Some(failure) = &peer.failure {
            table.row(case, failure.as_str(), "–", "–");
            continue;
        }
        let beside = format!("{:.1} × ours; {}", times(peer.median(), ours), peer.longest());
        table.row(case, readable(peer.median()), beside, peer.wanted);
    }
}

fn pair_elsewhere(peer: &Elsewhere, url: &str) -> Result<Pair, String> {
    let key = "handover-elsewhere";
    let sides = [peer.side(url, key)?, peer.side(url, key)?];
    Ok(Pair::new(peer.title.into(), sides, peer.poll))
}
