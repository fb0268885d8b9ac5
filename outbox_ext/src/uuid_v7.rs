//! UUIDs of version 7 (RFC 9562): ids that sort by the time at which they were made.

use std::cell::{Cell, RefCell};
use std::time::{Duration, SystemTime};

use pgrx::prelude::*;

use crate::postgres;

thread_local! {
    static LAST_TICK: Cell<u64> = const { Cell::new(0) };
    static RANDOM: RefCell<RandomPool> = const { RefCell::new(RandomPool::spent()) };
}

/// A new id, greater than every id that this backend made before.
#[pg_extern(sql = false)]
pub(crate) fn uuid_v7() -> pgrx::Uuid {
    let tick = LAST_TICK.with(|last| {
        // A clock before 1970 counts as zero.
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let tick = next_tick(last.get(), since_epoch);
        last.set(tick);
        tick
    });
    pgrx::Uuid::from_bytes(from_parts(tick, RANDOM.with_borrow_mut(RandomPool::take)))
}

/// The time in 1/4096 of a millisecond, a quarter microsecond: 48 bits of milliseconds and the 12 bits that follow them
/// in the id (RFC 9562, section 6.2, method 3). The result is always greater than `last`, even while the clock stands
/// still or goes back.
fn next_tick(last: u64, since_epoch: Duration) -> u64 {
    let milliseconds = since_epoch.as_secs() * 1_000 + u64::from(since_epoch.subsec_millis());
    let fraction = u64::from(since_epoch.subsec_nanos() % 1_000_000) * 4096 / 1_000_000;
    (milliseconds << 12 | fraction).max(last + 1)
}

/// The id's bytes: time, version 7, time, variant 10, and 62 random bits.
fn from_parts(tick: u64, random: [u8; 8]) -> [u8; 16] {
    let high = (tick >> 12) << 16 | 0x7000 | tick & 0x0fff;
    let low = u64::from_be_bytes(random) & (u64::MAX >> 2) | 1 << 63;
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

/// Random bytes of 64 ids. A request to PostgreSQL's strong random source costs as much as the rest of an id.
const POOL_BYTES: usize = 512;

struct RandomPool {
    bytes: [u8; POOL_BYTES],
    used: usize,
}

impl RandomPool {
    const fn spent() -> Self {
        Self { bytes: [0; POOL_BYTES], used: POOL_BYTES }
    }

    fn take(&mut self) -> [u8; 8] {
        if let Some((taken, _)) = self.bytes.get(self.used..).and_then(|rest| rest.split_first_chunk()) {
            self.used += 8;
            return *taken;
        }
        postgres::fill_random(&mut self.bytes);
        self.used = 0;
        self.take()
    }
}
