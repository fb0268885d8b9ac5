//! The stream's side of a session: what the server sends of the WAL, how the core reads it, and the position that it
//! acknowledges.

use outbox_core::{Event, Input, Lsn, Marked, Marks, Now, Row, Streamed};
use uuid::Uuid;

use super::Session;
use crate::{
    agenda::What,
    database::{Emitted, Entry, Micros, id_of, streamed},
    world::World,
};

/// Most messages of the stream that are read at a time.
const MESSAGES_AT_A_TIME: usize = 8;

/// A message of the stream.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// A transaction's id, and the position of its commit.
    Begin(u32, u64),
    Described,
    Insert(Inserted),
    TooLarge,
    Replayed,
    /// The position behind the commit, and the number of the entry that follows.
    Commit(u64, usize),
    /// How far the WAL was sent, and whether the server wants a status update.
    Keepalive(u64, bool),
}

/// A row as the stream brings it.
#[derive(Clone, Debug)]
pub(crate) struct Inserted {
    pub(crate) emitted: Emitted,
    pub(crate) until: Option<Micros>,
}

impl Row for Inserted {
    fn id(&self) -> Result<Uuid, String> {
        Ok(id_of(self.emitted.seq))
    }

    fn is_pending(&self) -> bool {
        true
    }

    fn is_deferred(&self) -> bool {
        self.until.is_some()
    }

    fn event(&self) -> Result<Event, String> {
        Ok(streamed(&self.emitted))
    }
}

impl World {
    /// Schedules a read if there is something to read.
    pub(super) fn poke(&mut self, relay: usize) {
        let now = self.clocks();
        let Some(session) = &mut self.relays[relay].session else { return };
        let has_more = !session.messages.is_empty()
            || self.db.wal.get(session.next_entry).is_some_and(|entry| entry.end <= self.db.flushed);
        if has_more && !session.is_reading && session.core.reads_stream(now.instant) {
            session.is_reading = true;
            let id = session.id;
            let way = self.way();
            self.later(way, What::Read(relay, id));
        }
    }

    /// Schedules a read for each relay that has something to read.
    pub(crate) fn poke_all(&mut self) {
        for relay in 0..self.relays.len() {
            self.poke(relay);
        }
    }

    /// Reads the stream as far as the core wants it.
    pub(crate) fn read(&mut self, relay: usize, id: u64) {
        let now = self.clocks();
        let reader = self.db.slot.as_ref().and_then(|slot| slot.reader);
        let Some(session) = self.session(relay, id) else { return };
        session.is_reading = false;
        if reader != Some(id) {
            self.log_relay(relay, || "finds its stream ended".to_owned());
            self.close(relay, false);
            return self.start_later(relay);
        }
        for _ in 0..MESSAGES_AT_A_TIME {
            let Some(session) = &mut self.relays[relay].session else { return };
            if !session.core.reads_stream(now.instant) {
                break;
            }
            if session.messages.is_empty() {
                let Some(entry) = self.db.wal.get(session.next_entry).filter(|entry| entry.end <= self.db.flushed)
                else {
                    break;
                };
                if entry.is_unstreamable {
                    self.log_relay(relay, || "the server cannot send what comes next".to_owned());
                    self.close(relay, false);
                    self.relays[relay].must_pass_over = true;
                    return self.start_later(relay);
                }
                session.send(&entry.clone());
            }
            let Some(message) = session.messages.pop_front() else { continue };
            session.take_in(&message, now);
            let ends_transaction = matches!(message, Message::Commit(..));
            self.log_relay(relay, || match message {
                Message::Insert(insert) => format!("reads Insert({})", insert.emitted.seq),
                message => format!("reads {message:?}"),
            });
            // In a search, the next transaction is another step.
            if self.dice.is_searched && ends_transaction {
                break;
            }
        }
        self.turn(relay);
    }

    /// The server says how far it has sent the WAL, once a second.
    pub(crate) fn keepalive(&mut self, relay: usize, id: u64) {
        let flushed = self.db.flushed;
        let next = self.session(relay, id).map(|session| session.next_entry);
        let Some(next) = next else { return };
        let sent_all = self.db.wal.get(next).is_none_or(|entry| entry.end > flushed);
        let before = next.checked_sub(1).and_then(|last| self.db.wal.get(last)).map_or(0, |entry| entry.end);
        let wal_end = if sent_all { flushed } else { before };
        let reply_requested = !self.dice.is_searched && self.dice.network.u8(..4) == 0;
        if let Some(session) = self.session(relay, id) {
            session.messages.push_back(Message::Keepalive(wal_end, reply_requested));
        }
        self.later(1_000_000, What::Keepalive(relay, id));
        self.poke(relay);
    }

    /// A position that the relay acknowledges reaches the server.
    pub(crate) fn acknowledged(&mut self, session: u64, position: u64) {
        if let Some(slot) = self.db.slot.as_mut().filter(|slot| slot.reader == Some(session)) {
            slot.confirmed = slot.confirmed.max(position);
        }
    }
}

impl Session {
    /// Whether the WAL has anything more that the stream brings.
    pub(crate) fn is_behind(&self, wal: &[Entry]) -> bool {
        wal.iter().skip(self.next_entry).any(Entry::is_streamed)
    }

    /// Marks what the stream brings and this session has not read, or a later one would read again.
    pub(crate) fn mark_wal(&self, wal: &[Entry], confirmed: u64, marks: &mut Marks) {
        for (number, entry) in wal.iter().enumerate().filter(|(_, entry)| entry.is_streamed()) {
            let is_sent = number < self.next_entry;
            if !is_sent || entry.end > confirmed {
                let is_live = self.live_from.is_some_and(|from| from <= number);
                ((is_sent, is_live), (self.read_from <= number, entry)).mark(marks);
            }
        }
    }

    /// The server sends a commit.
    fn send(&mut self, entry: &Entry) {
        self.next_entry += 1;
        let inserts = || entry.inserts.iter().zip(&entry.deferred_until).filter(|(emitted, _)| emitted.is_published);
        if inserts().next().is_some() || entry.has_message {
            self.messages.push_back(Message::Begin(entry.xid as u32, entry.lsn));
            for (emitted, until) in inserts() {
                if self.described.replace(entry.publication) != Some(entry.publication) {
                    self.messages.push_back(Message::Described);
                }
                let insert = Inserted { emitted: emitted.clone(), until: *until };
                self.messages.push_back(if emitted.is_oversized { Message::TooLarge } else { Message::Insert(insert) });
            }
            if entry.has_message {
                self.messages.push_back(Message::Replayed);
            }
            self.messages.push_back(Message::Commit(entry.end, self.next_entry));
        }
    }

    /// The core takes in a message.
    fn take_in(&mut self, message: &Message, now: Now) {
        let streamed = match message {
            Message::Begin(xid, lsn) => Streamed::Begin { xid: *xid, final_lsn: Lsn(*lsn) },
            Message::Described => Streamed::TableDescribed,
            Message::Insert(insert) => Streamed::Insert(insert),
            Message::TooLarge => Streamed::TooLarge { bytes: 1 << 30 },
            Message::Replayed => Streamed::Replayed,
            Message::Commit(end, entries) => {
                self.read_to = *entries;
                Streamed::Commit { end_lsn: Lsn(*end) }
            }
            Message::Keepalive(wal_end, reply_requested) => {
                Streamed::Keepalive { wal_end: Lsn(*wal_end), reply_requested: *reply_requested }
            }
        };
        self.core.on(Input::Stream(streamed), now);
    }
}
