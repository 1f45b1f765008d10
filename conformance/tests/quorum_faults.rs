//! A quorum whose stores refuse, fail, hang, or lose their data: a minority of them changes
//! nothing.

#[path = "quorum_faults/leaving.rs"]
mod leaving;
#[path = "quorum_faults/minority.rs"]
mod minority;
#[path = "quorum_faults/moody.rs"]
mod moody;
#[path = "quorum_faults/numbers.rs"]
mod numbers;
#[path = "quorum_faults/stage.rs"]
mod stage;
#[path = "quorum_faults/unfit.rs"]
mod unfit;
#[path = "quorum_faults/view.rs"]
mod view;
