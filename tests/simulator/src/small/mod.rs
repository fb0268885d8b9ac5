//! A small world, exhausted: every order in which the steps of three events, a crash, an outage, a pause and a replay can come.
//!
//! Two keys, of which one has two events, the second behind the first. From each state every step that is possible is taken; a state
//! that was met before is not entered again. A state is what the core, the table, the log and the broker hold, with times counted from
//! now. Where no other step is left the clock goes on, and in the end every event must have its verdict.

mod world;

use std::collections::HashSet;

use self::world::Small;

/// Something that happens in the small world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next transaction commits: it is in the log.
    Commit,
    /// The oldest commit can be seen.
    Show,
    /// The relay reads a transaction of the stream.
    Read,
    /// The database runs the statement that was asked for.
    Execute,
    /// The relay has its answer.
    Finish,
    /// The broker takes a message.
    Take,
    /// The relay has the broker's answers.
    Answer,
    /// The relay has a connection to the broker.
    Connect,
    /// The relay is killed, and starts again. Once.
    Crash,
    /// The connection to the broker is lost. Once.
    Cut,
    /// An operator replays the first event. Once.
    Replay,
    /// Longer than `park_after` passes, although something else could happen. Once.
    Wait,
    /// Time passes, until the relay wants to be woken.
    Tick,
}

/// What was searched.
#[derive(Clone, Debug, Default)]
pub struct Exhausted {
    /// States, each of them once.
    pub states: usize,
    /// States in which nothing is left to happen.
    pub ends: usize,
    /// The way to a broken promise, if there is one, and what broke.
    pub broken: Option<(Vec<Step>, String)>,
}

impl Step {
    /// What need not happen, and happens once.
    pub const MISHAPS: [Self; 4] = [Self::Crash, Self::Cut, Self::Replay, Self::Wait];
}

/// Searches all of the world in which these mishaps can happen, or until so many states are known.
pub fn exhaust(mishaps: &[Step], most: usize) -> Exhausted {
    let first = Small::new(mishaps);
    let mut known = HashSet::from([first.fingerprint()]);
    let mut found = Exhausted::default();
    let mut waiting = vec![(first, Vec::new())];
    while let Some((world, way)) = waiting.pop() {
        let steps = world.steps();
        if steps.is_empty() {
            found.ends += 1;
            found.broken = world.at_the_end().map(|broken| (way.clone(), broken));
        }
        for step in steps {
            let mut next = world.clone();
            let taken = next.take(step);
            let way = || way.iter().copied().chain([step]).collect();
            if let Err(broken) = taken {
                found.broken = Some((way(), broken));
            } else if known.len() < most && known.insert(next.fingerprint()) {
                waiting.push((next, way()));
            }
        }
        if found.broken.is_some() {
            break;
        }
    }
    found.states = known.len();
    found
}
