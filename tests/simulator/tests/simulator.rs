//! What every change of the core must pass: a few thousand seeds, and each deliberate fault found.

use std::{
    num::NonZero,
    sync::Mutex,
    thread::{self, available_parallelism},
};

use simulator::{Fault, Knobs, Mishap, exhaust, find, minimise, run, story};

/// In this many seeds each deliberate fault must show.
const SEEDS: u64 = 10_000;

#[test]
fn a_few_thousand_worlds_break_no_promise() {
    let first: u64 = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_000_000);
    for seed in first..first + 2000 {
        let knobs = Knobs::of(seed);
        if run(&knobs, false).violation.is_some() {
            panic!("seed {seed}\n{}", story(&minimise(&knobs)));
        }
    }
}

#[test]
fn every_deliberate_fault_is_found() {
    let (faults, missed) = (Mutex::new(Fault::ALL.into_iter()), Mutex::new(Vec::new()));
    let search = || {
        while let Some(fault) = next_of(&faults) {
            if find(fault, 0..SEEDS).is_none() {
                missed.lock().unwrap().push(fault);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(search);
        }
    });
    assert_eq!(missed.into_inner().unwrap(), [], "not found in {SEEDS} seeds");
}

/// Locks the iterator for one step only.
fn next_of<T>(items: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    items.lock().ok()?.next()
}

#[test]
fn a_seed_gives_the_same_history_again() {
    let knobs = Knobs::of(7);
    let [first, second] = [(); 2].map(|()| run(&knobs, true).story);
    assert!(first.len() > 100, "{} lines", first.len());
    assert_eq!(first, second);
}

#[test]
fn a_failing_history_is_made_smaller_and_ends_in_the_same_broken_promise() {
    simulator::with_fault(Fault::HolderForgotten, || {
        let found = (0..SEEDS).filter_map(|seed| Some((Knobs::of(seed), run(&Knobs::of(seed), true).violation?)));
        let mut lines = Vec::new();
        for (knobs, violation) in found.take(3) {
            let smaller = minimise(&knobs);
            let again = run(&smaller, true);
            assert_eq!(again.violation.map(|violation| violation.promise), Some(violation.promise));
            assert!(smaller.transactions <= knobs.transactions && smaller.troubles.is_subset(&knobs.troubles));
            lines.push((again.story.len(), run(&knobs, true).story.len()));
        }
        // Some runs break the promise by a coincidence that no smaller run has.
        assert!(lines.iter().any(|(after, before)| after < before), "no line less: {lines:?}");
    });
}

#[test]
fn in_a_small_world_no_order_of_steps_breaks_a_promise() {
    for is_log in [false, true] {
        let found = exhaust(&[], is_log, usize::MAX);
        assert_eq!(found.broken, None);
        assert!(found.states > 5000 && found.ends > 50, "{} states, {} ends", found.states, found.ends);
        for mishap in Mishap::ALL {
            let found = exhaust(&[mishap], is_log, 30_000);
            assert_eq!(found.broken, None, "{mishap:?}");
        }
    }
}

#[test]
fn a_small_world_shows_a_fault_of_the_core() {
    for (fault, mishaps, is_log) in [
        (Fault::SettleBeforeConfirm, &Mishap::ALL[..], false),
        (Fault::BehindDelivered, &[Mishap::Refuse], true),
        (Fault::IdentityTrusted, &[Mishap::Forget], true),
    ] {
        let found = simulator::with_fault(fault, || exhaust(mishaps, is_log, 60_000));
        assert!(found.broken.is_some(), "{fault:?}: {} states", found.states);
    }
}
