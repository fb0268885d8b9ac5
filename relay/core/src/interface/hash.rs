//! Hashing that a seed repeats.

use std::hash::{Hash, Hasher};

use siphasher::sip::SipHasher13;

/// Hashes ids of events, and hashes of keys and destinations, which are spread already. An emitter who chooses ids that collide slows
/// down the relay by no more than the events in memory, of which there is a bounded number.
pub type IdHash = foldhash::fast::FixedState;

/// Hashes names that emitters choose, with a secret: nobody can choose a key that is held back with another's.
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
