//! The cases of a holder catch every broken holder, and no sound one.

#[path = "broken_holders/naive.rs"]
mod naive;

use std::fmt::Write as _;
use std::sync::Arc;

use tenure_conformance::sim::Tale;
use tenure_conformance::sim::holder::{Holder, Own, all_cases};

use naive::{Naive, Sin};

/// Simulated seeds per broken holder.
const SEEDS: u64 = 100;

#[test]
fn tenure_passes_every_case() {
    passes_every_case(&(Arc::new(Own) as Arc<dyn Holder>));
}

#[test]
fn an_honest_holder_of_a_hundred_lines_passes_every_case() {
    passes_every_case(&(Arc::new(Naive(None)) as Arc<dyn Holder>));
}

#[test]
fn an_honest_holder_keeps_every_promise_in_the_simulation() {
    let tale = Tale::of(Arc::new(Naive(None)));
    for seed in 0..SEEDS {
        tale.check(seed);
    }
}

#[test]
fn every_broken_holder_is_caught() {
    let mut report = String::new();
    let mut missed = Vec::new();
    for sin in Sin::ALL {
        let holder: Arc<dyn Holder> = Arc::new(Naive(Some(sin)));
        let caught: Vec<_> =
            all_cases().filter(|case| case.play(&holder).is_err()).map(|case| case.name).collect();
        let tale = Tale::of(holder.clone());
        let seed = (0..SEEDS).find(|seed| tale.play(*seed).violation.is_some());
        let _ = writeln!(report, "{}", holder.name());
        for case in &caught {
            let _ = writeln!(report, "    {case}");
        }
        if let Some(seed) = seed {
            let _ = writeln!(report, "    the simulation, first with the seed {seed}");
        }
        if caught.is_empty() {
            missed.push(sin);
        }
    }
    println!("{report}");
    assert!(missed.is_empty(), "no case catches {missed:?}");
}

fn passes_every_case(holder: &Arc<dyn Holder>) {
    let failures: Vec<String> = all_cases().filter_map(|case| case.play(holder).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
