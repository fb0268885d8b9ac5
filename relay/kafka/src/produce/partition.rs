//! One partition: which records leave next, with which numbers, and what an answer means for them. Pure: time is an
//! argument.
//!
//! The broker numbers the records of a producer in each partition, and takes a batch only behind the one before. So a
//! batch that it does not take keeps back all that are in flight behind it ([`Meaning::Gap`]), and their numbers are
//! used again. A batch that was sent twice is taken once.
//!
//! ```text
//! waiting ──▶ Sent ──Taken──▶ confirmed
//!    ▲         │ └──Unknown──▶ Again: the same bytes, alone
//!    └─────────┴─────Gap, or not to blame for a refusal
//! ```

mod refusal;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use bytes::Bytes;

use self::refusal::Refused;
use super::confirms::{Confirms, Record};
use crate::{
    record::{
        batch::{BatchWriter, ProducerId, Unwritable},
        compression::Compression,
        message::Outgoing,
    },
    wire::{
        codes::{self, Meaning},
        requests::BatchAnswer,
    },
};

/// Most batches in flight: the broker remembers so many of a producer in each partition, and answers about older ones
/// as for a gap.
const MOST_FLIGHTS: usize = 5;
/// Most bytes of a batch with several records, before it is compressed: the default of `max.message.bytes`, which is
/// about compressed bytes, is 1,048,588.
const MOST_BYTES: usize = 1_000_000;
/// A broker that does not know the producer takes a batch with any number. So the first batch leaves alone, and so does
/// one after this time without any, in which the broker may have forgotten the producer.
const REMEMBERED: Duration = Duration::from_secs(600);
/// The pause before a batch is sent again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The producer has to begin anew, with another id or epoch: what is in flight may have been written or not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LostIdentity(pub(crate) String);

#[derive(Debug)]
struct Flight<M> {
    records: Vec<Record<M>>,
    bytes: Bytes,
    /// Bytes of the batch before it was compressed.
    size: usize,
    /// The number of the first record.
    base: i32,
    state: State,
    /// Whether a broker may have written it without the producer knowing.
    is_doubtful: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Sent,
    /// It leaves again as it is.
    Again,
    NotWritten(Refused),
}

#[derive(Debug)]
pub(crate) struct Partition<M> {
    /// The number of the next record.
    next: i32,
    /// When the broker last took a batch; `None`: it has taken none of this identity.
    taken_at: Option<Instant>,
    /// Batches without a final answer, in their order.
    flights: VecDeque<Flight<M>>,
    waiting: VecDeque<Record<M>>,
    /// Most bytes of a batch with several records, before it is compressed.
    most_bytes: usize,
    /// How many of the first waiting records leave one by one, because one of them is invalid.
    singly: usize,
    /// Until when nothing is sent.
    pause_until: Option<Instant>,
    pauses: u32,
}

impl<M: Outgoing> Partition<M> {
    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            taken_at: None,
            flights: VecDeque::new(),
            waiting: VecDeque::new(),
            most_bytes: MOST_BYTES,
            singly: 0,
            pause_until: None,
            pauses: 0,
        }
    }

    /// Takes a record, to be sent behind all earlier ones.
    pub(crate) fn push(&mut self, record: Record<M>) {
        self.waiting.push_back(record);
    }

    /// Whether nothing waits and nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.flights.is_empty() && self.waiting.is_empty()
    }

    /// When something may be sent that pauses now.
    pub(crate) fn pause_until(&self) -> Option<Instant> {
        self.pause_until.filter(|_| !self.is_idle())
    }

    /// Takes the next batch to be sent, with the number of its first record; `None`: nothing may leave now. `now_ms`:
    /// the records' time.
    pub(crate) fn next_batch(
        &mut self,
        producer: ProducerId,
        compression: Compression,
        now: Instant,
        now_ms: i64,
        out: &mut Confirms,
    ) -> Option<(i32, Bytes)> {
        if self.pause_until.is_some_and(|until| now < until) {
            return None;
        }
        self.pause_until = None;
        if self.flights.iter().any(|flight| flight.state != State::Sent) {
            let is_on_its_way = self.flights.iter().any(|flight| flight.state == State::Sent);
            let first = self.flights.front_mut().filter(|first| first.state == State::Again && !is_on_its_way)?;
            first.state = State::Sent;
            return Some((first.base, first.bytes.clone()));
        }
        let is_known = self.taken_at.is_some_and(|at| now.duration_since(at) < REMEMBERED);
        let most = if is_known { MOST_FLIGHTS } else { 1 };
        if self.flights.len() >= most {
            return None;
        }
        let flight = self.batch(producer, compression, now_ms, out)?;
        let leaving = (flight.base, flight.bytes.clone());
        self.flights.push_back(flight);
        Some(leaving)
    }

    /// Makes a batch of waiting records; `None`: none waits.
    fn batch(
        &mut self,
        producer: ProducerId,
        compression: Compression,
        now_ms: i64,
        out: &mut Confirms,
    ) -> Option<Flight<M>> {
        let mut writer = BatchWriter::new(now_ms);
        let mut records = Vec::new();
        while let Some(record) = self.waiting.front() {
            if !records.is_empty() && (self.singly > 0 || record.begins_batch) {
                break;
            }
            match writer.push(&record.message, self.most_bytes) {
                Ok(()) => records.extend(self.waiting.pop_front()),
                Err(Unwritable::Record(why)) if records.is_empty() && self.flights.is_empty() => {
                    self.refuse_first(why, out);
                }
                Err(Unwritable::Full | Unwritable::Record(_)) => break, // what is earlier is confirmed before it
            }
        }
        if records.is_empty() {
            return None;
        }
        self.singly = self.singly.saturating_sub(records.len());
        let base = self.next;
        self.next = advance(base, records.len());
        let size = writer.size();
        let bytes = writer.finish(producer, base, compression);
        Some(Flight { records, bytes, size, base, state: State::Sent, is_doubtful: false })
    }

    /// The broker has answered about the batch whose first record has this number.
    pub(crate) fn answered(
        &mut self,
        base: i32,
        answer: BatchAnswer,
        now: Instant,
        out: &mut Confirms,
    ) -> Result<(), LostIdentity> {
        let is_it = |flight: &Flight<M>| flight.base == base && flight.state == State::Sent;
        let Some(place) = self.flights.iter().position(is_it) else { return Ok(()) };
        let is_first = place == 0;
        let first_is_refused = matches!(self.flights.front(), Some(Flight { state: State::NotWritten(_), .. }));
        let Some(flight) = self.flights.get_mut(place) else { return Ok(()) };
        match Meaning::of(answer.code) {
            Meaning::Taken if !is_first && first_is_refused => {
                return Err(LostIdentity("the broker took a batch behind one that it had not taken".to_owned()));
            }
            Meaning::Taken => {
                self.taken_at = Some(now);
                self.pauses = 0;
                // The broker takes a batch only behind the one before, so it has the earlier ones as well.
                for flight in self.flights.drain(..=place) {
                    out.taken(&flight.records);
                }
            }
            Meaning::Gap if is_first => {
                return Err(LostIdentity(codes::name(answer.code)));
            }
            Meaning::Replaced => return Err(LostIdentity(codes::name(answer.code))),
            Meaning::Gap => flight.state = State::NotWritten(Refused::Gap),
            Meaning::NoTopic if !flight.is_doubtful => {
                flight.state = State::NotWritten(Refused::Gap);
                self.pause(now);
            }
            // The broker looks at a batch's contents before it looks whether it has the batch, so it refused it before.
            Meaning::TooLarge | Meaning::Invalid => flight.state = State::NotWritten(Refused::by(answer)),
            Meaning::Refused | Meaning::Unavailable if !flight.is_doubtful => {
                flight.state = State::NotWritten(Refused::by(answer));
            }
            // What was unknown before stays so, whatever the broker says of the repetition.
            _ => {
                flight.state = State::Again;
                flight.is_doubtful = true;
                self.pause(now);
            }
        }
        self.resolve(out);
        Ok(())
    }

    /// The connection over which this was sent has ended.
    pub(crate) fn interrupted(&mut self, out: &mut Confirms) {
        for flight in self.flights.iter_mut().filter(|flight| flight.state == State::Sent) {
            flight.state = State::Again;
            flight.is_doubtful = true;
        }
        self.resolve(out);
    }

    /// Takes all records, if none of them can have been written; else none.
    pub(crate) fn take_unwritten(&mut self) -> Vec<Record<M>> {
        let may_be_written = |flight: &Flight<M>| flight.state == State::Sent || flight.is_doubtful;
        if self.flights.iter().any(may_be_written) {
            return Vec::new();
        }
        self.next = self.flights.front().map_or(self.next, |first| first.base);
        let records = self.flights.drain(..).flat_map(|flight| flight.records);
        records.chain(self.waiting.drain(..)).collect()
    }

    /// Whether a batch may have been written without the producer knowing.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.flights.iter().any(|flight| flight.is_doubtful)
    }

    fn pause(&mut self, now: Instant) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.pauses.min(10)).min(LONGEST_PAUSE);
        self.pauses = self.pauses.saturating_add(1);
        self.pause_until = Some(now + pause);
    }
}

/// Returns the number of the record that follows so many from `base` on. Numbers begin again behind the largest.
fn advance(base: i32, records: usize) -> i32 {
    let next = (i64::from(base) + records as i64) & i64::from(i32::MAX);
    i32::try_from(next).unwrap_or(0)
}
