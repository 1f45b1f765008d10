//! Two processes that hand a lock to each other: from the call to release to the return of lock.
//!
//! Whoever has handed it over waits next, and whoever holds lets the other one wait for a while
//! first. So each turn is one hand-over to a waiter who certainly waits, even where the releaser
//! would take the lock again before the waiter looks.

use std::time::Duration;

use super::elsewhere::Elsewhere;
use super::kind::Kind;
use super::side::{FAILED, GONE, Side};
use super::stores::Stores;
use super::turns::alarm;
use crate::figures::{Table, median, readable, times, us};

const ROUNDS: usize = 5;
/// The turns of a round, of those who are told and of those who look now and then.
const TOLD_TURNS: usize = 120;
const POLLING_TURNS: usize = 8;
/// What a waiter waits at least, and what is spread evenly above that.
const WAIT_MIN: Duration = Duration::from_millis(3);
const WAIT_SPREAD: Duration = Duration::from_millis(4);

struct Pair {
    name: String,
    sides: [Side; 2],
    /// How long at most a waiter sleeps before it looks again.
    poll: Duration,
    /// How many turns there were: even, and the first side holds.
    turns: usize,
    took: Vec<Duration>,
    /// How often the other one held before the release was called.
    overlaps: u64,
    token: u64,
    tokens_grow: bool,
    failure: Option<String>,
}

impl Pair {
    fn of(kind: Kind, urls: &[String]) -> Self {
        let key = format!("handover-{}", kind.name);
        let sides = [0, 1].map(|side| Side::of(kind, side, &key, urls));
        Self::new(kind.to_string(), sides, kind.poll)
    }

    fn new(name: String, mut sides: [Side; 2], poll: Duration) -> Self {
        let (_, token) = lock(&sides[0].ask("lock")).expect("a free lock is got");
        Self {
            name,
            sides,
            poll,
            turns: 0,
            took: Vec::new(),
            overlaps: 0,
            token,
            tokens_grow: true,
            failure: None,
        }
    }

    fn round(&mut self) {
        let turns = if self.poll.is_zero() { TOLD_TURNS } else { POLLING_TURNS };
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

    /// Steps of the golden ratio fall evenly, at no beat with anybody's pauses.
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

/// What ours stands beside where somebody tells a waiter.
pub(crate) struct Told {
    /// The least that a hand-over asks of the same client. Ours is compared with the last one.
    pub(crate) floors: &'static [Kind],
    pub(crate) ours: Kind,
    pub(crate) wanted: &'static str,
}

/// The rows of one server, or of one cluster.
pub(crate) fn run(
    table: &mut Table,
    stores: &Stores,
    told: &Told,
    peers: &[Kind],
    elsewhere: &[Elsewhere],
) {
    let urls = &stores.urls;
    let case = stores.case("hand-over between two processes");
    let kinds = told.floors.iter().chain([&told.ours]);
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
    table.row(case.as_str(), us(ours.median()), beside, told.wanted);
    let ours = ours.median();
    drop(pairs);

    let mut peers: Vec<Pair> = peers.iter().map(|kind| Pair::of(*kind, urls)).collect();
    for peer in elsewhere {
        match pair_elsewhere(peer, &urls[0]) {
            Ok(pair) => peers.push(pair),
            Err(why) => peer.say_absent(table, &case, &why),
        }
    }
    alternate(&mut peers);
    rows_of_peers(table, &case, &peers, ours);
}

/// The rows of those who have no floor: ours first, then the peers. Whether the token of ours grew each time.
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
        table.row(case, readable(peer.median()), beside, "> 1 ×");
    }
}

fn pair_elsewhere(peer: &Elsewhere, url: &str) -> Result<Pair, String> {
    let key = "handover-elsewhere";
    let sides = [peer.side(url, key)?, peer.side(url, key)?];
    Ok(Pair::new(peer.title.into(), sides, peer.poll))
}
