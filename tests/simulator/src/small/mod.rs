//! A small world, searched to its end: every order of the steps of three events, a crash, an outage, a pause and a
//! replay. Its broker is of either kind.
//!
//! There are two keys, and one of them has two events, the second behind the first. From each state every possible step
//! is taken, and a state that was met before is not entered again. A state is what the core, the table, the WAL and the
//! broker have, with times relative to now. If no other step is possible the clock goes on, and in the end every event
//! must have its verdict.

mod broker;
mod world;

use std::collections::HashSet;

use self::world::Small;

/// A step of the small world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next transaction commits: it is in the WAL.
    Commit,
    /// The oldest commit becomes visible.
    Show,
    /// The relay reads a transaction of the stream.
    Read,
    /// The database runs the operation that was asked for.
    Execute,
    /// The operation's result reaches the relay.
    Finish,
    /// The broker takes a message.
    Take,
    /// The broker's answers reach the relay.
    Answer,
    /// The relay connects to the broker.
    Connect,
    /// The relay is killed and starts again, once.
    Crash,
    /// The connection to the broker is lost, once.
    Cut,
    /// The broker refuses a message that it keeps in order, once.
    Refuse,
    /// A broker that keeps a log forgets who publishes, once.
    Forget,
    /// An operator replays the first event, once.
    Replay,
    /// More time than `park_after` passes although something else could happen, once.
    Wait,
    /// Time passes until the relay wants to be woken.
    Tick,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct Exhausted {
    /// Number of different states.
    pub states: usize,
    /// Number of states in which nothing more can happen.
    pub ends: usize,
    /// The steps to a broken promise, and what broke; `None`: none was found.
    pub broken: Option<(Vec<Step>, String)>,
}

impl Step {
    /// The steps that need not happen, and can happen once.
    pub const MISHAPS: [Self; 6] = [Self::Crash, Self::Cut, Self::Refuse, Self::Forget, Self::Replay, Self::Wait];
}

/// Searches the whole world with these mishaps, or until `most` states are known. `is_log`: the broker keeps a log;
/// otherwise it has queues.
pub fn exhaust(mishaps: &[Step], is_log: bool, most: usize) -> Exhausted {
    let first = Small::new(mishaps, is_log);
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
