//! A thousand stories from a thousand seeds keep every promise.

use std::ops::Range;

use tenure_conformance::sim::Tale;

fn play(seeds: Range<u64>) {
    for seed in seeds {
        Tale::new().check(seed);
    }
}

#[test]
fn every_promise_is_kept_in_the_first_quarter_of_the_worlds() {
    play(0..250);
}

#[test]
fn every_promise_is_kept_in_the_second_quarter_of_the_worlds() {
    play(250..500);
}

#[test]
fn every_promise_is_kept_in_the_third_quarter_of_the_worlds() {
    play(500..750);
}

#[test]
fn every_promise_is_kept_in_the_last_quarter_of_the_worlds() {
    play(750..1000);
}

#[test]
fn the_same_seed_repeats_the_same_story() {
    for seed in 0..40 {
        let (first, second) =
            (Tale::new().with_log().play(seed), Tale::new().with_log().play(seed));
        assert!(first.log.len() > 5, "the log of seed {seed} is empty");
        assert_eq!(first.log, second.log, "seed {seed}");
    }
}

/// A simulation without faults would show nothing.
#[test]
fn the_worlds_are_full_of_trouble() {
    let (mut grants, mut losses, mut errors, mut refused) = (0, 0, 0, 0);
    for seed in 0..100 {
        let counts = Tale::new().play(seed).counts;
        grants += counts.grants;
        losses += counts.losses;
        errors += counts.errors;
        refused += counts.refused;
    }
    assert!(grants > 500 && losses > 100 && errors > 200 && refused > 50);
}
