//! The cost of a long line: a renewal of the holder, and a hand-over.

use std::time::{Duration, Instant};

use mongodb::bson::doc;
use tenure_core::{Engine as _, Key, LeaveMode, Share, Ticket, WaitMode};
use tenure_mongodb::MongoStore;
use tenure_servers::mongodb::Server;

use super::kinds::OURS;
use crate::contest::crowd::Crowd;
use crate::contest::stores::Stores;
use crate::contest::workers::workers;
use crate::figures::{Table, grouped, median, us};
use crate::processor;

const CROWD: u64 = 1_000;
const LINES: [u64; 3] = [10, 1_000, 3_000];
const RENEWALS: usize = 51;
const HANDOVERS: u32 = 9;
/// Longer than any row takes, so that no renewal of a waiter is measured.
const TTL: Duration = Duration::from_secs(600);
/// The commands of a hand-over.
const COMMANDS: [&str; 5] = ["findAndModify", "getMore", "aggregate", "find", "update"];

pub(crate) fn run(table: &mut Table, stores: &Stores, server: &Server) {
    crowd(table, stores, server);
    for waiting in LINES {
        line(table, stores, server, waiting);
    }
}

/// All wait until the holder releases, and each releases as soon as it holds.
fn crowd(table: &mut Table, stores: &Stores, server: &Server) {
    let case = stores.case(&format!("{} wait, and leave as soon as they hold", grouped(CROWD)));
    let runtime = workers();
    let crowd = Crowd { kind: OURS, urls: stores.urls.clone(), waiters: CROWD };
    let began = Toll::of(server, stores.pids[0]);
    let waiting = runtime.block_on(crowd.gather("leaves"));
    let gathered = Toll::of(server, stores.pids[0]);
    let cost = waiting.and_then(|waiting| runtime.block_on(Crowd::leave(waiting)));
    let gone = Toll::of(server, stores.pids[0]);
    match cost {
        Err(error) => table.row(case, error, "–", "–"),
        Ok(time) => {
            let (commands, processor) = gone.since(&gathered);
            let time = us(time / u32::try_from(CROWD).unwrap());
            let measured = format!("{time} and {commands:.2} commands per hand-over");
            table.row(case.as_str(), measured, processor, "–");
            let (commands, processor) = gathered.since(&began);
            let measured = format!("{commands:.2} commands for each");
            table.row(format!("{case}: their coming"), measured, processor, "–");
        }
    }
}

/// The commands and the processor time of a server.
struct Toll {
    commands: u64,
    processor: Duration,
}

impl Toll {
    fn of(server: &Server, pid: u32) -> Self {
        Self { commands: commands(server), processor: processor::of(pid) }
    }

    /// The commands and the processor time since then, for each waiter.
    #[allow(clippy::cast_precision_loss, reason = "counts of some thousands")]
    fn since(&self, then: &Self) -> (f64, String) {
        let used = self.processor.saturating_sub(then.processor) / u32::try_from(CROWD).unwrap();
        let commands = (self.commands - then.commands) as f64 / CROWD as f64;
        (commands, format!("{} of the server's processor", us(used)))
    }
}

/// Measures a renewal and a release with `waiting` tickets in line.
fn line(table: &mut Table, stores: &Stores, server: &Server, waiting: u64) {
    let runtime = workers();
    let url = stores.urls[0].clone();
    let pid = server.pid().unwrap();
    let measured = runtime.block_on(async move {
        let store = MongoStore::open(&url).await.map_err(|error| error.to_string())?;
        let key = Key::new(format!("line-{waiting}")).unwrap();
        let mut tickets = Vec::new();
        for _ in 0..=waiting {
            let ticket = Ticket { ttl: TTL, ..Ticket::new(key.clone(), Share::WHOLE) };
            store.join(&ticket, WaitMode::Wait).await.map_err(|error| error.to_string())?;
            tickets.push(ticket);
        }
        let used = processor::of(pid);
        let mut renewals = Vec::new();
        for _ in 0..RENEWALS {
            let start = Instant::now();
            store.renew(&tickets[0]).await.map_err(|error| error.to_string())?;
            renewals.push(start.elapsed());
        }
        let server = processor::of(pid).saturating_sub(used) / u32::try_from(RENEWALS).unwrap();
        let start = Instant::now();
        for ticket in tickets.iter().take(HANDOVERS as usize) {
            store.leave(ticket, LeaveMode::Now).await.map_err(|error| error.to_string())?;
        }
        let handover = start.elapsed() / HANDOVERS;
        Ok::<_, String>((median(&mut renewals), server, handover))
    });
    let case = stores.case(&format!("a renewal, with {} in line", grouped(waiting)));
    match measured {
        Err(error) => table.row(case, error, "–", "–"),
        Ok((renewal, used, handover)) => {
            let used = us(used);
            table.row(case, us(renewal), format!("{used} of the server's processor"), "–");
            let case = stores.case(&format!("a release, with {} in line", grouped(waiting)));
            table.row(case, us(handover), "–", "–");
        }
    }
}

/// The number of such commands that the server has run.
fn commands(server: &Server) -> u64 {
    let status = server.command("admin", doc! { "serverStatus": 1 }).unwrap();
    let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap();
    let count = |name: &&str| {
        let total = commands.get_document(name).and_then(|command| command.get_i64("total"));
        total.unwrap_or_default().unsigned_abs()
    };
    COMMANDS.iter().map(count).sum()
}
