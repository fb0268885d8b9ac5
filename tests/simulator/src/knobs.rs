//! What a seed decides before a run begins: sizes, settings, and which kinds of trouble there are. Not every run has
//! every kind (swarm testing), since some kinds hide what others would show.

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use fastrand::Rng;
use outbox_core::{Abilities, Backoff, Config, Limits, Ordering, Policy};

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    KillRelay,
    FreezeRelay,
    DrainRelay,
    BrokerDown,
    ConnectionCut,
    Blocked,
    Silent,
    ClosesOnPublish,
    QueueFull,
    QueueMissing,
    QueueMute,
    Crash,
    Failover,
    SlotLost,
    BackendLost,
    StatementsFail,
    RowLocked,
    TriggerRefuses,
    Unpublished,
    RepairRefused,
    SlotPinned,
    OtherSlot,
    Replay,
    UnheardReplay,
    Release,
    Delete,
    PlainUpdate,
    LateVisible,
    AsyncCommit,
    Oversized,
    Unstreamable,
    Poison,
    EndsConnection,
    TooLarge,
    IdentityLost,
    Deferred,
}

impl Trouble {
    pub const ALL: [Self; 36] = [
        Self::KillRelay,
        Self::FreezeRelay,
        Self::DrainRelay,
        Self::BrokerDown,
        Self::ConnectionCut,
        Self::Blocked,
        Self::Silent,
        Self::ClosesOnPublish,
        Self::QueueFull,
        Self::QueueMissing,
        Self::QueueMute,
        Self::Crash,
        Self::Failover,
        Self::SlotLost,
        Self::BackendLost,
        Self::StatementsFail,
        Self::RowLocked,
        Self::TriggerRefuses,
        Self::Unpublished,
        Self::RepairRefused,
        Self::SlotPinned,
        Self::OtherSlot,
        Self::Replay,
        Self::UnheardReplay,
        Self::Release,
        Self::Delete,
        Self::PlainUpdate,
        Self::LateVisible,
        Self::AsyncCommit,
        Self::Oversized,
        Self::Unstreamable,
        Self::Poison,
        Self::EndsConnection,
        Self::TooLarge,
        Self::IdentityLost,
        Self::Deferred,
    ];
}

/// Most bytes of a body that the broker takes.
pub(crate) const LARGEST_MESSAGE: usize = 100;

/// A run's sizes and settings.
#[derive(Clone, Debug)]
pub struct Knobs {
    /// The seed, from which everything else is drawn.
    pub seed: u64,
    /// The relay's settings.
    pub config: Config,
    /// What the sink can do: its broker has queues, or keeps a log.
    pub abilities: Abilities,
    /// Whether unroutable events are tried again; otherwise they are rejected.
    pub unroutable_is_retried: bool,
    /// How many transactions emit.
    pub transactions: usize,
    /// How many keys their events have. One event in four has none.
    pub keys: u64,
    /// How long clients emit and troubles come.
    pub span: Duration,
    /// The kinds of trouble that come.
    pub troubles: BTreeSet<Trouble>,
    /// Average pause between two troubles.
    pub pause: Duration,
    /// Longest time that a message takes between two machines.
    pub latency: Duration,
    /// How many relays compete for the slot.
    pub relays: usize,
}

impl Knobs {
    /// The knobs of this seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0xcafe);
        // Whether probes are shared out fairly shows only if many events wait: behind a broker that was silent and is
        // unavailable, in memory that has room, and while no check of the table ends their wait.
        let is_wide = rng.u8(..10) == 0;
        let max_events = if is_wide { rng.usize(4000..8000) } else { rng.usize(6..80) };
        let millis = |rng: &mut Rng, range: std::ops::Range<u64>| Duration::from_millis(rng.u64(range));
        let ordering = match rng.u8(..8) {
            0 => Ordering::None,
            _ if is_wide => Ordering::Pipelined,
            1..5 => Ordering::Pipelined,
            _ => Ordering::Strict,
        };
        let share = rng.u8(1..7);
        // A few kinds of trouble that come again and again show what many would hide.
        let is_focused = rng.u8(..3) == 0;
        let silence = Duration::from_secs(6);
        let troubles: BTreeSet<Trouble> = if is_wide {
            [rng.choose_multiple(Trouble::ALL, 1), vec![Trouble::QueueFull, Trouble::Silent]].concat()
        } else if is_focused {
            rng.choose_multiple(Trouble::ALL, 4)
        } else {
            Trouble::ALL.into_iter().filter(|_| rng.u8(..6) < share).collect()
        }
        .into_iter()
        .collect();
        // The relay learns of these troubles only when it next checks the table.
        let needs_looks = [Trouble::Unpublished, Trouble::UnheardReplay, Trouble::Delete, Trouble::PlainUpdate];
        let looks_seldom = is_wide && needs_looks.iter().all(|trouble| !troubles.contains(trouble));
        Self {
            seed,
            config: Config {
                in_flight: rng.usize(1..20),
                max_rate: max_rate(seed, is_wide),
                limits: Limits { max_events, max_bytes: rng.usize(4..100) * if is_wide { 1_000_000 } else { 1000 } },
                policy: Policy {
                    ordering,
                    backoff: Backoff { base: millis(&mut rng, 5..100), max: millis(&mut rng, 100..3000) },
                    max_attempts: rng.u32(1..5),
                    retry_for: if rng.bool() { Duration::ZERO } else { millis(&mut rng, 0..3000) },
                    hold_failed: rng.bool(),
                },
                settle_batch: rng.usize(1..10),
                settle_interval: millis(&mut rng, 0..10),
                park_after: millis(&mut rng, 100..2000),
                silent_after: silent_after(seed),
                confirm_timeout: Duration::from_secs(3),
                max_slot_wal: max_slot_wal(seed),
                check_interval: millis(&mut rng, if looks_seldom { 200_000..600_000 } else { 1000..20_000 }),
                drain_timeout: Duration::from_secs(5),
                status_interval: silence / 3,
                stands_still_after: silence / 2,
                repairs_publication: rng.u8(..8) > 0,
                reports_delivered: false,
            },
            abilities: abilities(seed),
            unroutable_is_retried: rng.bool(),
            transactions: if is_wide { rng.usize(200..600) } else { rng.usize(3..60) },
            keys: if rng.u8(..8) == 0 { rng.u64(4..60) } else { rng.u64(1..4) },
            span: if rng.u8(..6) == 0 { millis(&mut rng, 20_000..60_000) } else { millis(&mut rng, 500..10_000) },
            troubles,
            pause: if is_focused && !is_wide { millis(&mut rng, 5..150) } else { millis(&mut rng, 50..1500) },
            latency: Duration::from_micros(rng.u64(50..20_000)),
            relays: if rng.u8(..3) == 0 { 1 } else { 2 },
        }
    }

    /// The knobs of a run in which nothing emits and nothing goes wrong, with one relay.
    pub(crate) fn calm(config: Config, abilities: Abilities) -> Self {
        Self {
            seed: 0,
            config,
            abilities,
            unroutable_is_retried: true,
            transactions: 0,
            keys: 0,
            span: Duration::ZERO,
            troubles: BTreeSet::new(),
            pause: Duration::ZERO,
            latency: Duration::from_millis(1),
            relays: 1,
        }
    }

    pub(crate) fn has(&self, trouble: Trouble) -> bool {
        self.troubles.contains(&trouble)
    }
}

/// Every other broker keeps a log, drawn with dice of its own. Both know how large a message may be.
fn abilities(seed: u64) -> Abilities {
    let is_log = Rng::with_seed(seed ^ 0x0109).bool();
    Abilities { ordered: is_log, reads_back: is_log, largest_message: Some(LARGEST_MESSAGE) }
}

/// The value has dice of its own, so that adding it changed no other draw of the seed.
fn silent_after(seed: u64) -> Duration {
    Duration::from_millis(Rng::with_seed(seed ^ 0x51e7).u64(200..1500))
}

/// One run in three has a limit for its slot, drawn with dice of its own.
fn max_slot_wal(seed: u64) -> Option<u64> {
    let mut rng = Rng::with_seed(seed ^ 0xd15c);
    Some(rng.u64(5000..50_000)).filter(|_| rng.u8(..3) == 0)
}

/// One run in six has a rate, drawn with dice of its own.
fn max_rate(seed: u64, is_wide: bool) -> Option<NonZeroU32> {
    let mut rng = Rng::with_seed(seed ^ 0x2a7e);
    let rate = if is_wide { rng.u32(2000..5000) } else { rng.u32(20..500) };
    NonZeroU32::new(rate).filter(|_| rng.u8(..6) == 0)
}
