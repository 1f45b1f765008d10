//! Faults: what becomes of locks when servers, connections, memory and clocks fail.
#![cfg(unix)]

#[path = "faults/blips.rs"]
mod blips;
#[path = "faults/bundles.rs"]
mod bundles;
#[path = "faults/clocks.rs"]
mod clocks;
#[path = "faults/cluster.rs"]
mod cluster;
#[path = "faults/costs.rs"]
mod costs;
#[path = "faults/crash.rs"]
mod crash;
#[path = "faults/crowds.rs"]
mod crowds;
#[path = "faults/cut_off.rs"]
mod cut_off;
#[path = "faults/demoted.rs"]
mod demoted;
#[path = "faults/doors.rs"]
mod doors;
#[path = "faults/failover.rs"]
mod failover;
#[path = "faults/forgetting.rs"]
mod forgetting;
#[path = "faults/handing.rs"]
mod handing;
#[path = "faults/leftovers.rs"]
mod leftovers;
#[path = "faults/names.rs"]
mod names;
#[path = "faults/network.rs"]
mod network;
#[path = "faults/older.rs"]
mod older;
#[path = "faults/onlookers.rs"]
mod onlookers;
#[path = "faults/pause.rs"]
mod pause;
#[path = "faults/redlock.rs"]
mod redlock;
#[path = "faults/refusals.rs"]
mod refusals;
#[path = "faults/replies.rs"]
mod replies;
#[path = "faults/resent.rs"]
mod resent;
#[path = "faults/runtimes.rs"]
mod runtimes;
#[path = "faults/secrets.rs"]
mod secrets;
#[path = "faults/sentinels.rs"]
mod sentinels;
#[path = "faults/silence.rs"]
mod silence;
#[path = "faults/spoilt.rs"]
mod spoilt;
#[path = "faults/stage.rs"]
mod stage;
#[path = "faults/storm.rs"]
mod storm;
#[path = "faults/unreadable.rs"]
mod unreadable;
