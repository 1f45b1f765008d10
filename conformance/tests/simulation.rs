//! A thousand worlds from a thousand seeds: in each of them every promise is kept.

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
fn the_same_seed_tells_the_same_story_twice() {
    for seed in 0..40 {
        let (first, second) =
            (Tale::new().with_log().play(seed), Tale::new().with_log().play(seed));
        assert!(first.log.len() > 5, "seed {seed} tells nothing");
        assert_eq!(first.log, second.log, "seed {seed}");
    }
}

/// A simulation in which nothing ever goes wrong would show nothing.
#[test]
fn the_worlds_are_full_of_trouble() {
    let (mut grants, mut losses, mut errors, mut refused) = (0, 0, 0, 0);
    for seed in 0..100 {
        let tallied = Tale::new().play(seed).tallied;
        grants += tallied.grants;
        losses += tallied.losses;
        errors += tallied.errors;
        refused += tallied.refused;
    }
    assert!(grants > 500 && losses > 100 && errors > 200 && refused > 50);
}
