//! `make simulate SEEDS=n`: runs this many seeds on all cores until one fails, and prints the story of a smaller run.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use simulator::{Exhausted, Fault, Knobs, Mishap, Outcome, exhaust, find, minimise, run, story};

fn main() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = match number("SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("SEEDS").unwrap_or(10_000)),
    };
    if std::env::var_os("FAULTS").is_some_and(|faults| !faults.is_empty()) {
        return find_faults(number("SEEDS").unwrap_or(10_000));
    }
    if let Some(mishaps) = std::env::var("SMALL").ok().filter(|mishaps| !mishaps.is_empty()) {
        return search_small_world(&mishaps);
    }
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let begin = Instant::now();
    let next = AtomicU64::new(first);
    let failed = Mutex::new(None::<u64>);
    let sum = Mutex::new((0_u64, 0_usize, 0_usize, 0_u32, 0_u32, 0.0_f64));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= first + count || failed.lock().is_ok_and(|failed| failed.is_some()) {
                        return;
                    }
                    let Outcome { steps, events, delivered, duplicates, disruptions, lasted, violation, .. } =
                        run(&Knobs::of(seed), false);
                    if violation.is_some()
                        && let Ok(mut failed) = failed.lock()
                    {
                        *failed = Some(failed.map_or(seed, |other| other.min(seed)));
                    }
                    if let Ok(mut sum) = sum.lock() {
                        sum.0 += steps;
                        sum.1 += events;
                        sum.2 += delivered;
                        sum.3 += duplicates;
                        sum.4 += disruptions;
                        sum.5 += lasted.as_secs_f64();
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().ok().flatten();
    let (steps, events, delivered, duplicates, disruptions, lasted) = sum.into_inner().unwrap_or_default();
    println!(
        "{} seeds in {:.1} s: {steps} steps, {events} events committed, {delivered} delivered, {duplicates} second \
         deliveries, {disruptions} disruptions, {:.1} h of virtual time",
        if failed.is_some() { "some".to_owned() } else { count.to_string() },
        begin.elapsed().as_secs_f64(),
        lasted / 3600.0,
    );
    if let Some(seed) = failed {
        let smallest = minimise(&Knobs::of(seed));
        println!("\nseed {seed} fails; the smallest history that was found:\n{}", story(&smallest));
        println!("again: make simulate SEED={seed}");
        std::process::exit(1);
    }
}

/// Prints the table of deliberate faults: the promise that each breaks, and the first seed that shows it.
fn find_faults(seeds: u64) {
    let only = std::env::var("FAULT").unwrap_or_default();
    for fault in Fault::ALL.into_iter().filter(|fault| format!("{fault:?}").contains(&only)) {
        match find(fault, 0..seeds) {
            Some((seed, violation)) => println!("{fault:?}\tseed {seed}\t{violation}"),
            None => println!("{fault:?}\tnot found"),
        }
    }
}

/// Searches every order of steps of a small world with these mishaps, each of which can happen once: `crash cut replay
/// wait`, or `none`. With `log` its broker keeps a log, and two more can happen: `refuse forget`.
fn search_small_world(words: &str) {
    let is_named = |mishap: &Mishap| words.to_lowercase().contains(&format!("{mishap:?}").to_lowercase());
    let mishaps: Vec<Mishap> = Mishap::ALL.into_iter().filter(is_named).collect();
    let begin = Instant::now();
    let is_log = words.to_lowercase().contains("log");
    let Exhausted { states, ends, broken } = exhaust(&mishaps, is_log, usize::MAX);
    let broker = if is_log { "a log" } else { "queues" };
    println!(
        "a broker with {broker}, {mishaps:?}: {states} states, {ends} of them ends, in {:.0} s",
        begin.elapsed().as_secs_f64()
    );
    if let Some((violation, story)) = broken {
        println!("{}\n\nbroken: {violation}", story.join("\n"));
        std::process::exit(1);
    }
}
