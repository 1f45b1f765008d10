//! Many waiters of one key: the cost of a hand-over for the servers.

use std::time::Duration;

use tenure_servers::zookeeper::{Ensemble, Server};

use super::kinds::{CRATE, OURS};
use crate::contest::crowd::Crowd;
use crate::contest::stores::Stores;
use crate::contest::workers::workers;
use crate::figures::{Table, grouped, us};
use crate::processor;

const WAITERS: [u64; 2] = [100, 1_000];

/// The cost of all hand-overs.
struct Cost {
    time: Duration,
    packets: u64,
    /// The processor time of all servers.
    used: Duration,
}

/// All wait until the holder releases, and each releases as soon as it holds.
pub(crate) fn run(table: &mut Table, stores: &Stores, ensemble: &Ensemble) {
    let runtime = workers();
    for kind in [OURS, CRATE] {
        for waiters in WAITERS {
            let crowd = Crowd { kind, urls: stores.urls.clone(), waiters };
            let cost = runtime.block_on(leaves(&crowd, stores, ensemble));
            let case =
                stores.case(&format!("{} wait, and leave as soon as they hold", grouped(waiters)));
            let is_ours = kind.name == OURS.name;
            let case = if is_ours { case } else { format!("{case}, {kind}") };
            let wanted = if is_ours { "the same for all" } else { "–" };
            match cost {
                Ok(cost) => table.row(case, cost.measured(waiters), cost.beside(waiters), wanted),
                Err(failure) => table.row(case, failure, "–", wanted),
            }
        }
    }
}

async fn leaves(crowd: &Crowd, stores: &Stores, ensemble: &Ensemble) -> Result<Cost, String> {
    let waiting = crowd.gather("crowd").await?;
    let (before, used_before) = (packets(ensemble), used(&stores.pids));
    let time = Crowd::leave(waiting).await?;
    let packets = packets(ensemble) - before;
    Ok(Cost { time, packets, used: used(&stores.pids).saturating_sub(used_before) })
}

impl Cost {
    #[allow(clippy::cast_precision_loss, reason = "counts of some thousands")]
    fn measured(&self, waiters: u64) -> String {
        let packets = self.packets as f64 / waiters as f64;
        format!("{} and {packets:.2} packets per hand-over", us(each(self.time, waiters)))
    }

    fn beside(&self, waiters: u64) -> String {
        format!("{} of the servers' processors", us(each(self.used, waiters)))
    }
}

fn each(all: Duration, waiters: u64) -> Duration {
    all / u32::try_from(waiters).unwrap()
}

/// The number of packets that all servers received from clients.
fn packets(ensemble: &Ensemble) -> u64 {
    let of = |server: &Server| -> u64 {
        let stats = server.ask("srvr").unwrap();
        let count = stats.lines().find_map(|line| line.strip_prefix("Received: ")).unwrap();
        count.trim().parse().unwrap()
    };
    ensemble.servers().iter().map(of).sum()
}

fn used(pids: &[u32]) -> Duration {
    pids.iter().map(|pid| processor::of(*pid)).sum()
}
