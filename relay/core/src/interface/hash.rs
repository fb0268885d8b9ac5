//! Hashes that are the same for the same seed.

use std::hash::{Hash, Hasher};

use siphasher::sip::SipHasher13;

/// Hashes ids of events, and hashes of keys and destinations, which are well distributed. An emitter who chooses
/// colliding ids slows down the relay, but only by the bounded number of events in memory.
pub type IdHash = foldhash::fast::FixedState;

/// Hashes names that emitters choose, with a secret seed: nobody can choose a key that collides with another's and
/// waits for it, or makes it wait.
#[derive(Clone, Debug)]
pub(crate) struct NameHash(SipHasher13);

impl NameHash {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SipHasher13::new_with_keys(seed, !seed))
    }

    pub(crate) fn of(&self, name: impl Hash) -> u64 {
        let mut hasher = self.0;
        name.hash(&mut hasher);
        hasher.finish()
    }
}
