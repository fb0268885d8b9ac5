//! A checker that finds nothing wrong is worth nothing unless it can fail: runs that are right, and each rule broken
//! once.

use fastrand::Rng;
use uuid::Uuid;

use super::{Delivered, Evidence, Fact, Kind, Limits, Queue, Row, Violation, check};
use crate::random::program::pick;

/// Runs that are made up for each test.
const RUNS: usize = 300;
const MIB: i64 = 1 << 20;
fn limits() -> Limits {
    Limits {
        duplicates: 20,
        ordered: vec![Queue::Open, Queue::Full],
        peak_memory: 64 << 20,
        retained_wal: MIB,
        exits: vec![0, 137],
    }
}

/// A run in which nothing is wrong, though much has happened: duplicates, replays, verdicts of every kind.
fn right(rng: &mut Rng) -> Evidence {
    let mut numbers = [0; 3];
    let kinds = [Kind::Plain, Kind::Nackable, Kind::Deferred, Kind::Unroutable, Kind::NoExchange];
    // Each kind with a key at least twice, so that there is something to break.
    let forced = kinds.iter().flat_map(|kind| [(*kind, Some(0)), (*kind, Some(0))]);
    let mostly_plain = [&kinds[..], &[Kind::Plain; 5]].concat();
    let random: Vec<_> =
        (0..rng.usize(20..80)).map(|_| (pick(rng, &mostly_plain), rng.bool().then(|| rng.u32(..3)))).collect();
    let facts: Vec<Fact> = forced
        .chain(random)
        .map(|(kind, key)| {
            let key = key.map(|key| {
                numbers[key as usize] += 1;
                (key, numbers[key as usize])
            });
            let replays = if rng.u32(..8) == 0 { rng.usize(1..3) } else { 0 };
            Fact { id: Uuid::from_u128(rng.u128(..)), kind, tx: 0, key, replays, unknown_replays: rng.usize(..2) }
        })
        .collect();

    let queue = |kind| if kind == Kind::Nackable { Queue::Full } else { Queue::Open };
    let delivery = |fact: &Fact| Delivered { id: fact.id, queue: queue(fact.kind), key: fact.key };
    let mut delivered: Vec<Delivered> =
        facts.iter().filter(|fact| fact.kind.is_deliverable() && fact.kind != Kind::Deferred).map(delivery).collect();
    for fact in facts.iter().filter(|fact| fact.kind == Kind::Deferred) {
        delivered.insert(rng.usize(..=delivered.len()), delivery(fact)); // whenever its time has come
    }
    let end = rng.usize(10..=delivered.len());
    let repeated = delivered[end - rng.usize(..10)..end].to_vec(); // a crash repeats the last ones
    delivered.splice(end..end, repeated);
    for fact in facts.iter().filter(|fact| fact.kind.is_deliverable()) {
        delivered.extend((0..fact.replays).map(|_| delivery(fact)));
    }
    let row = |fact: &Fact| Row {
        id: fact.id,
        status: if fact.kind.is_deliverable() { "SENT" } else { "FAILED" }.to_owned(),
        attempts: if fact.kind == Kind::Nackable { 3 } else { 1 },
        early: false,
    };
    let rows = facts.iter().map(row).collect();
    Evidence { facts, delivered, rows, exits: vec![137, 0], peak_memory: 20 << 20, retained_wal: 100 }
}

#[test]
fn a_run_in_which_nothing_is_wrong_has_no_violation() {
    let mut rng = harness::seed::rng("checker");
    for _ in 0..RUNS {
        assert_eq!(check(&right(&mut rng), &limits()), []);
    }
}

/// Breaks random right runs by `break_it`, which returns the violation that it must be found by.
fn is_found(break_it: impl Fn(&mut Evidence, &mut Rng) -> Violation) {
    let mut rng = harness::seed::rng("checker");
    for _ in 0..RUNS {
        let mut evidence = right(&mut rng);
        let violation = break_it(&mut evidence, &mut rng);
        let found = check(&evidence, &limits());
        assert!(found.contains(&violation), "{violation} is not among {found:?}");
    }
}

/// A random fact of a kind that fits.
fn any(evidence: &Evidence, rng: &mut Rng, fits: impl Fn(Kind) -> bool) -> Fact {
    let facts: Vec<&Fact> = evidence.facts.iter().filter(|fact| fits(fact.kind)).collect();
    pick(rng, &facts).clone()
}

fn row_of(evidence: &mut Evidence, id: Uuid) -> &mut Row {
    evidence.rows.iter_mut().find(|row| row.id == id).unwrap()
}

#[test]
fn a_lost_event_is_found_whatever_its_row_says() {
    is_found(|evidence, rng| {
        let Fact { id, kind, replays, .. } = any(evidence, rng, Kind::is_deliverable);
        evidence.delivered.retain(|delivered| delivered.id != id);
        Violation::Lost { id, kind, delivered: 0, expected: 1 + replays }
    });
}

#[test]
fn a_return_that_was_ignored_is_found() {
    // The row says SENT, and no queue has ever seen the message.
    is_found(|evidence, rng| {
        let Fact { id, kind, .. } = any(evidence, rng, |kind| kind == Kind::Unroutable);
        let status = "SENT".to_owned();
        row_of(evidence, id).status.clone_from(&status);
        Violation::Verdict { id, kind, status }
    });
}

#[test]
fn a_lost_replay_is_found() {
    is_found(|evidence, rng| {
        let Fact { id, kind, .. } = any(evidence, rng, Kind::is_deliverable);
        let delivered = evidence.delivered.iter().filter(|delivered| delivered.id == id).count();
        evidence.facts.iter_mut().find(|fact| fact.id == id).unwrap().replays = delivered;
        Violation::Lost { id, kind, delivered, expected: delivered + 1 }
    });
}

#[test]
fn an_event_that_nobody_committed_is_found() {
    is_found(|evidence, rng| {
        let id = Uuid::from_u128(rng.u128(..));
        let at = rng.usize(..=evidence.delivered.len());
        evidence.delivered.insert(at, Delivered { id, queue: Queue::Open, key: None });
        Violation::Phantom(id)
    });
}

#[test]
fn a_delivery_of_what_cannot_be_delivered_is_found() {
    is_found(|evidence, rng| {
        let Fact { id, kind, key, .. } = any(evidence, rng, |kind| !kind.is_deliverable());
        evidence.delivered.push(Delivered { id, queue: Queue::Open, key });
        Violation::Undeliverable(id, kind)
    });
}

#[test]
fn a_message_with_another_events_key_is_found() {
    is_found(|evidence, rng| {
        let at = rng.usize(..evidence.delivered.len());
        evidence.delivered[at].key = Some((99, 1));
        Violation::Changed(evidence.delivered[at].id)
    });
}

#[test]
fn first_deliveries_that_changed_places_within_a_key_are_found() {
    for kind in [Kind::Plain, Kind::Nackable] {
        is_found(|evidence, _| {
            let mut of_key =
                evidence.facts.iter().filter(|fact| fact.kind == kind && fact.key.is_some_and(|key| key.0 == 0));
            let [earlier, later] = [of_key.next().unwrap(), of_key.next().unwrap()];
            let first = |id| evidence.delivered.iter().position(|delivered| delivered.id == id).unwrap();
            let ((key, number), (_, behind)) = (earlier.key.unwrap(), later.key.unwrap());
            let (first_of_earlier, first_of_later) = (first(earlier.id), first(later.id));
            let queue = evidence.delivered[first_of_earlier].queue;
            evidence.delivered.swap(first_of_earlier, first_of_later);
            Violation::Order { key, queue, number, behind }
        });
    }
}

#[test]
fn a_missing_verdict_is_found() {
    is_found(|evidence, rng| {
        let Fact { id, kind, .. } = any(evidence, rng, |_| true);
        row_of(evidence, id).status = "PENDING".to_owned();
        Violation::Verdict { id, kind, status: "PENDING".to_owned() }
    });
}

#[test]
fn an_event_that_failed_without_a_reason_is_found() {
    is_found(|evidence, rng| {
        let Fact { id, kind, .. } = any(evidence, rng, Kind::is_deliverable);
        row_of(evidence, id).status = "FAILED".to_owned();
        Violation::Verdict { id, kind, status: "FAILED".to_owned() }
    });
}

#[test]
fn a_row_that_is_gone_and_one_too_many_are_found() {
    is_found(|evidence, rng| {
        let row = evidence.rows.swap_remove(rng.usize(..evidence.rows.len()));
        Violation::NoRow(row.id)
    });
    is_found(|evidence, rng| {
        let id = Uuid::from_u128(rng.u128(..));
        evidence.rows.push(Row { id, ..evidence.rows[0].clone() });
        Violation::UnknownRow(id)
    });
}

#[test]
fn an_attempt_that_an_outage_has_cost_is_found() {
    for attempts in [0, 2] {
        is_found(|evidence, rng| {
            let Fact { id, kind, .. } = any(evidence, rng, |kind| kind != Kind::Nackable);
            row_of(evidence, id).attempts = attempts;
            Violation::Attempts { id, kind, attempts }
        });
    }
}

#[test]
fn a_deferred_event_before_its_time_is_found() {
    is_found(|evidence, rng| {
        let Fact { id, .. } = any(evidence, rng, |kind| kind == Kind::Deferred);
        row_of(evidence, id).early = true;
        Violation::Early(id)
    });
}

#[test]
fn too_many_duplicates_are_found() {
    is_found(|evidence, rng| {
        let at = rng.usize(..evidence.delivered.len());
        let again = evidence.delivered[at].clone();
        let limit = limits().duplicates;
        while super::duplicates(evidence) <= limit {
            evidence.delivered.push(again.clone());
        }
        Violation::Duplicates { count: limit + 1, limit }
    });
}

#[test]
fn too_much_memory_too_much_retained_wal_and_a_panic_are_found() {
    is_found(|evidence, _| {
        evidence.peak_memory = (64 << 20) + 1;
        Violation::Memory { bytes: evidence.peak_memory, limit: 64 << 20 }
    });
    is_found(|evidence, _| {
        evidence.retained_wal = MIB + 1;
        Violation::RetainedWal { bytes: MIB + 1, limit: MIB }
    });
    is_found(|evidence, rng| {
        let code = pick(rng, &[70, 101, 134]);
        evidence.exits.push(code);
        Violation::Exit(code)
    });
}
