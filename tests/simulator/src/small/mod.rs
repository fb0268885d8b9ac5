//! A small world, searched to its end: every order of the steps of three events, and of a crash, an outage, a pause and
//! a replay. Its broker is of either kind.
//!
//! There are two keys, and one of them has two events, the second behind the first. The world is that of a seed, but
//! nothing is drawn: from each state every item of the agenda can come next, whatever its time, and a state that was
//! met before is not entered again. If nothing else can come next the clock goes on, and in the end every event must
//! have its verdict.

mod state;
mod world;

use std::collections::HashSet;

use self::world::{Small, Step};
use crate::checker::Violation;

/// Something that need not happen, and can happen once at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mishap {
    /// The relay is killed and starts again.
    Crash,
    /// The connection to the broker is lost.
    Cut,
    /// The broker refuses a message that it keeps in order.
    Refuse,
    /// A broker that keeps a log forgets who publishes.
    Forget,
    /// An operator replays the first event.
    Replay,
    /// More time than `park_after` passes although something else could happen.
    Wait,
}

impl Mishap {
    /// All mishaps.
    pub const ALL: [Self; 6] = [Self::Crash, Self::Cut, Self::Refuse, Self::Forget, Self::Replay, Self::Wait];
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct Exhausted {
    /// Number of different states.
    pub states: usize,
    /// Number of states in which nothing more can happen.
    pub ends: usize,
    /// What broke, and the story of that; `None`: nothing did.
    pub broken: Option<(Violation, Vec<String>)>,
}

/// Searches the whole world with these mishaps, or until `most` states are known. `is_log`: the broker keeps a log;
/// otherwise it has queues.
pub fn exhaust(mishaps: &[Mishap], is_log: bool, most: usize) -> Exhausted {
    let first = Small::new(mishaps, is_log, false);
    let mut known = HashSet::from([first.fingerprint()]);
    let mut found = Exhausted::default();
    let mut waiting = vec![(first, Vec::new())];
    let mut broken: Option<Vec<Step>> = None;
    while broken.is_none()
        && let Some((world, way)) = waiting.pop()
    {
        let steps = world.steps();
        found.ends += usize::from(steps.is_empty());
        if steps.is_empty() && world.clone().at_the_end().is_err() {
            broken = Some(way.clone());
        }
        for step in steps {
            let mut next = world.clone();
            let taken = next.take(step);
            let way = || way.iter().copied().chain([step]).collect();
            if taken.is_err() {
                broken = Some(way());
            } else if known.len() < most && known.insert(next.fingerprint()) {
                waiting.push((next, way()));
            }
        }
    }
    found.states = known.len();
    found.broken = broken.and_then(|way| story(Small::new(mishaps, is_log, true), &way));
    found
}

/// Goes a way again. Returns what breaks at its end, and the story of that.
fn story(mut world: Small, way: &[Step]) -> Option<(Violation, Vec<String>)> {
    let taken = way.iter().try_for_each(|step| world.take(*step));
    let violation = taken.and_then(|()| world.at_the_end()).err()?;
    Some((violation, world.story()))
}
