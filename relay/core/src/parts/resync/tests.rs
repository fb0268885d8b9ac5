use super::*;

fn snapshot(text: &str) -> Snapshot {
    text.parse().unwrap()
}

fn page(seen: &str, stopped_at: Option<i64>) -> Page {
    Page {
        snapshot: snapshot(seen),
        horizon: Lsn(1000),
        events: Vec::new(),
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
        resync.scanned(ScanFrom::LOWEST, &page("10:11:10", None), now);
    }
    assert!(!resync.pauses_stream(), "one that stays invisible must not pause the stream for long");
    leave(&mut resync, 11);
    resync.seen(&snapshot("11:12:11"));
    resync.scanned(ScanFrom::LOWEST, &page("11:12:11", None), now);
    assert!(resync.pauses_stream());
}

#[test]
fn while_memory_does_not_know_every_key_that_is_held_no_page_begins_behind_another() {
    let now = Instant::now();
    let mut resync = Resync::new(Stream::Started, now);
    resync.scanned(ScanFrom::LOWEST, &page("10:10:", Some(5)), now);
    assert_eq!(resync.wants_scan(now).map(|from| from.after_seq), Some(5));
    let cut = Page { holders_cut: true, ..page("10:10:", Some(5)) };
    resync.scanned(ScanFrom::LOWEST, &cut, now);
    assert_eq!(resync.wants_scan(now), Some(ScanFrom::LOWEST));
}
