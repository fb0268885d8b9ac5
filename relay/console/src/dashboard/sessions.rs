//! Sessions of browsers whose users have signed in.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{refusal::Refusal, who::Who};

/// Lifetime of a browser's session.
pub(super) const SIGNED_IN_FOR: Duration = Duration::from_hours(12);

/// Most browser sessions at a time; a new one beyond them ends the oldest.
const MOST_SESSIONS: usize = 1000;

/// Most sessions of one name, so that repeated sign-ins of one user do not sign out others.
const MOST_SESSIONS_OF_A_NAME: usize = 20;

#[derive(Debug)]
struct Session {
    who: Who,
    since: Instant,
}

/// The sessions by their ids, which are secrets.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Session>>);

impl Sessions {
    /// Returns the user of a session that has not ended.
    pub(super) fn who(&self, id: &str) -> Option<Who> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(id).filter(|session| session.since.elapsed() < SIGNED_IN_FOR).map(|session| session.who.clone())
    }

    /// Begins a session of this user, and returns its id.
    pub(super) fn begin(&self, who: Who) -> Result<String, Refusal> {
        let id = random()?;
        let who = Who { csrf: Some(random()?), ..who };
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.since.elapsed() < SIGNED_IN_FOR);
        let of_name = sessions.values().filter(|session| session.who.name == who.name).count();
        if of_name >= MOST_SESSIONS_OF_A_NAME {
            remove_oldest(&mut sessions, |session| session.who.name == who.name);
        }
        if sessions.len() >= MOST_SESSIONS {
            remove_oldest(&mut sessions, |_| true);
        }
        sessions.insert(id.clone(), Session { who, since: Instant::now() });
        Ok(id)
    }

    /// Ends a session.
    pub(super) fn end(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

fn remove_oldest(sessions: &mut HashMap<String, Session>, among: impl Fn(&Session) -> bool) {
    let those = sessions.iter().filter(|(_, session)| among(session));
    let oldest = those.min_by_key(|(_, session)| session.since).map(|(id, _)| id.clone());
    oldest.and_then(|id| sessions.remove(&id));
}

/// Returns 256 random bits, in hexadecimal.
fn random() -> Result<String, Refusal> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|_| Refusal::unavailable("This machine has no random numbers."))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
