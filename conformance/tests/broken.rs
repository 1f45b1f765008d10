//! The suite catches every broken engine, and does not catch the reference.

#[path = "broken/line.rs"]
mod line;
#[path = "broken/names.rs"]
mod names;
#[path = "broken/ttl.rs"]
mod ttl;
#[path = "broken/twist.rs"]
mod twist;
#[path = "broken/values.rs"]
mod values;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_conformance::sim::{SimHost, World};
use tenure_conformance::{Arena, Case, cases, play_seed};
use tenure_core::layers::{AnyEngine, Layer};
use tenure_core::{
    Clock as _, Engine as _, Key, LeaveMode, Memory, Place, Result, Runtime as _, Ticket, TicketId,
};

use twist::Twisted;

const TTL: Duration = Duration::from_secs(9);
const SEED: u64 = 1;

/// One client of a broken engine: the store, and the state that it shares with the others.
#[derive(Clone)]
pub(crate) struct Store {
    memory: Memory,
    host: Arc<SimHost>,
    /// The index of the client.
    client: u64,
    state: Arc<State>,
}

/// The state of broken engines.
#[derive(Default)]
struct State {
    bases: Mutex<HashMap<Key, u64>>,
    stack: Mutex<Vec<Ticket>>,
    owners: Mutex<HashMap<TicketId, u64>>,
    lines: Mutex<HashMap<Key, Vec<(Ticket, Place)>>>,
    places: Mutex<HashMap<TicketId, Option<Place>>>,
    names: Mutex<HashMap<Key, Key>>,
    waiters: Mutex<HashSet<TicketId>>,
    ends: Mutex<HashMap<TicketId, (Ticket, u64)>>,
    began: Mutex<HashMap<Key, u64>>,
    renewed: Mutex<HashMap<TicketId, u64>>,
    count: AtomicU64,
    /// The last token of each key in the data of the store.
    known: Mutex<HashMap<Key, u64>>,
    /// The same in a copy of the data.
    copied: Mutex<HashMap<Key, u64>>,
    numbers: Mutex<HashMap<TicketId, u64>>,
}

impl State {
    fn copy_data(&self) {
        self.copied.lock().unwrap().clone_from(&self.known.lock().unwrap());
    }

    fn come_back_with_the_copy(&self) {
        self.known.lock().unwrap().clone_from(&self.copied.lock().unwrap());
    }
}

impl Store {
    /// Waits a short time.
    async fn moment(&self) {
        self.host.sleep(TTL / 100).await;
    }

    fn now(&self) -> u64 {
        self.host.now().boot_ns
    }

    fn lives_until(&self, ticket: &Ticket, ttl: Duration) {
        let ends = self.now() + u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX / 2);
        self.state.ends.lock().unwrap().insert(ticket.id, (ticket.clone(), ends));
    }

    async fn bury_the_late(&self) -> Result<()> {
        let now = self.now();
        let mut late = Vec::new();
        self.state.ends.lock().unwrap().retain(|_, (ticket, ends)| {
            if *ends <= now {
                late.push(ticket.clone());
            }
            *ends > now
        });
        for ticket in late {
            self.memory.leave(&ticket, LeaveMode::Now).await?;
        }
        Ok(())
    }

    /// Returns one more than the last time.
    fn count(&self) -> u64 {
        self.state.count.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether time has passed since this was called for the ticket.
    fn is_later_than_last(&self, ticket: &Ticket) -> bool {
        let now = self.now();
        self.state.renewed.lock().unwrap().insert(ticket.id, now) != Some(now)
    }

    /// The time since the first call for this key within such a period.
    fn since(&self, key: &Key, per: Duration) -> Duration {
        let now = self.now();
        let mut began = self.state.began.lock().unwrap();
        let first = began.entry(key.clone()).or_insert(now);
        if Duration::from_nanos(now - *first) >= per {
            *first = now;
        }
        Duration::from_nanos(now - *first)
    }
}

/// Makes the engine of one client.
type Make = fn(Store, Arc<AtomicU64>) -> AnyEngine;

fn twisted(twist: impl Layer<Inner = Memory>, asked: Arc<AtomicU64>) -> AnyEngine {
    AnyEngine::new(Twisted::new(twist, asked))
}

/// The reference, unchanged.
struct Sound(Store);

impl Layer for Sound {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0.memory
    }
}

/// The engines by their names: unit twists, and those with a function.
macro_rules! engines {
    ($($module:ident: [$($twist:ident),* $(,)?])* $($name:literal = $make:expr;)*) => {
        vec![
            $($((stringify!($twist), (|store, asked| twisted($module::$twist(store), asked)) as Make)),*,)*
            $(($name, (|store, asked| twisted($make(store), asked)) as Make)),*
        ]
    };
}

fn broken() -> Vec<(&'static str, Make)> {
    use names::Folds;
    use ttl::Renumbers;

    engines! {
        line: [
            ReleasesWithoutLooking, RenewsExpiredTickets, ServesOneTooMany, LooksBeforeItActs,
            MixesCapacities, KeepsTicketsThatMayNotWait, LetsNoWaitOvertake, JoinsTwice,
            JoinsAgainAtTheBack, ServesTheLast, ForgetsThatAWaiterLeft, ShrinksNoShare,
            BreaksAtOnce, RenewsAHolderAskedToLeave, ReportsAHolderAskedToLeaveAsGone, LetsCopiesIn, KeepsOperatorsAway,
            ShowsAnOldLine, RenewsFromAnOldCopy, LosesNotes,
        ]
        ttl: [
            LosesASecondRenewalAtOnce, IgnoresFloors, IgnoresTheFloorOfRenewals, NeverEnds, EndsTooSoon, PromisesALongerTtl,
            MovesEndsBackwards, RenewsNothing, JoinsAgainWithoutARenewal, InspectionRenews,
            DeadWaitersStay, NotifiesNoServedTicket, NotifiesNoLoss, NotifiesOnlyLaterChanges,
            NotifiesAWrongNumber, ServesOnlyAnEmptyLine, NeverAnswersALeave,
        ]
        names: [
            TakesPrefixesForPatterns, ListsEmptyLines, CutsNotes, ReportsOnlyTheLast, ReportsBackwards,
            ReportsNoExpiry, ReportsTwice, ReportsNoChange, ReportsEveryScope, CountsInTwoSteps,
            CountsWhatItRefuses, CountsForEver, ReadingOpensAWindow, MixesCounts, CountsFromZero,
            ForgetsSequences, CountsOnAndOn,
        ]
        values: [
            SwapsInTwoSteps, SwapsWhatNobodySaw, AnswersWithTheOldValue, SharesValues, CutsValues, ForgetsValues,
        ]
        "NumbersAnew" = |store| Renumbers { store, change: ttl::anew_when_empty };
        "NumbersByTheClientsClock" = |store| Renumbers { store, change: ttl::by_the_clients_clock };
        "NumbersFollowOldData" = |store| Renumbers { store, change: ttl::after_what_is_known };
        "NumbersAnotherEachTime" = |store| Renumbers { store, change: ttl::another_each_time };
        "NumbersTooCoarse" = |store| Renumbers { store, change: ttl::too_coarse };
        "NamesCutShort" = |store| Folds { store, fold: names::cut_short };
        "NamesCaseBlind" = |store| Folds { store, fold: names::case_blind };
        "NamesEndedByNul" = |store| Folds { store, fold: names::ended_by_nul };
        "NamesTrimmed" = |store| Folds { store, fold: names::trimmed };
    }
}

fn play(case: Case, make: Make) {
    play_seed(case, SEED, move |world: World| {
        let memory = Memory::with_clock((*world.store()).clone());
        let (state, asked) = (Arc::new(State::default()), Arc::new(AtomicU64::new(0)));
        let (clients, host) = (AtomicU64::new(0), world.store());
        let (copied, older) = (state.clone(), state.clone());
        let open = move || {
            let client = clients.fetch_add(1, Ordering::Relaxed);
            let (memory, host, state) = (memory.clone(), host.clone(), state.clone());
            ready(Ok(make(Store { memory, host, client, state }, asked.clone())))
        };
        let remember = move || {
            copied.copy_data();
            ready(())
        };
        let come_back = move || {
            older.come_back_with_the_copy();
            ready(())
        };
        ready(Arena::on(world.process(), TTL, open).with_past(remember, come_back))
    });
}

/// The cases that this engine fails.
fn caught_by(make: Make) -> Vec<&'static str> {
    let fails = |case: &&Case| catch_unwind(AssertUnwindSafe(|| play(**case, make))).is_err();
    cases::all().iter().filter(fails).map(|case| case.name).collect()
}

/// Runs every case on every engine, on a few threads.
fn table() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut waiting = broken();
    waiting.push(("sound", |store, asked| twisted(Sound(store), asked)));
    let (waiting, table) = (Mutex::new(waiting), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, Into::into) {
            scope.spawn(|| {
                loop {
                    let Some((name, make)) = waiting.lock().unwrap().pop() else { return };
                    let caught = caught_by(make);
                    table.lock().unwrap().insert(name, caught);
                }
            });
        }
    });
    table.into_inner().unwrap()
}

#[test]
fn every_broken_engine_is_caught() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut table = table();
    let _ = std::panic::take_hook();
    let sound = table.remove("sound").unwrap();
    let mut catching: HashSet<&str> = HashSet::new();
    for (engine, cases) in &table {
        println!("{engine}: caught by {}", cases.len());
        for case in
            cases.iter().take(if std::env::var_os("TENURE_ALL").is_some() { 999 } else { 4 })
        {
            println!("    {case}");
        }
        catching.extend(cases);
    }
    println!("cases that caught nothing:");
    for case in cases::all().iter().filter(|case| !catching.contains(case.name)) {
        println!("    {}", case.name);
    }
    assert_eq!(sound, [""; 0], "the reference fails a case");
    let free: Vec<_> = table.iter().filter(|(_, cases)| cases.is_empty()).collect();
    assert!(free.is_empty(), "no case catches {free:?}");
}
