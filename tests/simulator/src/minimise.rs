//! Makes a failing run smaller: fewer kinds of trouble, fewer transactions, a shorter time, while the same promise
//! breaks.

use std::time::Duration;

use crate::{
    knobs::{Knobs, Trouble},
    world::run,
};

/// The smallest run found that breaks the same promise.
pub fn minimise(knobs: &Knobs) -> Knobs {
    let Some(violation) = run(knobs, false).violation else { return knobs.clone() };
    let breaks = |knobs: &Knobs| run(knobs, false).violation.is_some_and(|found| found.promise == violation.promise);
    let mut best = knobs.clone();
    loop {
        let mut candidates: Vec<Knobs> = Trouble::ALL
            .into_iter()
            .filter(|trouble| best.troubles.contains(trouble))
            .map(|trouble| {
                let mut fewer = best.clone();
                fewer.troubles.remove(&trouble);
                fewer
            })
            .collect();
        for part in [2, 3, 4] {
            let fewer = best.transactions * (part - 1) / part;
            candidates.push(Knobs { transactions: fewer, ..best.clone() });
            candidates.push(Knobs { span: best.span * (part as u32 - 1) / part as u32, ..best.clone() });
        }
        candidates.push(Knobs { relays: 1, ..best.clone() });
        candidates.push(Knobs { keys: 1, ..best.clone() });
        candidates.push(Knobs { latency: Duration::from_micros(100), ..best.clone() });
        let size = |knobs: &Knobs| {
            (knobs.troubles.len(), knobs.transactions, knobs.span, knobs.relays, knobs.keys, knobs.latency)
        };
        let is_smaller = |candidate: &Knobs| candidate.transactions > 0 && size(candidate) != size(&best);
        let smaller = candidates.into_iter().filter(is_smaller).find(breaks);
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}
