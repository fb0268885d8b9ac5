//! The relay's core in a simulated world.
//!
//! The very [`Core`](outbox_core::Core) that runs in production is driven through transactions that overlap and become visible late, a
//! broker that answers late or never, relays that are killed between any two steps, and operators. The clock is virtual, there is one
//! thread, and the seed decides everything: a seed that fails fails again, and its history can be told and made smaller.
//!
//! | module | what it is |
//! |---|---|
//! | `world` | the clock, the agenda, one run |
//! | `knobs` | what a seed decides beforehand |
//! | `database`, `broker` | what the relay talks to |
//! | `relay` | its process and its session |
//! | `clients`, `troubles` | who emits, what goes wrong |
//! | `checker` | the promises |
//! | `minimise` | a smaller history with the same end |

#![expect(missing_docs, reason = "a test tool; what is not plain has its comment")]
#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "small numbers of its own making; a panic is a finding"
)]

mod broker;
mod checker;
mod clients;
mod database;
mod knobs;
mod minimise;
mod relay;
mod troubles;
mod world;

pub use outbox_core::faults::Fault;

pub use self::{
    checker::{Promise, Violation},
    knobs::{Knobs, Trouble},
    minimise::minimise,
    world::{Outcome, run},
};

/// Looks for a seed, from the first of `seeds` on, that finds this fault of the core.
pub fn find(fault: Fault, mut seeds: std::ops::Range<u64>) -> Option<(u64, Violation)> {
    outbox_core::faults::switch_on(Some(fault));
    let found = seeds.find_map(|seed| Some((seed, run(&Knobs::of(seed), false).violation?)));
    outbox_core::faults::switch_on(None);
    found
}
