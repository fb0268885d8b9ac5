//! Logs the core's reports; repeated ones less and less often. Bodies of events are never logged.

use std::time::{Duration, Instant};

use outbox_core::{Conditions, Destination, Event, Lsn, Reason, Report, Status};
use tracing::{debug, info, warn};

use super::unsent::{About, Sum, Unsent};
use crate::{repeats::Repeats, sink::BrokerKind, store::sequence, time::age};

/// After this time without trouble with the table, the next trouble is logged at once again.
const CALM: Duration = Duration::from_secs(60);

pub(super) struct Log {
    publication: String,
    broker: &'static BrokerKind,
    unsent: Unsent,
    away: Repeats,
    /// The mode that was logged last; `None`: the next mode is logged in any case.
    mode: Option<Mode>,
    /// Whether the broker's absence was logged since events were last streamed.
    is_away_logged: bool,
    /// Whether the last log line about nacks says that the broker takes no message.
    is_unavailable_logged: bool,
    trouble: Repeats,
    trouble_at: Option<Instant>,
    refused: Repeats,
    sequence: Repeats,
}

/// The source of the events that are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The table, which has a backlog.
    WorkingOff,
    /// The stream.
    Streaming,
}

impl Log {
    pub(super) fn new(publication: String, broker: &'static BrokerKind) -> Self {
        Self {
            publication,
            broker,
            unsent: Unsent::default(),
            away: Repeats::default(),
            mode: None,
            is_away_logged: false,
            is_unavailable_logged: false,
            trouble: Repeats::default(),
            trouble_at: None,
            refused: Repeats::default(),
            sequence: Repeats::default(),
        }
    }

    pub(super) fn report(&mut self, report: Report, now: Instant) {
        match report {
            Report::Answered { event, status, error } => self.answered(&event, status, error, now),
            Report::BrokerBack { host, away } => {
                self.away = Repeats::default();
                info!(target: "relay", host, away = age(away), "connected to the broker");
            }
            Report::BrokerBlocked(reason) => warn!(target: "relay", reason, "the broker has blocked publishing"),
            Report::BrokerUnblocked => info!(target: "relay", "the broker takes messages again"),
            Report::BrokerAway { error, lasted, in_flight } => {
                let (is_news, tries) = self.away.count(&error);
                if is_news {
                    warn!(target: "relay", error, tries, for = age(lasted), in_flight, "no connection to the broker; trying again");
                } else {
                    debug!(target: "relay", error, tries, for = age(lasted), "no connection to the broker; trying again");
                }
            }
            Report::EndedAlone { event, error, times, retry_in } => {
                let key = event.aggregate_id.as_ref().map(|text| text.as_str());
                warn!(target: "relay", event = %event.id, key, topic = event.destination.topic.as_str(), error, times, again_in = age(retry_in),
                      "the connection ended while only this event was on its way: it waits, and leaves alone again; no attempt is counted");
            }
            Report::Silent { event, events, destinations } => {
                let Destination { exchange, topic } = &event.destination;
                let exchange = exchange.as_ref().map(|text| text.as_str());
                warn!(target: "relay", exchange, topic = topic.as_str(), event = %event.id, events, destinations,
                      hint = self.broker.silent_hint,
                      "the broker leaves messages unanswered, and others wait behind them: connecting anew; events for these destinations leave \
                       one at a time, and no attempt is counted");
            }
            Report::Parked(reason) => self.parked(reason),
            Report::Streaming { horizon, acknowledged, in_memory } => {
                if self.mode.replace(Mode::Streaming) != Some(Mode::Streaming) {
                    info!(target: "relay", state = %"streaming", %horizon, %acknowledged, in_memory, "streaming");
                }
            }
            Report::ColumnsMissing(error) => {
                warn!(target: "relay", publication = self.publication, error, "the publication leaves something out: events are read from the table");
            }
            Report::PublicationRepaired(outcome) => {
                warn!(target: "relay", publication = self.publication, outcome, "the publication was missing, or had lost the table; it is repaired");
            }
            Report::RepairRefused(error) => {
                let (is_news, times) = self.refused.count(&error);
                if is_news {
                    warn!(target: "relay", publication = self.publication, error, times, "the repair of the publication was refused again: the table is read every second");
                }
            }
            Report::SequenceMended(done) => {
                self.sequence = Repeats::default();
                sequence::mended(&done);
            }
            Report::SequenceRefused(error) => {
                let (is_news, times) = self.sequence.count(&error);
                if is_news {
                    sequence::refused(&error, times);
                }
            }
            Report::Scanned { after_seq, found, complete, acknowledged } => {
                debug!(target: "relay", after_seq, found, complete, "read the table");
                if !complete {
                    self.working_off(acknowledged);
                }
            }
            Report::TableTrouble { error, verdicts } => {
                if self.trouble_at.replace(now).is_none_or(|before| now.duration_since(before) > CALM) {
                    self.trouble = Repeats::default();
                }
                let (is_news, times) = self.trouble.count(&error);
                if is_news {
                    match verdicts {
                        Some(events) => {
                            warn!(target: "relay", error, events, times, "verdicts not written; trying again");
                        }
                        None => warn!(target: "relay", error, times, "the table was not read; trying again"),
                    }
                }
            }
            Report::NotKept(error) => {
                let (is_news, times) = self.refused.count(&error);
                if is_news {
                    warn!(target: "relay", error, times, "events whose verdicts are late were not kept; trying again: if the relay is killed, they may be published twice");
                }
            }
            Report::Isolating { error, verdicts } => {
                debug!(target: "relay", error, events = verdicts, "verdicts not written; looking for the row");
            }
            Report::VerdictRefused { id, error } => {
                let (is_news, times) = self.refused.count(&error);
                if is_news {
                    warn!(target: "relay", event = %id, error, times, "the server refuses this row's verdict, as by a trigger: it is put aside, and tried again now and then");
                } else {
                    debug!(target: "relay", event = %id, error, times, "the server refuses this row's verdict");
                }
            }
            Report::RowGone(id) => {
                warn!(target: "relay", event = %id, "the row was deleted, or its event finished by someone else, before its verdict could be written");
            }
            Report::Draining { in_flight } => {
                info!(target: "relay", state = %"draining", in_flight, "stopping: finishing what is in flight");
            }
            Report::SlotOverLimit { .. } | Report::OtherSlotKeepsMore { .. } => {} // SlotLog logs these
        }
    }

    /// When the sums of undelivered events are due to be logged.
    pub(super) fn sums_at(&self) -> Option<Instant> {
        self.unsent.due()
    }

    /// Logs the sums of undelivered events, if they are due.
    pub(super) fn log_due_sums(&mut self, now: Instant) {
        if self.unsent.due().is_some_and(|at| at <= now) {
            self.log_sums();
        }
    }

    /// Logs the beginning and the end of lasting conditions.
    pub(super) fn conditions(&mut self, conditions: Conditions, now: Instant) {
        let Conditions { is_live, away_since, unavailable_since, unavailable_destinations } = conditions;
        if is_live {
            self.is_away_logged = false;
        } else if away_since.is_some() && !self.is_away_logged {
            // A session that begins without a broker is parked from its beginning, and the core reports nothing.
            self.parked(Reason::BrokerAway);
        }
        let was_unavailable = std::mem::replace(&mut self.is_unavailable_logged, unavailable_since.is_some());
        match unavailable_since {
            Some(since) if !was_unavailable => {
                warn!(target: "relay", state = %"unavailable", for = age(now.duration_since(since)), destinations = unavailable_destinations,
                      reason = self.broker.unavailable_by, hint = self.broker.unavailable_hint,
                      "the broker takes no message: events wait, no attempt is counted, a few are tried now and then");
            }
            None if was_unavailable => {
                let state = if is_live { "streaming" } else { "parked" };
                info!(target: "relay", %state, "the broker takes messages again");
            }
            _ => {}
        }
    }

    fn working_off(&mut self, acknowledged: Lsn) {
        if self.mode.replace(Mode::WorkingOff) != Some(Mode::WorkingOff) {
            info!(target: "relay", state = %"parked", %acknowledged, "working off a backlog from the table");
        }
    }

    fn parked(&mut self, reason: Reason) {
        match reason {
            Reason::BrokerAway | Reason::MemoryFull { .. } | Reason::RateReached | Reason::RowTooLarge { .. } => {
                self.mode = None;
            }
            Reason::PublicationChanged | Reason::TooManyKeys | Reason::ColumnsMissing => {} // over within a moment
        }
        match reason {
            Reason::BrokerAway => {
                self.is_away_logged = true;
                warn!(target: "relay", state = %"parked", "the broker is away: events wait in the table, the slot moves on");
            }
            Reason::MemoryFull { events } => {
                warn!(target: "relay", state = %"parked", events, "memory is full of events that cannot leave: later ones wait in the table");
            }
            Reason::RateReached => {
                info!(target: "relay", state = %"parked", "more is emitted than max_rate lets leave: later events wait in the table");
            }
            Reason::RowTooLarge { bytes } => {
                warn!(target: "relay", state = %"parked", bytes, "a row of the stream is too large to be held in memory: it is left to the table");
            }
            Reason::PublicationChanged => {
                info!(target: "relay", publication = self.publication, "the publication has changed: reading what may not have been streamed");
            }
            Reason::TooManyKeys | Reason::ColumnsMissing => {}
        }
    }

    fn answered(&mut self, event: &Event, status: Status, error: Option<String>, now: Instant) {
        let key = event.aggregate_id.as_ref().map(|text| text.as_str());
        let correlation_id = event.correlation_id.as_ref().map(|text| text.as_str());
        let topic = event.destination.topic.as_str();
        let is_sent = status == Status::Sent;
        let status = status.as_str();
        match error {
            Some(error) => {
                let about = About { topic: topic.to_owned(), status, error: error.clone() };
                if self.unsent.note(about, now) {
                    warn!(target: "relay", event = %event.id, key, correlation_id, topic, status, error, "not delivered");
                } else {
                    debug!(target: "relay", event = %event.id, key, correlation_id, topic, status, error, "not delivered");
                }
            }
            None if is_sent => debug!(target: "relay", event = %event.id, key, correlation_id, topic, "sent"),
            None => {
                debug!(target: "relay", event = %event.id, key, correlation_id, topic, status, "the destination takes nothing: no attempt is counted");
            }
        }
    }

    fn log_sums(&mut self) {
        for Sum { about, count } in self.unsent.take() {
            match about {
                Some(About { topic, status, error }) => {
                    warn!(target: "relay", topic, status, error, count, "not delivered: further events for the same reason");
                }
                None => warn!(target: "relay", count, "not delivered: further events of other topics"),
            }
        }
    }
}

/// Logs the last sums, however the session ends.
impl Drop for Log {
    fn drop(&mut self) {
        self.log_sums();
    }
}
