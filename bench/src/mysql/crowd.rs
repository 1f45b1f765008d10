//! Many waiters of one key: the cost of a hand-over for the server.

use tenure_servers::Result;
use tenure_servers::mariadb::Server;

use super::kinds::OURS;
use crate::contest::crowd::Crowd;
use crate::contest::stores::Stores;
use crate::contest::workers::workers;
use crate::figures::{Table, grouped, us};
use crate::processor;

/// The statements of clients since the start of the server, with this one.
const COUNT: &str = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
     WHERE VARIABLE_NAME = 'QUESTIONS'";

/// All wait until the holder releases, and each releases as soon as it holds.
#[allow(clippy::cast_precision_loss, reason = "counts of some thousands")]
pub(crate) fn run(table: &mut Table, stores: &Stores, server: &Server) -> Result<()> {
    for waiters in [10, 1_000] {
        let case =
            stores.case(&format!("{} wait, and leave as soon as they hold", grouped(waiters)));
        let runtime = workers();
        let crowd = Crowd { kind: OURS, urls: stores.urls.clone(), waiters };
        let key = if waiters == 10 { "few" } else { "many" };
        let waiting = runtime.block_on(crowd.gather(key))?;
        let (before, used) = (questions(server)?, processor::of_all(&stores.pids));
        let time = runtime.block_on(Crowd::leave(waiting))?;
        let used = processor::of_all(&stores.pids).saturating_sub(used);
        let requests = (questions(server)? - before) as f64 / waiters as f64;
        let each = u32::try_from(waiters).unwrap();
        table.row(
            case,
            format!("{} and {requests:.2} statements per hand-over", us(time / each)),
            format!("{} of the server's processor", us(used / each)),
            "≤ 5 statements",
        );
    }
    Ok(())
}

fn questions(server: &Server) -> Result<u64> {
    let count = server.sql(COUNT)?;
    count.trim().parse().map_err(|_| format!("{count} is no count."))
}
