//! What keeps the slot from moving on, and the limits of its WAL, as text for people. Pure.

use std::{
    fmt,
    time::{Duration, Instant},
};

use outbox_core::Figures;

use crate::{
    numbers,
    store::{Blocker, SlotLook, Writer},
    time,
};

/// PostgreSQL records the running transactions every 15 s, and a slot moves on only then.
const MOVES_EVERY_SECONDS: i64 = 15;

/// The limits of the WAL that the slot keeps, as text.
pub(super) fn limits(look: &SlotLook, max: Option<u64>) -> String {
    let own = max.map(|max| format!("max_slot_wal {}", numbers::bytes(max.try_into().unwrap_or(i64::MAX))));
    let server = look.safe.map(|safe| {
        let most = look.kept.saturating_add(safe).max(0);
        format!("max_slot_wal_keep_size, about {}: {} left", numbers::bytes(most), numbers::bytes(safe.max(0)))
    });
    let all: Vec<String> = own.into_iter().chain(server).collect();
    if all.is_empty() { "none but the disk".to_owned() } else { all.join("; ") }
}

/// The oldest writing transaction, and when it was first seen. A role without `pg_read_all_stats` sees the ids of other
/// roles' transactions, but not their age.
#[derive(Clone, Debug, Default)]
pub(super) struct Oldest(Option<(String, Instant)>);

impl Oldest {
    /// Sets the least possible age of the transaction, if the server does not show it.
    pub(super) fn seen(&mut self, writer: Option<&mut Writer>, now: Instant) {
        let Some((writer, xid)) = writer.and_then(|writer| writer.xid.clone().map(|xid| (writer, xid))) else {
            self.0 = None;
            return;
        };
        let since = match &self.0 {
            Some((known, since)) if *known == xid => *since,
            _ => now,
        };
        self.0 = Some((xid, since));
        let seconds = i64::try_from(now.duration_since(since).as_secs()).unwrap_or(i64::MAX);
        writer.who.seconds.get_or_insert(seconds);
    }
}

/// What keeps the slot from moving on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SlotBlocker {
    /// A transaction that has written and has not ended.
    Transaction(Blocker),
    /// A PostgreSQL standby that `synchronized_standby_slots` names.
    Standby,
    /// A session that has locked the table, so that verdicts cannot be written.
    Lock(Blocker),
    /// The broker, which has not answered the messages that this relay has published.
    Broker,
    /// This relay, which reads the WAL more slowly than it is written.
    Relay,
    /// Nothing any more; the slot moves on soon.
    Nobody,
}

impl SlotBlocker {
    /// Judges by the last look at the slot and by the session's figures.
    pub(super) fn of(look: &SlotLook, figures: &Figures) -> Self {
        let is_making = look.unconfirmed.is_none();
        let keeps_view = |writer: &&Writer| is_making || writer.xid.is_some() && writer.xid == look.xmin;
        let is_old = |writer: &&Writer| writer.who.seconds.is_some_and(|seconds| seconds >= MOVES_EVERY_SECONDS);
        let writer = look.writer.as_ref();
        let is_behind = look.unconfirmed.is_some_and(|unconfirmed| unconfirmed > look.kept / 2);
        let unsettled = figures.read_to.0.saturating_sub(figures.acknowledged.0);
        let is_unsettled = i64::try_from(unsettled).unwrap_or(i64::MAX) > look.kept / 4;
        if look.awaits_standby {
            return Self::Standby;
        }
        if let Some(writer) = writer.filter(keeps_view) {
            return Self::Transaction(writer.who.clone());
        }
        match &look.locker {
            Some(locker) if figures.unwritten > 0 => return Self::Lock(locker.clone()),
            _ if is_behind && is_unsettled => return Self::Broker,
            _ if is_behind => return Self::Relay,
            _ => {}
        }
        writer.filter(is_old).map_or(Self::Nobody, |writer| Self::Transaction(writer.who.clone()))
    }
}

impl fmt::Display for SlotBlocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transaction(who) => {
                let kind = match (who.pid, who.state.as_deref()) {
                    (None, _) => "a prepared transaction",
                    (_, Some("idle in transaction" | "idle in transaction (aborted)")) => "an idle transaction",
                    (_, Some(_)) => "a running transaction",
                    (_, None) => "a transaction",
                };
                write!(f, "{kind} of {who}")?;
                // The age of a hidden session is counted from the first look, so it was open for longer.
                let open_for = if who.state.is_some() { "open for" } else { "open for more than" };
                who.seconds.map_or(Ok(()), |seconds| {
                    let lasted = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
                    write!(f, ", {open_for} {}", time::age(lasted))
                })
            }
            Self::Standby => f.write_str("a standby that synchronized_standby_slots names, and that does not follow"),
            Self::Lock(who) => write!(f, "{who}, who has locked outbox.events"),
            Self::Broker => f.write_str("this relay, which waits for the broker's answers"),
            Self::Relay => f.write_str("this relay, which reads the WAL more slowly than it is written"),
            Self::Nobody => f.write_str("nobody any more: PostgreSQL moves it on within 15 s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use outbox_core::Lsn;

    use super::*;

    const MB: i64 = 1 << 20;

    fn look(kept: i64, safe: Option<i64>) -> SlotLook {
        SlotLook { wal_status: "extended".to_owned(), kept, safe, unconfirmed: Some(0), ..SlotLook::default() }
    }

    #[test]
    fn the_limits_are_shown_with_what_is_left_of_them() {
        assert_eq!(
            limits(&look(90 * MB, Some(10 * MB)), Some(50 << 20)),
            "max_slot_wal 50 MB; max_slot_wal_keep_size, about 100 MB: 10 MB left"
        );
    }

    #[test]
    fn a_transaction_whose_age_may_not_be_seen_is_as_old_as_it_is_known() {
        let unseen =
            |xid: &str| Writer { who: Blocker { pid: Some(7), ..Blocker::default() }, xid: Some(xid.to_owned()) };
        let (mut oldest, start) = (Oldest::default(), Instant::now());
        let mut blocker_at = |xid: &str, second: u64| {
            let mut writer = unseen(xid);
            oldest.seen(Some(&mut writer), start + Duration::from_secs(second));
            let look = SlotLook { writer: Some(writer), xmin: Some("600".to_owned()), ..look(100, None) };
            SlotBlocker::of(&look, &Figures::default()).to_string()
        };
        let nobody = SlotBlocker::Nobody.to_string();
        assert_eq!((blocker_at("700", 0), blocker_at("700", 10)), (nobody.clone(), nobody.clone()));
        assert_eq!(blocker_at("700", 15), "a transaction of process 7 of role \"\", open for more than 15s");
        assert_eq!(blocker_at("701", 20), nobody, "it is another one");
    }

    #[test]
    fn whoever_the_slot_waits_for_is_named_and_nobody_else() {
        let who = Blocker {
            pid: Some(7),
            user: "app".to_owned(),
            state: Some("idle in transaction".to_owned()),
            seconds: Some(3),
            ..Blocker::default()
        };
        let writer = |xid: &str| Some(Writer { who: who.clone(), xid: Some(xid.to_owned()) });
        let idle = Figures::default();
        let blocked = SlotLook { writer: writer("700"), xmin: Some("700".to_owned()), ..look(100, None) };
        assert_eq!(
            SlotBlocker::of(&blocked, &idle).to_string(),
            "an idle transaction of process 7 of role \"app\", open for 3.0s"
        );
        let passing = SlotLook { writer: writer("900"), ..blocked.clone() };
        assert_eq!(SlotBlocker::of(&passing, &idle), SlotBlocker::Nobody);
        let behind = SlotLook { unconfirmed: Some(90), ..passing.clone() };
        assert_eq!(SlotBlocker::of(&behind, &idle), SlotBlocker::Relay);
        let unanswered = Figures { read_to: Lsn(90), acknowledged: Lsn(0), ..idle };
        assert_eq!(SlotBlocker::of(&behind, &unanswered), SlotBlocker::Broker);
        let locked = SlotLook { locker: Some(who.clone()), ..behind };
        assert_eq!(SlotBlocker::of(&locked, &Figures { unwritten: 1, ..unanswered }), SlotBlocker::Lock(who.clone()));
        assert_eq!(SlotBlocker::of(&SlotLook { awaits_standby: true, ..blocked }, &idle), SlotBlocker::Standby);
        let making = SlotLook { unconfirmed: None, ..passing };
        assert_eq!(SlotBlocker::of(&making, &idle), SlotBlocker::Transaction(who));
    }
}
