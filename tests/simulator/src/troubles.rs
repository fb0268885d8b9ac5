//! What goes wrong, and how it ends. What operators do with events is in `operators`.

use outbox_core::Status;

use crate::{
    agenda::What,
    broker::Queue,
    checker::Promise,
    database::Micros,
    knobs::Trouble,
    world::{World, micros},
};

/// The end of a trouble.
#[derive(Clone, Debug)]
pub(crate) enum Undo {
    BrokerUp,
    Unblock,
    Speak,
    StopClosing,
    Queue(usize),
    DatabaseUp,
    Publish,
    LetSlotMove,
    OtherSlotGone,
}

impl World {
    /// Draws one of the run's troubles, and schedules the next.
    pub(crate) fn trouble(&mut self) {
        if self.is_healed {
            return;
        }
        let pause = self.pause();
        self.later(pause, What::Trouble);
        let troubles: Vec<Trouble> = self.knobs.troubles.iter().copied().collect();
        let Some(trouble) = self.dice.troubles.choice(troubles) else { return };
        let relay = self.dice.troubles.usize(..self.relays.len());
        let session = self.relays[relay].session.as_ref().map(|session| session.id);
        let queue = self.dice.troubles.usize(..3);
        let short = self.dice.troubles.u64(100_000..1_500_000);
        let lasts = if self.dice.troubles.u8(..8) == 0 { 20_000_000 } else { 8_000_000 };
        let long = self.dice.troubles.u64(100_000..lasts);
        let now = self.now;
        match trouble {
            Trouble::KillRelay if session.is_some() => self.kill(relay),
            Trouble::FreezeRelay => self.freeze(relay, long + short),
            Trouble::DrainRelay => {
                if let Some(session) = session {
                    self.later(0, What::Drain(relay, session));
                }
            }
            Trouble::BrokerDown if self.broker.is_up => {
                self.broker.is_up = false;
                let is_stopped = self.dice.troubles.bool();
                self.cut_all("the broker is down", !is_stopped);
                self.later(long, What::Undo(Undo::BrokerUp));
            }
            Trouble::ConnectionCut => {
                let open: Vec<u64> = self.broker.connections.keys().copied().collect();
                if let Some(connection) = self.dice.troubles.choice(open) {
                    self.cut(connection, "the line is cut", true);
                }
            }
            Trouble::IdentityLost if self.broker.log.is_some() => {
                let own = self.relays[relay].session.as_ref().and_then(|session| session.connection);
                if let Some(connection) = own {
                    self.forget_publisher(connection, "the broker has forgotten the publisher");
                }
            }
            Trouble::Blocked => self.block(long),
            Trouble::Silent => {
                self.log("broker", || "answers nothing".to_owned());
                self.broker.is_silent = true;
                self.later(long, What::Undo(Undo::Speak));
            }
            Trouble::ClosesOnPublish => {
                self.log("broker", || "closes connections at the first message".to_owned());
                self.broker.closes_on_publish = true;
                self.later(long, What::Undo(Undo::StopClosing));
            }
            Trouble::QueueFull | Trouble::QueueMissing => {
                let is_full = trouble == Trouble::QueueFull;
                self.log("broker", || format!("queue {queue} is {}", if is_full { "full" } else { "gone" }));
                self.broker.queues[queue] = if is_full { Queue::Full } else { Queue::Missing };
                self.later(long, What::Undo(Undo::Queue(queue)));
            }
            Trouble::QueueMute => {
                self.log("broker", || format!("queue {queue} answers nothing"));
                self.broker.queues[queue] = Queue::Mute;
                self.later(3 * long, What::Undo(Undo::Queue(queue)));
            }
            Trouble::Crash if self.db.is_up => self.crash(0, short),
            Trouble::Failover if self.db.is_up => {
                let drop = self.dice.troubles.usize(..4);
                self.crash(drop, short);
                self.db.slot = None;
            }
            Trouble::SlotLost => {
                self.log("operator", || "drops the slot".to_owned());
                self.db.slot = None;
                self.end_sessions();
            }
            Trouble::BackendLost if session.is_some() => {
                self.close(relay, false);
                self.later(short, What::Start(relay));
            }
            Trouble::StatementsFail => self.db.statements_fail_until = now + short,
            // The cause may be an idle transaction in a console, or a trigger that was forgotten.
            Trouble::RowLocked => self.lock_one(3 * long),
            Trouble::TriggerRefuses => {
                if let Some(seq) = self.pick_row(|row| row.status == Status::Pending) {
                    self.log("database", || format!("a trigger refuses {seq}"));
                    self.db.rows.entry(seq).and_modify(|row| row.refused_until = now + 3 * long);
                }
            }
            Trouble::Unpublished if self.db.is_published => {
                self.log("operator", || "takes the table out of the publication".to_owned());
                self.db.publish(false);
                let long = if self.dice.troubles.bool() { long } else { short / 4 };
                self.later(long, What::Undo(Undo::Publish));
            }
            Trouble::RepairRefused => {
                self.log("database", || "refuses DDL".to_owned());
                self.db.repairs_refused_until = now + 2 * long;
            }
            Trouble::SlotPinned => {
                self.log("database", || "an old transaction pins the slot, and someone writes much".to_owned());
                self.db.write_elsewhere(60_000);
                if let Some(slot) = &mut self.db.slot {
                    slot.kept_from.get_or_insert(slot.confirmed);
                }
                self.later(6 * long, What::Undo(Undo::LetSlotMove));
            }
            Trouble::OtherSlot => {
                self.log("operator", || "another slot keeps all of the WAL".to_owned());
                self.db.kept_by_other = u64::MAX;
                self.later(6 * long, What::Undo(Undo::OtherSlotGone));
            }
            Trouble::Replay => self.replay(true),
            Trouble::UnheardReplay => self.replay(false),
            Trouble::Release => self.release_one(),
            Trouble::Delete => self.delete(),
            Trouble::PlainUpdate => self.finish_by_hand(),
            _ => {}
        }
    }

    /// Draws the time until the next trouble.
    pub(crate) fn pause(&mut self) -> Micros {
        self.dice.troubles.u64(1..=2 * micros(self.knobs.pause))
    }

    pub(crate) fn undo(&mut self, undo: Undo) {
        self.log("world", || format!("{undo:?}"));
        match undo {
            Undo::BrokerUp => self.broker.is_up = true,
            Undo::Unblock => self.unblock(),
            Undo::Speak => {
                self.broker.is_silent = false;
                for connection in self.broker.connections.keys().copied().collect::<Vec<_>>() {
                    self.schedule_answers(connection);
                }
            }
            Undo::StopClosing => self.broker.closes_on_publish = false,
            Undo::Queue(queue) => {
                self.broker.queues[queue] = Queue::Takes;
                self.unmute(queue);
            }
            Undo::DatabaseUp => self.db.is_up = true,
            Undo::LetSlotMove => {
                if let Some(slot) = &mut self.db.slot {
                    slot.kept_from = None;
                }
            }
            Undo::OtherSlotGone => self.db.kept_by_other = 0,
            Undo::Publish => {
                let was_published = self.db.is_published;
                self.db.publish(true);
                // Someone who repairs the publication may also restart the relay.
                if !was_published && self.dice.troubles.bool() {
                    (0..self.relays.len()).for_each(|relay| self.restart(relay));
                }
            }
        }
    }

    /// All troubles end.
    pub(crate) fn heal(&mut self) {
        for undo in [
            Undo::BrokerUp,
            Undo::Unblock,
            Undo::Speak,
            Undo::StopClosing,
            Undo::DatabaseUp,
            Undo::Publish,
            Undo::LetSlotMove,
            Undo::OtherSlotGone,
        ] {
            self.undo(undo);
        }
        (0..3).for_each(|queue| self.undo(Undo::Queue(queue)));
        self.db.statements_fail_until = 0;
        self.db.repairs_refused_until = 0;
        let now = self.now;
        for row in self.db.rows.values_mut() {
            row.refused_until = 0;
            if row.locked_until != Micros::MAX {
                row.locked_until = row.locked_until.min(now);
            }
        }
    }

    fn block(&mut self, lasts: Micros) {
        self.log("broker", || "blocks publishing".to_owned());
        self.set_blocked(true);
        self.later(lasts, What::Undo(Undo::Unblock));
    }

    fn unblock(&mut self) {
        self.set_blocked(false);
        for connection in self.broker.connections.keys().copied().collect::<Vec<_>>() {
            self.schedule_answers(connection);
            self.schedule_step(connection);
        }
    }

    fn set_blocked(&mut self, is_blocked: bool) {
        for relay in 0..self.relays.len() {
            let Some(session) = &self.relays[relay].session else { continue };
            let Some(connection) = session.connection else { continue };
            let Some(open) = self.broker.connections.get_mut(&connection) else { continue };
            if std::mem::replace(&mut open.is_blocked, is_blocked) != is_blocked {
                let what = What::Blocked(relay, session.id, connection, is_blocked);
                self.later(0, what);
            }
        }
    }

    fn cut_all(&mut self, why: &'static str, may_be_a_message: bool) {
        for connection in self.broker.connections.keys().copied().collect::<Vec<_>>() {
            self.cut(connection, why, may_be_a_message);
        }
    }

    fn crash(&mut self, drop: usize, lasts: Micros) {
        let (gone, shown) = self.db.crash(drop);
        shown.iter().for_each(|transaction| self.replayed(transaction));
        self.log("database", || format!("crashes, and loses {gone:?}"));
        self.db.is_up = false;
        for (seq, was_on_disk) in gone {
            let fact = self.checker.fact(seq);
            fact.was_dropped |= was_on_disk;
            fact.was_lost |= !was_on_disk;
            if !was_on_disk && self.broker.has_accepted(seq) {
                self.checker.fail(
                    Promise::NoPhantom,
                    Some(seq),
                    "it was delivered before its commit was on disk, and is gone",
                );
            }
        }
        self.operations.clear();
        self.end_sessions();
        self.later(lasts, What::Undo(Undo::DatabaseUp));
    }

    fn restart(&mut self, relay: usize) {
        if self.relays[relay].session.is_some() {
            self.close(relay, true);
            let after = self.dice.relays.u64(..20_000);
            self.later(after, What::Start(relay));
        }
    }

    fn end_sessions(&mut self) {
        for relay in 0..self.relays.len() {
            if self.relays[relay].session.is_some() {
                self.close(relay, false);
                let after = self.dice.relays.u64(100_000..400_000);
                self.later(after, What::Start(relay));
            }
        }
    }
}
