//! A quorum whose stores refuse, fail, hang, or lose their data: a minority of them changes
//! nothing.

#[path = "faults/leaving.rs"]
mod leaving;
#[path = "faults/minority.rs"]
mod minority;
#[path = "faults/moody.rs"]
mod moody;
#[path = "faults/numbers.rs"]
mod numbers;
#[path = "faults/stage.rs"]
mod stage;
#[path = "faults/unfit.rs"]
mod unfit;
#[path = "faults/view.rs"]
mod view;
