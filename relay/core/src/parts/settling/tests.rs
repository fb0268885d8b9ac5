use super::*;
use crate::interface::Status;

const BATCHING: Batching = Batching { max: 3, interval: Duration::from_millis(5) };

fn sent(id: u128) -> Verdict {
    Verdict { id: Uuid::from_u128(id), status: Status::Sent, error: None, retry_in: None, holds_key: false }
}

fn ids(batch: &Batch) -> Vec<u128> {
    batch.verdicts.iter().map(|verdict| verdict.id.as_u128()).collect()
}

#[test]
fn a_batch_is_due_when_it_is_full_or_its_oldest_verdict_has_waited_long_enough() {
    let now = Instant::now();
    let mut settling = Settling::new(BATCHING);
    assert_eq!(settling.due(), None);
    settling.push(sent(1), now);
    assert_eq!(settling.due(), Some(now + BATCHING.interval));
    settling.push(sent(2), now);
    settling.push(sent(3), now);
    assert_eq!(settling.due(), Some(now));
    settling.push(sent(4), now);
    assert_eq!(ids(&settling.take()), [1, 2, 3]);
    assert_eq!(ids(&settling.take()), [4]);
}

#[test]
fn two_attempts_of_one_event_are_written_one_after_the_other() {
    let now = Instant::now();
    let mut settling = Settling::new(BATCHING);
    settling.push(Verdict { status: Status::Pending, error: Some("nack".into()), ..sent(1) }, now);
    settling.push(sent(1), now);
    assert_eq!(settling.take().verdicts[0].status, Status::Pending);
    assert_eq!(settling.take().verdicts[0].status, Status::Sent);
}

#[test]
fn a_batch_that_could_not_be_written_comes_first_again_after_a_pause() {
    let now = Instant::now();
    let mut settling = Settling::new(BATCHING);
    (1..=4).for_each(|id| settling.push(sent(id), now));
    let batch = settling.take();
    let pause = Duration::from_millis(100);
    assert_eq!(settling.put_back(batch, Remedy::Repeat, now, pause), None);
    assert_eq!(settling.due(), Some(now + pause));
    assert_eq!(
        (settling.unwritten(), settling.delayed()),
        (0, 4),
        "as long as statements fail, all verdicts are delayed"
    );
    let again = settling.take();
    assert_eq!((ids(&again), settling.delayed()), (vec![1, 2, 3], 4));
    settling.written(again, NotWritten::default(), |_| None);
    assert_eq!(settling.delayed(), 0);
}

#[test]
fn a_row_that_is_not_visible_yet_is_tried_again_and_only_then_taken_for_gone() {
    let now = Instant::now();
    let mut settling = Settling::new(BATCHING);
    settling.push(sent(1), now);
    let missing = NotWritten { missing: Vec::from([Uuid::from_u128(1)]), ..NotWritten::default() };
    let batch = settling.take();
    assert!(settling.written(batch, missing.clone(), |_| Some(20)).is_empty());
    assert!(settling.wants_snapshot(now));
    settling.seen(&"20:20:".parse().unwrap(), now);
    assert!(settling.due().is_none() && !settling.wants_snapshot(now), "its transaction is in progress: wait");
    let later = settling.next_look().unwrap();
    assert!(settling.wants_snapshot(later));
    settling.seen(&"21:21:".parse().unwrap(), later);
    let batch = settling.take();
    assert_eq!(ids(&batch), [1]);
    let done = settling.written(batch, missing.clone(), |_| Some(20));
    assert!(done.len() == 1 && done[0].gone, "visible and not there: it was deleted");
}

#[test]
fn a_row_that_someone_has_locked_is_passed_over_and_tried_again_and_never_taken_for_gone() {
    let now = Instant::now();
    let mut settling = Settling::new(BATCHING);
    (1..=2).for_each(|id| settling.push(sent(id), now));
    let batch = settling.take();
    assert!(!batch.skip_locked, "nobody is known to hold a lock");
    settling.put_back(batch, Remedy::PassLocks, now, Duration::ZERO);
    let locked = NotWritten { locked: Vec::from([Uuid::from_u128(1)]), ..NotWritten::default() };
    let mut look = now;
    for _ in 0..3 {
        let batch = settling.take();
        assert!(batch.skip_locked);
        settling.written(batch, locked.clone(), |_| None);
        assert!(settling.wants_snapshot(look));
        settling.seen(&"20:20:".parse().unwrap(), look);
        look = settling.next_look().unwrap_or(look + LONGEST_WAIT);
    }
    let batch = settling.take();
    assert_eq!(ids(&batch), [1]);
    let done = settling.written(batch, NotWritten::default(), |_| None);
    assert!(done.len() == 1 && !done[0].gone && settling.is_done());
    settling.push(sent(3), now);
    assert!(!settling.take().skip_locked);
}

#[test]
fn a_row_that_cannot_be_written_is_found_and_put_aside_and_the_others_go_on() {
    let now = Instant::now();
    let mut settling = Settling::new(Batching { max: 100, interval: Duration::ZERO });
    (1..=100).for_each(|id| settling.push(sent(id), now));
    let mut written = Vec::new();
    for _ in 0..40 {
        let batch = settling.take();
        if ids(&batch).contains(&42) {
            let alone = batch.verdicts.len() == 1;
            let blamed = settling.put_back(batch, Remedy::Isolate, now, Duration::ZERO);
            assert_eq!(blamed, alone.then(|| Uuid::from_u128(42)));
        } else {
            written.extend(ids(&batch));
            settling.written(batch, NotWritten::default(), |_| None);
        }
    }
    written.sort_unstable();
    assert_eq!(written, (1..=100).filter(|id| *id != 42).collect::<Vec<_>>());
    settling.push(sent(101), now);
    settling.seen(&"20:20:".parse().unwrap(), now);
    assert_eq!(ids(&settling.take()), [101]);
    assert_eq!(ids(&settling.take()), [42], "it is tried again, alone, and after the others");
}
