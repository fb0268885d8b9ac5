//! What a seed stands for: settings, client programs, and faults with their moments. Pure.

use std::fmt;

use fastrand::Rng;

use super::program::{Program, pick};

/// Faults begin within this time, ms; the work of the clients takes about as long.
const SPAN: u32 = 4_000;

/// `wal_sender_timeout` of the servers: shorter than a relay may be frozen.
pub(super) const WAL_SENDER_TIMEOUT: &str = "1500ms";

/// Everything that is decided before a run.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) seed: u64,
    pub(super) settings: Settings,
    /// One relay, or two of which one waits.
    pub(super) relays: usize,
    pub(super) keys: u32,
    pub(super) clients: Vec<Program>,
    pub(super) relay_faults: Vec<Fault<RelayFault>>,
    pub(super) broker_faults: Vec<Fault<BrokerFault>>,
    pub(super) database_faults: Vec<Fault<DatabaseFault>>,
}

/// The relay's settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) ordering: Ordering,
    pub(super) in_flight: usize,
    max_bytes_kib: usize,
    park_after: u32,
    confirm_timeout: u32,
    retry_base: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ordering {
    Strict,
    Pipelined,
}

/// Begins `at` ms after the start, or when the one before it in its list is over, and lasts `ms`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault<Kind> {
    pub(super) at: u32,
    pub(super) ms: u32,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RelayFault {
    /// SIGKILL; it is away for the fault's length.
    Kill { seat: usize },
    /// SIGTERM, and away in the same way.
    Terminate { seat: usize },
    /// SIGSTOP and SIGCONT; the database gives a relay up after [`WAL_SENDER_TIMEOUT`].
    Freeze { seat: usize },
    /// All are killed, and the slot is dropped while they are away.
    DropSlot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrokerFault {
    /// SIGKILL and a restart, which takes 10 s by itself.
    Kill,
    Freeze,
    CloseConnections,
    MemoryAlarm,
    /// The queue of topic `full` nacks from the start on, when it holds so many; now it may hold all.
    MakeRoom {
        full_at: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DatabaseFault {
    /// An immediate shutdown, and a restart with recovery.
    Restart,
    TerminateRelays,
    Freeze,
    LockTable,
    LockRows,
}

impl Schedule {
    /// The same for the same seed, always.
    pub(super) fn new(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let settings = Settings::new(rng);
        let keys = pick(rng, &[5, 20, 200]);
        let relays = rng.usize(1..=2);
        let clients = (0..rng.usize(3..=6)).map(|_| Program::new(rng, keys)).collect();
        let relay_faults = faults(rng, 3, 2_000, |rng| {
            let seat = rng.usize(..relays);
            match rng.u32(..10) {
                0..4 => RelayFault::Kill { seat },
                4..6 => RelayFault::Terminate { seat },
                6..8 => RelayFault::Freeze { seat },
                _ => RelayFault::DropSlot,
            }
        });
        let mut broker_faults = faults(rng, 2, 2_500, |rng| match rng.u32(..10) {
            0..4 => BrokerFault::Freeze,
            4..8 => BrokerFault::CloseConnections,
            _ => BrokerFault::MemoryAlarm,
        });
        if rng.bool() {
            let kind = BrokerFault::MakeRoom { full_at: rng.u32(..20) };
            broker_faults.push(Fault { at: rng.u32(500..2_500), ms: 0, kind });
        }
        if rng.u32(..5) == 0 {
            broker_faults.push(Fault { at: rng.u32(..SPAN), ms: rng.u32(..1_000), kind: BrokerFault::Kill });
        }
        broker_faults.sort_by_key(|fault| fault.at);
        let database_faults = faults(rng, 3, 1_200, |rng| match rng.u32(..10) {
            0..2 => DatabaseFault::Restart,
            2..5 => DatabaseFault::TerminateRelays,
            5..7 => DatabaseFault::Freeze,
            7..8 => DatabaseFault::LockTable,
            _ => DatabaseFault::LockRows,
        });
        Self { seed, settings, relays, keys, clients, relay_faults, broker_faults, database_faults }
    }

    /// How often a relay, its session or its connection to the broker can be lost: each repeats what was unsettled.
    pub(super) fn disruptions(&self) -> usize {
        let relays =
            self.relay_faults.iter().filter(|fault| !matches!(fault.kind, RelayFault::Terminate { .. })).count();
        let harmless = |kind| matches!(kind, BrokerFault::MemoryAlarm | BrokerFault::MakeRoom { .. });
        let broker = self.broker_faults.iter().filter(|fault| !harmless(fault.kind)).count();
        let harmless = [DatabaseFault::LockTable, DatabaseFault::LockRows];
        let database = self.database_faults.iter().filter(|fault| !harmless.contains(&fault.kind)).count();
        relays + broker + database
    }

    /// How many messages the queue of topic `full` takes before it is full, if it ever is.
    pub(super) fn full_at(&self) -> Option<u32> {
        self.broker_faults.iter().find_map(|fault| match fault.kind {
            BrokerFault::MakeRoom { full_at } => Some(full_at),
            _ => None,
        })
    }

    /// Whether the broker dies without a chance to write down what it has not confirmed.
    pub(super) fn kills_broker(&self) -> bool {
        self.broker_faults.iter().any(|fault| fault.kind == BrokerFault::Kill)
    }
}

fn faults<Kind>(rng: &mut Rng, most: usize, longest: u32, mut kind: impl FnMut(&mut Rng) -> Kind) -> Vec<Fault<Kind>> {
    let mut moments: Vec<u32> = (0..rng.usize(..=most)).map(|_| rng.u32(100..SPAN)).collect();
    moments.sort_unstable();
    moments.into_iter().map(|at| Fault { at, ms: rng.u32(..longest), kind: kind(rng) }).collect()
}

impl Settings {
    fn new(rng: &mut Rng) -> Self {
        // Room for 100 events, 300, 1,000, 5,000.
        let max_bytes_kib = pick(rng, &[300, 900, 3_000, 15_000]);
        Self {
            ordering: pick(rng, &[Ordering::Strict, Ordering::Strict, Ordering::Pipelined]),
            in_flight: pick(rng, &[10, 50, 200, 500]).min(max_bytes_kib / 3),
            max_bytes_kib,
            park_after: pick(rng, &[0, 200, 1_000]),
            // Longer than a busy machine's broker pauses by itself, and shorter than the longest freeze.
            confirm_timeout: pick(rng, &[2_000, 5_000]),
            retry_base: pick(rng, &[5, 50]),
        }
    }

    /// As names and values of [`harness::RelayBuilder::set`].
    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        let ms = |ms: u32| format!("{ms}ms");
        let ordering = if self.ordering == Ordering::Strict { "strict" } else { "pipelined" };
        vec![
            ("ordering", ordering.to_owned()),
            ("in-flight", self.in_flight.to_string()),
            ("max-bytes", format!("{}KiB", self.max_bytes_kib)),
            ("park-after", ms(self.park_after)),
            ("confirm-timeout", ms(self.confirm_timeout)),
            ("retry-base", ms(self.retry_base)),
            ("retry-max", ms(300)),
            ("max-attempts", "1000".to_owned()), // a full queue never fails an event
            ("log", "info,relay=debug".to_owned()), // seldom does a seed fail twice in the same way
        ]
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "schedule of SEED={}: {} relays, {} keys", self.seed, self.relays, self.keys)?;
        let settings: Vec<String> =
            self.settings.pairs().iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(f, "  {}", settings.join(" "))?;
        for (number, client) in self.clients.iter().enumerate() {
            writeln!(f, "  client {number}: {client}")?;
        }
        list(f, "relay", &self.relay_faults)?;
        list(f, "broker", &self.broker_faults)?;
        list(f, "database", &self.database_faults)
    }
}

fn list<Kind: fmt::Debug>(f: &mut fmt::Formatter<'_>, whose: &str, faults: &[Fault<Kind>]) -> fmt::Result {
    faults.iter().try_for_each(|Fault { at, ms, kind }| writeln!(f, "  {at:>5} ms, {whose}: {kind:?} for {ms} ms"))
}

#[test]
fn a_seed_always_means_the_same_schedule() {
    let [one, two] = [7, 7].map(|seed| format!("{:?}", Schedule::new(seed)));
    assert!(one == two && one != format!("{:?}", Schedule::new(8)));
}
