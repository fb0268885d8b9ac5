//! The relay's core in a simulated world.
//!
//! The very [`Core`](outbox_core::Core) that runs in production is driven through transactions that overlap and become
//! visible late, a broker that answers late or never, relays that are killed between any two steps, and operators. The
//! clock is virtual, there is one thread, and the seed decides everything: a seed that fails fails again, its run can
//! be made smaller, and its story printed.
//!
//! | module | what it has |
//! |---|---|
//! | `world`, `agenda` | one run, its clock and story; what is going to happen |
//! | `knobs` | what a seed decides beforehand |
//! | `database`, `broker` | the servers that the relay talks to |
//! | `relay` | its process and its session |
//! | `clients`, `operators`, `troubles` | who emits, who intervenes, what goes wrong |
//! | `checker` | the promises |
//! | `scenarios` | promises that no end of a run shows, each by a world of its own |
//! | `small` | a world so small that all of its states can be searched |
//! | `minimise` | a smaller run that breaks the same promise |

#![expect(missing_docs, reason = "a test tool; what is not plain has its comment")]
#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "small numbers of its own making; a panic is a finding"
)]

mod agenda;
mod broker;
mod checker;
mod clients;
mod database;
mod knobs;
mod minimise;
mod operators;
mod relay;
#[cfg(test)]
mod scenarios;
mod small;
mod troubles;
mod world;

pub use outbox_core::faults::Fault;

pub use self::{
    checker::{Promise, Violation},
    knobs::{Knobs, Trouble},
    minimise::minimise,
    small::{Exhausted, Mishap, exhaust},
    world::{Outcome, run},
};

/// Calls `does` while this fault of the core is switched on.
pub fn with_fault<T>(fault: Fault, does: impl FnOnce() -> T) -> T {
    outbox_core::faults::switch_on(Some(fault));
    let done = does();
    outbox_core::faults::switch_on(None);
    done
}

/// Looks for a seed that shows this fault of the core.
pub fn find(fault: Fault, mut seeds: std::ops::Range<u64>) -> Option<(u64, Violation)> {
    with_fault(fault, || seeds.find_map(|seed| Some((seed, run(&Knobs::of(seed), false).violation?))))
}

/// The last lines of a run's story: time, who, what.
pub fn story(knobs: &Knobs) -> String {
    const LINES: usize = 400;
    let Outcome { story, violation, .. } = run(knobs, true);
    let story = story.get(story.len().saturating_sub(LINES)..).unwrap_or_default().join("\n");
    let broken = violation.map_or_else(|| "nothing is broken".to_owned(), |violation| format!("broken: {violation}"));
    format!("{knobs:#?}\n\n{story}\n\n{broken}")
}
