//! Claims under a lease: holders that are killed, and stopped for longer than the lease.

use rustix::process::Signal;
use tenure_servers::redis::Setup;

use crate::claims::{holder, is_lost, signal, take, with};
use crate::kit::{eventually, redis, stands_still};

#[test]
fn a_claim_has_thousands_of_keys() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let keys: Vec<_> = (0..2_000).map(|count| format!("k{count}")).collect();
    let claim = take(&store, &keys.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(with(&store, "drop", &claim).code, 0);
}

#[test]
fn a_claim_under_a_lease_ends_with_it_and_its_loss_is_reported() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let killed = take(&store, &["killed", "also"]);
    let stopped = take(&store, &["stopped"]);
    let kept = take(&store, &["kept"]);
    signal(holder(&killed), Signal::KILL);
    signal(holder(&stopped), Signal::STOP);
    eventually("it stands still", || stands_still(holder(&stopped)));
    // These keys are free once their leases have ended.
    let next = ["killed", "also", "stopped"]
        .map(|key| store.start(&["run", "-w", "5m", key, "--", "true"]));
    assert!(next.into_iter().all(|run| run.end().code == 0));
    signal(holder(&stopped), Signal::CONT);
    is_lost(&with(&store, "renew", &killed), "was killed");
    let renewed = with(&store, "renew", &stopped);
    assert_eq!(renewed.code, 76, "{renewed:?}");
    assert_eq!(with(&store, "drop", &stopped).code, 76);
    assert_eq!(with(&store, "renew", &kept).code, 0, "its holder has renewed it");
    assert_eq!(with(&store, "drop", &kept).code, 0);
}
