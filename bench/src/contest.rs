//! A contest on one store: the floor, Tenure and its peers take turns in one run.

mod awake;
pub(crate) mod contender;
pub(crate) mod crowd;
pub(crate) mod elsewhere;
pub(crate) mod entrant;
pub(crate) mod field;
pub(crate) mod free;
pub(crate) mod handover;
pub(crate) mod kind;
pub(crate) mod ours;
mod side;
pub(crate) mod stores;
pub(crate) mod turns;
pub(crate) mod workers;

pub(crate) use awake::on_both;
use kind::Kind;

/// Does the work of a helper process of one of these kinds, if this is one.
pub(crate) fn other_process(arguments: &[String], kinds: impl Iterator<Item = Kind>) -> bool {
    side::be_one(arguments, kinds) || awake::be_one(arguments)
}
