//! A hasher for keys that are spread already: ids of events, which are random, and hashes of ordering keys.
//!
//! Every event is looked up half a dozen times on its way. With the standard library's SipHash that was a sixth of all
//! instructions for an event. SipHash protects against keys that are chosen to collide. Ids are chosen by whoever may write to
//! the outbox's table, and memory holds a bounded number of them; the hashes of ordering keys are SipHash's own.

use std::hash::{BuildHasherDefault, Hasher};

/// Builds [`Fold`]s.
pub type BuildFold = BuildHasherDefault<Fold>;

/// Multiplies each word into all of the hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fold(u64);

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15; // odd, with bits everywhere: the golden ratio
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write_usize(&mut self, _length: usize) {} // the same for every id

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, hash::BuildHasher};

    use uuid::Uuid;

    use super::*;

    /// Ids that an application counts up itself, at either end.
    #[test]
    fn ids_that_are_not_random_are_spread_as_well() {
        for shift in [0, 40, 64, 100] {
            let hashes = (0..1000_u128).map(|number| BuildFold::default().hash_one(Uuid::from_u128(number << shift)));
            let hashes: Vec<u64> = hashes.collect();
            let places: HashSet<u64> = hashes.iter().map(|hash| hash % 4096).collect();
            assert!(places.len() > 700, "{} places at shift {shift}", places.len());
            let tags: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            assert!(tags.len() > 100, "{} tags at shift {shift}", tags.len());
        }
    }
}
