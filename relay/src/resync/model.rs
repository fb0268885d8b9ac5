//! Random histories of a table, its log and the session's use of [`Resync`]: every committed row is taken up exactly
//! once for each time that it became `PENDING`, however commits, visibility, passes and parking interleave.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

/// Rows that a scan may take at a time.
const PAGE: usize = 3;
/// Close to where 32-bit transaction ids wrap around.
const FIRST_XID: u64 = (1 << 32) - 20;

#[derive(Clone, Debug)]
enum Step {
    Begin,
    Emit(prop::sample::Index),
    Replay(prop::sample::Index),
    Commit(prop::sample::Index),
    Show(prop::sample::Index),
    Read,
    Scan,
    Settle,
    Park,
    PassOver,
    Broker,
    Wait,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pick = any::<prop::sample::Index>;
    let step = prop_oneof![
        3 => Just(Step::Begin),
        6 => pick().prop_map(Step::Emit),
        1 => pick().prop_map(Step::Replay),
        4 => pick().prop_map(Step::Commit),
        4 => pick().prop_map(Step::Show),
        6 => Just(Step::Read),
        4 => Just(Step::Scan),
        3 => Just(Step::Settle),
        1 => Just(Step::Park),
        1 => Just(Step::PassOver),
        1 => Just(Step::Broker),
        2 => Just(Step::Wait),
    ];
    prop::collection::vec(step, 1..200)
}

#[derive(Default)]
struct Transaction {
    rows: Vec<i64>,
    replays: Vec<i64>,
}

struct World {
    now: Instant,
    resync: Resync,
    /// Without a broker there are no scans, and the stream is read on.
    broker_is_away: bool,
    next_xid: u64,
    next_seq: i64,
    open: BTreeMap<u64, Transaction>,
    /// In the log, but not visible to other sessions.
    hidden: BTreeMap<u64, Transaction>,
    log: VecDeque<(u64, Lsn, Vec<i64>, bool)>,
    wal_end: u64,
    pending: BTreeSet<i64>,
    settled: BTreeSet<i64>,
    memory: BTreeSet<i64>,
    /// The transaction that wrote the row last.
    writer: BTreeMap<i64, u64>,
    /// Rows that could be seen, and had not been taken up, when this one was emitted: they may be what it builds on.
    before: BTreeMap<i64, Vec<i64>>,
    owed: BTreeMap<i64, u32>,
    taken: BTreeMap<i64, u32>,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            now,
            resync: Resync::new(now),
            broker_is_away: false,
            next_xid: FIRST_XID,
            next_seq: 1,
            open: BTreeMap::new(),
            hidden: BTreeMap::new(),
            log: VecDeque::new(),
            wal_end: 1,
            pending: BTreeSet::new(),
            settled: BTreeSet::new(),
            memory: BTreeSet::new(),
            writer: BTreeMap::new(),
            before: BTreeMap::new(),
            owed: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Begin => {
                self.open.insert(self.next_xid, Transaction::default());
                self.next_xid += 1;
            }
            Step::Emit(pick) => {
                let seq = self.next_seq;
                let untaken = self.pending.iter().filter(|row| !self.taken.contains_key(row)).copied().collect();
                if let Some(transaction) = nth(&mut self.open, pick) {
                    transaction.rows.push(seq);
                    self.before.insert(seq, untaken);
                    self.next_seq += 1;
                }
            }
            Step::Replay(pick) => {
                let row = (!self.settled.is_empty())
                    .then(|| *self.settled.iter().nth(pick.index(self.settled.len())).unwrap());
                if let (Some(row), Some(transaction)) = (row, nth(&mut self.open, pick)) {
                    self.settled.remove(&row); // the row lock: no second replay, no settling meanwhile
                    transaction.replays.push(row);
                }
            }
            Step::Commit(pick) => self.commit(nth_key(&self.open, pick)),
            Step::Show(pick) => self.show(nth_key(&self.hidden, pick)),
            Step::Read => self.read(),
            Step::Scan => self.scan(),
            Step::Settle => self.settle(),
            Step::Park => {
                if self.resync.is_live() {
                    self.resync.park(self.now);
                }
            }
            Step::PassOver => {
                self.log.clear();
                self.resync.park(self.now);
                self.resync.passed_over(&self.snapshot());
            }
            Step::Broker => self.broker_is_away ^= true,
            Step::Wait => self.now += LONGEST_WAIT,
        }
    }

    fn commit(&mut self, xid: Option<u64>) {
        let Some((xid, transaction)) = xid.and_then(|xid| self.open.remove_entry(&xid)) else { return };
        for row in transaction.rows.iter().chain(&transaction.replays) {
            self.writer.insert(*row, xid);
            *self.owed.entry(*row).or_default() += 1;
        }
        self.wal_end += 1;
        self.log.push_back((xid, Lsn(self.wal_end), transaction.rows.clone(), !transaction.replays.is_empty()));
        self.wal_end += 1;
        self.hidden.insert(xid, transaction);
    }

    fn show(&mut self, xid: Option<u64>) {
        let Some(transaction) = xid.and_then(|xid| self.hidden.remove(&xid)) else { return };
        self.pending.extend(transaction.rows.iter().chain(&transaction.replays));
        // A streamed row can have been confirmed before it could be seen; its verdict is written only now.
    }

    fn snapshot(&self) -> Snapshot {
        let in_progress: BTreeSet<u64> = self.open.keys().chain(self.hidden.keys()).copied().collect();
        let xmin = in_progress.first().copied().unwrap_or(self.next_xid);
        let list: Vec<String> = in_progress.iter().map(u64::to_string).collect();
        format!("{xmin}:{}:{}", self.next_xid, list.join(",")).parse().unwrap()
    }

    fn read(&mut self) {
        let waits_for_pass =
            self.resync.wants_scan(self.now).is_some_and(ScanFrom::is_whole_pass) || self.resync.holds_stream();
        if waits_for_pass && !self.broker_is_away {
            return; // the session holds the stream for it
        }
        let Some((xid, lsn, rows, bell)) = self.log.pop_front() else { return };
        #[expect(clippy::cast_possible_truncation, reason = "as the stream does")]
        self.resync.begin(xid as u32, lsn);
        for row in rows {
            match self.resync.route() {
                Route::Take => self.take(row),
                Route::Covered => {}
                Route::Leave => self.resync.left_to_table(),
            }
        }
        if bell {
            self.resync.bell(self.now);
        }
    }

    fn scan(&mut self) {
        if self.broker_is_away {
            return;
        }
        let Some(from) = self.resync.wants_scan(self.now) else { return };
        let snapshot = self.snapshot();
        #[expect(clippy::cast_possible_truncation, reason = "as a row carries it")]
        let age = |xid: u32| (self.next_xid as u32).wrapping_sub(xid);
        #[expect(clippy::cast_possible_truncation, reason = "as a row carries it")]
        let is_old = |row: &i64| from.older_than.is_none_or(|oldest| age(self.writer[row] as u32) > age(oldest));
        let rows: Vec<i64> = self
            .pending
            .range(from.after_seq + 1..)
            .take_while(|row| is_old(row))
            .filter(|row| !self.memory.contains(row))
            .copied()
            .collect();
        let (page, rest) = rows.split_at(rows.len().min(PAGE));
        page.iter().for_each(|&row| self.take(row));
        let stopped_at = (!rest.is_empty()).then(|| *page.last().unwrap());
        let horizon = Lsn(self.wal_end);
        let page = Scanned { from, snapshot: &snapshot, horizon, stopped_at, knows_holds: true };
        self.resync.scanned(page, self.now);
    }

    fn take(&mut self, row: i64) {
        assert!(self.memory.insert(row), "row {row} was taken while in memory");
        for earlier in self.before.remove(&row).into_iter().flatten() {
            assert!(
                self.taken.contains_key(&earlier),
                "row {row} was taken before row {earlier}, which it may build on"
            );
        }
        *self.taken.entry(row).or_default() += 1;
    }

    fn settle(&mut self) {
        let written: Vec<i64> = self.memory.intersection(&self.pending).copied().collect();
        for row in written {
            self.memory.remove(&row);
            self.pending.remove(&row);
            self.settled.insert(row);
        }
    }

    fn drain(&mut self) {
        self.broker_is_away = false;
        for _ in 0..1000 {
            self.commit(self.open.keys().next().copied());
            self.show(self.hidden.keys().next().copied());
            self.scan();
            self.read();
            self.settle();
            self.now += LONGEST_WAIT;
        }
    }
}

fn nth_key<V>(map: &BTreeMap<u64, V>, pick: &prop::sample::Index) -> Option<u64> {
    (!map.is_empty()).then(|| *map.keys().nth(pick.index(map.len())).unwrap())
}

fn nth<'a, V>(map: &'a mut BTreeMap<u64, V>, pick: &prop::sample::Index) -> Option<&'a mut V> {
    let key = nth_key(map, pick)?;
    map.get_mut(&key)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_committed_row_is_taken_up_exactly_once(steps in steps()) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.step(step));
        world.drain();
        prop_assert_eq!(&world.taken, &world.owed);
        prop_assert!(world.resync.is_live() && world.pending.is_empty() && world.memory.is_empty());
    }
}
