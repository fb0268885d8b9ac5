//! What the parts do together, where a run of the simulator would not show it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    interface::{
        Backoff, Config, Destination, Due, Effect, End, Event, Finished, Input, Limits, Lsn, NotWritten, Notice, Now,
        Ordering, Outcome, Page, Policy, Published, Request, ScanFrom, Sequence, Snapshot, Start, Streamed, Text,
    },
    machine::Core,
    parts::{Origin, Resync, Stream},
};

/// A core, with a table and a broker that answer as the test says.
struct Driver {
    core: Core,
    now: Now,
    published: Vec<Arc<Event>>,
    /// The outcome of every published event.
    outcome: Outcome,
}

impl Driver {
    fn new() -> Self {
        Self::starting(Start::default())
    }

    fn starting(start: Start) -> Self {
        let now = Now { instant: Instant::now(), unix_us: 0 };
        Self { core: Core::new(config(), start, now.instant), now, published: Vec::new(), outcome: Outcome::Delivered }
    }

    fn wait(&mut self, time: Duration) {
        self.now.instant += time;
    }

    /// The operation on the table that the core asks for. Events that it publishes on the way get their outcome at
    /// once.
    fn request(&mut self) -> Option<Request> {
        while let Some(effect) = self.core.next(self.now) {
            match effect {
                Effect::Table(request) => return Some(request),
                Effect::Publish { batch: events, .. } => {
                    let outcome = |event: &Arc<Event>| (event.id, self.outcome.clone());
                    let outcomes = events.iter().map(outcome).collect();
                    self.published.extend(events);
                    self.core.on(Input::Sink(Notice::Outcomes(outcomes)), self.now);
                }
                _ => {}
            }
        }
        None
    }

    /// Answers like a table in which no event is due.
    fn finish(&mut self, request: Request, scanned: impl FnOnce(ScanFrom) -> Page) {
        let seen = snapshot("10:10:");
        let finished = match request {
            Request::Scan(from, _) => Finished::Scanned(from, scanned(from)),
            Request::Due(_) => Finished::Due(Due { snapshot: seen, events: Vec::new(), cut: false, next_in: None }),
            Request::Snapshot => Finished::Snapshot(seen),
            Request::LookAtPublication => Finished::Published(published("1", seen)),
            Request::EnsurePublication => Finished::PublicationEnsured(None),
            Request::EnsureSequence => Finished::Sequence(Sequence::InOrder),
            Request::Settle(batch) => {
                let locked = batch.verdicts.iter().map(|verdict| verdict.id).collect();
                Finished::Settled(batch, NotWritten { locked, ..NotWritten::default() })
            }
        };
        self.core.on(Input::Table(finished), self.now);
    }
}

fn published(identity: &str, snapshot: Snapshot) -> Published {
    Published { identity: Some(identity.to_owned()), changed_by: vec![1], snapshot, writers: None }
}

pub(crate) fn config() -> Config {
    Config {
        in_flight: 100,
        max_rate: None,
        limits: Limits { max_events: 8, max_bytes: 1 << 20 },
        policy: Policy {
            ordering: Ordering::Strict,
            backoff: Backoff { base: Duration::from_millis(10), max: Duration::from_secs(1) },
            max_attempts: 3,
            retry_for: Duration::ZERO,
            hold_failed: true,
        },
        settle_batch: 100,
        settle_interval: Duration::ZERO,
        park_after: Duration::from_secs(1),
        silent_after: Duration::from_secs(4),
        confirm_timeout: Duration::from_secs(30),
        max_slot_wal: None,
        check_interval: Duration::from_secs(3600),
        drain_timeout: Duration::from_secs(5),
        status_interval: Duration::from_secs(10),
        stands_still_after: Duration::from_secs(30),
        repairs_publication: true,
        reports_delivered: false,
    }
}

pub(crate) fn event(seq: i64) -> Arc<Event> {
    Arc::new(Event {
        id: Uuid::from_u128(seq as u128),
        seq,
        destination: Destination { exchange: None, topic: Text::from_static("a") },
        event_type: None,
        aggregate_type: None,
        aggregate_id: None,
        body: Ok(Bytes::new()),
        content_type: Text::from_static("application/json"),
        headers: None,
        correlation_id: None,
        created_at_us: 0,
        attempts: 0,
        committed_at_us: None,
        first_attempted_at_us: None,
        holds_key: false,
        replays: 0,
    })
}

fn snapshot(text: &str) -> Snapshot {
    text.parse().unwrap()
}

fn page(seen: &str, events: Vec<Arc<Event>>, stopped_at: Option<i64>) -> Page {
    Page {
        snapshot: snapshot(seen),
        horizon: Lsn(1000),
        events,
        stopped_at,
        left_out: Vec::new(),
        holders: Vec::new(),
        holders_cut: false,
    }
}

fn leave(resync: &mut Resync, xid: u32) {
    resync.begin(Origin { xid, commit: Lsn(u64::from(xid)) });
    resync.left_to_table();
    resync.commit();
}

#[test]
fn the_stream_is_paused_again_once_what_stayed_invisible_for_long_can_be_seen_although_others_cannot_yet() {
    let now = Instant::now();
    let mut resync = Resync::new(Stream::Started, now);
    leave(&mut resync, 10);
    for _ in 0..12 {
        resync.scanned(ScanFrom::LOWEST, &page("10:11:10", Vec::new(), None), now);
    }
    assert!(!resync.pauses_stream(), "one that stays invisible must not pause the stream for long");
    leave(&mut resync, 11);
    resync.seen(&snapshot("11:12:11"));
    resync.scanned(ScanFrom::LOWEST, &page("11:12:11", Vec::new(), None), now);
    assert!(resync.pauses_stream());
}

#[test]
fn while_memory_does_not_know_every_key_that_is_held_no_page_begins_behind_another() {
    let now = Instant::now();
    let mut resync = Resync::new(Stream::Started, now);
    resync.scanned(ScanFrom::LOWEST, &page("10:10:", Vec::new(), Some(5)), now);
    assert_eq!(resync.wants_scan(now).map(|from| from.after_seq), Some(5));
    let cut = Page { holders_cut: true, ..page("10:10:", Vec::new(), Some(5)) };
    resync.scanned(ScanFrom::LOWEST, &cut, now);
    assert_eq!(resync.wants_scan(now), Some(ScanFrom::LOWEST));
}

#[test]
fn what_is_deferred_while_a_backlog_is_worked_off_is_looked_for_before_the_end_of_the_backlog() {
    let mut driver = Driver::new();
    let (mut pages, mut looks) = (0_i64, 0);
    while pages < 20 {
        driver.wait(Duration::from_millis(200));
        let request = driver.request().expect("a backlog leaves no pause");
        looks += usize::from(matches!(request, Request::Due(_)));
        driver.finish(request, |_| {
            pages += 1;
            page("10:10:", Vec::new(), Some(pages))
        });
    }
    assert!((3..=6).contains(&looks), "{looks} looks in some 4 s");
}

#[test]
fn verdicts_that_cannot_be_written_do_not_keep_the_rest_of_a_backlog_waiting() {
    let mut driver = Driver::new();
    for _ in 0..100 {
        driver.wait(Duration::from_millis(50));
        match driver.request() {
            Some(Request::Scan(from, _)) if from.after_seq == 7 => return,
            Some(request) => driver.finish(request, |_| page("10:10:", (1..=7).map(event).collect(), Some(7))),
            None => {}
        }
    }
    panic!("no second page, although there is room for an event: {:?}", driver.core);
}

#[test]
fn a_relay_whose_machine_slept_ends_its_session_although_its_own_clock_stood_still() {
    let mut driver = Driver::new();
    assert!(driver.request().is_some());
    driver.now.unix_us += 31_000_000;
    let end = driver.core.next(driver.now);
    assert!(matches!(end, Some(Effect::End(End::StoodStill(pause))) if pause == Duration::from_secs(31)), "{end:?}");
}

#[test]
fn a_check_looks_after_the_sequence_then_the_publication_and_a_refusal_of_the_first_stops_nothing() {
    let mut driver = Driver::new();
    let mut looks = Vec::new();
    let begun = driver.now.instant;
    while driver.now.instant <= begun + config().check_interval {
        while let Some(request) = driver.request() {
            let is_due = driver.now.instant >= begun + config().check_interval;
            match &request {
                Request::EnsureSequence => {
                    assert!(is_due);
                    looks.push("sequence");
                    let refused = Finished::Sequence(Sequence::Refused("DDL is frozen".to_owned()));
                    driver.core.on(Input::Table(refused), driver.now);
                    continue;
                }
                Request::EnsurePublication => looks.push("publication"),
                Request::Scan(..) if is_due => looks.push("pass"),
                _ => {}
            }
            driver.finish(request, |_| page("10:10:", Vec::new(), None));
        }
        driver.wait(Duration::from_secs(10)); // a longer pause would be a machine that stood still
    }
    assert_eq!(looks, ["sequence", "publication", "pass"]);
}

#[test]
fn a_parked_relay_waits_for_a_transaction_that_was_open_when_the_publication_had_changed() {
    let mut driver = Driver::new();
    let look = driver.request().expect("the first look at the publication");
    driver.finish(look, |_| unreachable!());
    let pass = driver.request().expect("a pass");
    driver.finish(pass, |_| page("10:10:", Vec::new(), Some(1)));
    driver.core.on(Input::Stream(Streamed::TableDescribed), driver.now);
    assert!(matches!(driver.request(), Some(Request::LookAtPublication)), "it may have changed");
    let changed = published("2", snapshot("10:11:10"));
    driver.core.on(Input::Table(Finished::Published(changed)), driver.now);
    for _ in 0..10 {
        driver.wait(Duration::from_millis(200));
        if let Some(request) = driver.request() {
            driver.finish(request, |_| page("10:11:10", Vec::new(), None));
        }
        assert!(!driver.core.is_live(), "10 still runs, and may have inserted what was not streamed");
    }
}

#[test]
fn a_broker_that_has_just_nacked_a_message_does_not_yet_count_as_unavailable() {
    let mut driver = Driver::new();
    driver.outcome = Outcome::Unavailable("nack".to_owned());
    let mut pending = Some(vec![event(1)]);
    for _ in 0..100 {
        if !driver.published.is_empty() {
            break;
        }
        driver.wait(Duration::from_millis(50));
        if let Some(request) = driver.request() {
            driver.finish(request, |_| page("10:10:", pending.take().unwrap_or_default(), None));
        }
    }
    assert!(!driver.published.is_empty());
    assert_eq!(driver.core.figures(driver.now.instant).unavailable_since, None);
    driver.wait(config().park_after);
    driver.request();
    assert!(driver.core.figures(driver.now.instant).unavailable_since.is_some());
}

#[test]
fn without_a_stream_the_table_is_read_every_second_and_only_a_pass_that_begins_after_the_stream_has_started_ends_that()
{
    let mut driver = Driver::starting(Start { without_stream: true, ..Start::default() });
    let mut passes = 0;
    for _ in 0..100 {
        driver.wait(Duration::from_millis(100));
        if let Some(request) = driver.request() {
            passes += usize::from(matches!(request, Request::Scan(..)));
            driver.finish(request, |_| page("10:10:", Vec::new(), None));
        }
        assert!(!driver.core.is_live());
    }
    assert!((9..=25).contains(&passes), "{passes} passes in 10 s");

    let pass = loop {
        driver.wait(Duration::from_millis(100));
        match driver.request() {
            Some(pass @ Request::Scan(..)) => break pass,
            Some(other) => driver.finish(other, |_| unreachable!()),
            None => {}
        }
    };
    driver.core.on(Input::StreamStarted, driver.now);
    driver.finish(pass, |_| page("10:10:", Vec::new(), None));
    assert!(!driver.core.is_live(), "it has not seen what was committed before the stream started");
    for _ in 0..20 {
        driver.wait(Duration::from_millis(100));
        if let Some(request) = driver.request() {
            driver.finish(request, |_| page("10:10:", Vec::new(), None));
        }
    }
    assert!(driver.core.is_live());
}

#[test]
fn without_a_stream_what_is_due_leaves_behind_the_pass_that_follows() {
    let mut driver = Driver::starting(Start { without_stream: true, ..Start::default() });
    let (mut due, mut passes_before) = (Some(event(1)), 0);
    for _ in 0..50 {
        driver.wait(Duration::from_millis(50));
        match driver.request() {
            Some(Request::Due(scan)) => {
                assert_eq!(scan.older_than, None, "a transaction that stays open holds up nobody's events");
                let seen = snapshot("10:20:10");
                let events: Vec<_> = due.take().into_iter().collect();
                let answer = Due { snapshot: seen, events, cut: false, next_in: None };
                driver.core.on(Input::Table(Finished::Due(answer)), driver.now);
                assert!(driver.request().is_some_and(|request| {
                    let is_pass = matches!(&request, Request::Scan(..));
                    driver.finish(request, |_| page("10:20:10", vec![event(2)], None));
                    is_pass
                }));
                passes_before += 1;
                break;
            }
            Some(request) => driver.finish(request, |_| page("10:20:10", Vec::new(), None)),
            None => {}
        }
    }
    driver.request();
    let published: Vec<i64> = driver.published.iter().map(|event| event.seq).collect();
    assert_eq!((passes_before, published), (1, vec![2, 1]));
}
