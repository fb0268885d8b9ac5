use super::*;

fn ids(seqs: &[u128]) -> HashSet<Uuid, IdHash> {
    seqs.iter().map(|seq| Uuid::from_u128(*seq)).collect()
}

/// A floor that the table keeps.
fn kept() -> Floor {
    let mut floor = Floor::new(Some(7));
    floor.kept(floor.wanted());
    floor
}

/// A pass reads the table while nothing runs.
fn read_pending(floor: &mut Floor) {
    floor.begins_pass(0, 100);
    floor.has_read_pending(0, 100);
}

/// A floor whose session has read the table.
fn read() -> Floor {
    let mut floor = kept();
    read_pending(&mut floor);
    floor.has_read_due();
    floor
}

#[test]
fn it_is_kept_until_all_that_the_table_had_is_settled() {
    let now = Instant::now();
    let mut floor = Floor::new(Some(7));
    assert!(floor.is_missing() && floor.is_changed());
    floor.kept(floor.wanted());
    assert!(!floor.is_missing() && !floor.is_changed());
    for read in [read_pending, Floor::has_read_due] {
        floor.look(|| panic!("the table is not read yet"), true, now);
        read(&mut floor);
    }
    assert!(!floor.look(|| ids(&[1, 2]), true, now));
    floor.settled(&Uuid::from_u128(1));
    floor.look(|| ids(&[3]), true, now);
    assert_eq!(floor.wanted(), Some(7), "an event waits; the new one does not count");
    floor.settled(&Uuid::from_u128(2));
    floor.look(|| ids(&[3]), true, now);
    assert_eq!((floor.wanted(), floor.present(), floor.is_changed()), (None, Some(7), true));
    floor.kept(None);
    assert!(!floor.is_changed());
}

#[test]
fn it_is_over_after_a_while_though_something_waits_but_not_while_the_broker_takes_nothing() {
    let now = Instant::now();
    let mut floor = read();
    assert!(!floor.look(|| ids(&[1]), true, now));
    assert!(!floor.look(|| ids(&[]), false, now + PATIENCE / 2));
    assert!(!floor.look(|| ids(&[]), true, now + 2 * PATIENCE));
    assert!(!floor.look(|| ids(&[]), true, now + 2 * PATIENCE + PATIENCE / 4));
    assert!(floor.look(|| ids(&[]), true, now + 2 * PATIENCE + PATIENCE / 2), "half of the time had passed before");
    assert_eq!(floor.wanted(), None);
    assert!(!floor.look(|| ids(&[]), true, now + 4 * PATIENCE), "once");
}

#[test]
fn without_one_there_is_nothing_to_keep_but_that_of_an_earlier_session_to_take_away() {
    let mut floor = Floor::new(None);
    assert!(!floor.is_missing() && floor.is_changed());
    floor.kept(None);
    assert!(!floor.is_changed());
}

#[test]
fn keys_that_a_pass_leaves_out_are_waited_for_as_well() {
    let now = Instant::now();
    let mut floor = kept();
    floor.has_read_due();
    for (holders, spilled) in [(0, 2), (2, 0)] {
        floor.begins_pass(holders, 100);
        floor.has_read_pending(spilled, 100);
        floor.look(|| ids(&[]), true, now);
        assert_eq!(floor.wanted(), Some(7));
    }
    read_pending(&mut floor);
    floor.look(|| ids(&[]), true, now);
    assert_eq!(floor.wanted(), None);
}

#[test]
fn rows_of_transactions_that_ran_when_the_floor_was_kept_are_waited_for_as_well() {
    let now = Instant::now();
    let mut floor = kept();
    floor.has_read_due();
    floor.begins_pass(0, 100);
    floor.has_read_pending(0, 99); // transaction 99 ran, so the pass has not read its rows
    assert!(!floor.look(|| ids(&[]), true, now));
    floor.begins_pass(0, 120);
    floor.has_read_pending(0, 100); // later ones wrote what no earlier session has seen
    assert!(!floor.look(|| ids(&[5]), true, now), "the event that the first pass left out has no verdict yet");
    floor.settled(&Uuid::from_u128(5));
    assert!(floor.look(|| ids(&[]), true, now));
}

#[test]
fn a_snapshot_from_before_the_floor_was_kept_does_not_bound_what_earlier_sessions_have_seen() {
    let now = Instant::now();
    let mut floor = Floor::new(Some(7));
    floor.has_read_due();
    floor.begins_pass(0, 100); // transaction 105 runs: its commit, which was streamed, waits for a standby
    floor.has_read_pending(0, 100);
    assert!(!floor.look(|| ids(&[]), true, now));
    floor.kept(floor.wanted()); // by transaction 110
    floor.begins_pass(0, 111);
    floor.has_read_pending(0, 105);
    assert!(!floor.look(|| ids(&[]), true, now), "105 is not visible");
    floor.begins_pass(0, 111);
    floor.has_read_pending(0, 111);
    assert!(floor.look(|| ids(&[]), true, now));
}

#[test]
fn a_transaction_behind_the_turn_of_the_ids_is_later_than_one_before_it() {
    let mut floor = kept();
    floor.has_read_due();
    floor.begins_pass(0, 3);
    floor.has_read_pending(0, u32::MAX);
    assert!(!floor.look(|| ids(&[]), true, Instant::now()));
    floor.has_read_pending(0, 4);
    assert!(floor.look(|| ids(&[]), true, Instant::now()));
}
