//! Three clients want one lock, and are killed and stopped. No two rely on it at the same moment.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use tenure_core::{Locks, TicketState};
use tenure_servers::PYTHON;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::kit::{PATIENCE, Program, Site};

/// A stop for longer than the ttl of the contenders, which is 1 s.
const STOP: Duration = Duration::from_millis(1_500);
/// Times that a contender is killed, and times that one is stopped, at least.
const ROUNDS: usize = 3;

struct Contender {
    program: Program,
    journal: PathBuf,
    server: usize,
}

impl Contender {
    fn start(site: &Site, folder: &Path, number: usize) -> Self {
        let (server, journal) = (number % 2, folder.join(number.to_string()));
        let url = site.servers[server].url();
        let program = Program::python("contender.py", &[&url, journal.to_str().unwrap()]);
        Self { program, journal, server }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.program.pid()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    fn has_lost(&self) -> usize {
        let journal = fs::read_to_string(&self.journal).unwrap_or_default();
        journal.lines().filter(|line| line.starts_with("lost")).count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_clients_rely_on_a_lock_while_others_are_killed_and_stopped() {
    let Some(mut site) = Site::new(&[PYTHON]).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut started = 3;
    let mut contenders: Vec<_> =
        (0..started).map(|number| Contender::start(&site, folder.path(), number)).collect();
    let (mut losses, mut round) = (0, 0);
    while round < ROUNDS || losses == 0 {
        let killed = holder(&site.locks, &contenders).await;
        contenders[killed].signal(Signal::KILL);
        contenders[killed] = Contender::start(&site, folder.path(), started);
        started += 1;
        let stopped = holder(&site.locks, &contenders).await;
        let (contender, before) = (&contenders[stopped], contenders[stopped].has_lost());
        contender.signal(Signal::STOP);
        if round == 1 {
            // The holds of its clients survive it.
            site.servers[1 - contender.server].replace().await;
        }
        sleep(STOP).await;
        contender.signal(Signal::CONT);
        // It may have been stopped in the moment of its release, and then it has lost nothing.
        let end = Instant::now() + STOP;
        while Instant::now() < end && contenders[stopped].has_lost() == before {
            sleep(Duration::from_millis(10)).await;
        }
        losses += contenders[stopped].has_lost() - before;
        round += 1;
    }
    // Each contender that is left gets the lock again.
    for contender in &contenders {
        let pid = contender.program.pid();
        let served = async { while holder_pid(&site.locks).await != Some(pid) {} };
        timeout(PATIENCE, served).await.expect("each is served again");
    }
    drop(contenders);
    let grants = judge(folder.path(), started);
    println!("{grants} grants, {losses} losses");
    assert!(grants > 2 * ROUNDS, "{grants} grants");
}

/// Waits until one of the contenders holds the lock.
async fn holder(locks: &Locks, contenders: &[Contender]) -> usize {
    let found = async {
        loop {
            let pid = holder_pid(locks).await;
            let at = contenders.iter().position(|it| Some(it.program.pid()) == pid);
            if let Some(at) = at {
                return at;
            }
        }
    };
    timeout(PATIENCE, found).await.expect("one of them holds")
}

async fn holder_pid(locks: &Locks) -> Option<u32> {
    sleep(Duration::from_millis(5)).await;
    let line = locks.line("k").await.unwrap();
    let holder = line.first().filter(|entry| entry.state == TicketState::Holding)?;
    holder.owner.rsplit(' ').next()?.parse().ok()
}

/// Compares the moments at which the holder of each token relied on the lock. Returns the number
/// of tokens.
fn judge(folder: &Path, contenders: usize) -> usize {
    let mut tokens: BTreeMap<u64, (usize, f64, f64)> = BTreeMap::new();
    for contender in 0..contenders {
        let journal = fs::read_to_string(folder.join(contender.to_string())).unwrap_or_default();
        // A contender that was killed may have written half a line.
        let whole = journal.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.lines().filter_map(|line| line.strip_prefix("held ")) {
            let (token, moment) = line.split_once(' ').unwrap();
            let (token, moment): (u64, f64) = (token.parse().unwrap(), moment.parse().unwrap());
            let held = tokens.entry(token).or_insert((contender, moment, moment));
            assert_eq!(held.0, contender, "one client has a token");
            held.2 = moment;
        }
    }
    let held: Vec<_> = tokens.iter().collect();
    for pair in held.windows(2) {
        let [(token, (_, _, last)), (next, (_, first, _))] = pair else { unreachable!() };
        assert!(last < first, "{token} was relied on at {last}, and {next} at {first}");
    }
    held.len()
}
