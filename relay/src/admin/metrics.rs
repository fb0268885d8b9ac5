//! What `/metrics` shows: one list, from which the answer and docs/metrics.md are made.

use std::{fmt, sync::Arc, time::Instant};

use outbox_core::{BOUNDS_US, Histogram, PassReason};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::{Registry, Unit},
};

use super::owed::{Owed, Slot};
use crate::observe::{Observed, Readiness, State, View};

/// A metric as it is documented and read.
pub struct Metric {
    /// Name, without what its kind and unit add to it.
    name: &'static str,
    unit: Option<Unit>,
    /// What it means: a whole sentence.
    pub help: &'static str,
    /// The label beside `database`, if there is one.
    pub label: Option<&'static str>,
    read: Read,
}

enum Read {
    Counter(fn(&Seen) -> u64),
    Counters(fn(&Seen) -> Vec<(&'static str, u64)>),
    /// Without a value where it is not known.
    Gauge(fn(&Seen) -> Option<f64>),
    Gauges(fn(&Seen) -> Vec<(&'static str, f64)>),
    Histogram(fn(&Seen) -> Histogram),
    Info(&'static str),
}

/// The relay at the moment of the scrape.
struct Seen {
    view: View,
    now: Instant,
    is_alive: bool,
    /// `None`: the database does not answer.
    owed: Option<Owed>,
}

impl Seen {
    fn owed(&self, read: fn(&Owed) -> f64) -> Option<f64> {
        self.owed.as_ref().map(read)
    }

    fn slot(&self, read: fn(&Slot) -> Option<f64>) -> Option<f64> {
        self.owed.as_ref()?.slot.as_ref().and_then(read)
    }
}

const fn count(name: &'static str, help: &'static str, read: fn(&Seen) -> u64) -> Metric {
    Metric { name, unit: None, help, label: None, read: Read::Counter(read) }
}

const fn gauge(name: &'static str, unit: Option<Unit>, help: &'static str, read: fn(&Seen) -> Option<f64>) -> Metric {
    Metric { name, unit, help, label: None, read: Read::Gauge(read) }
}

const fn time(name: &'static str, help: &'static str, read: fn(&Seen) -> Histogram) -> Metric {
    Metric { name, unit: Some(Unit::Seconds), help, label: None, read: Read::Histogram(read) }
}

/// Every metric, in the order in which they are shown.
pub static METRICS: &[Metric] = &[
    Metric {
        name: "outbox_events_received",
        unit: None,
        help: "Rows of the outbox that the stream has brought, and events that were read from the table.",
        label: Some("source"),
        read: Read::Counters(|seen| {
            vec![("stream", seen.view.figures.counts.streamed), ("table", seen.view.figures.counts.scanned)]
        }),
    },
    count("outbox_events_published", "Messages handed to RabbitMQ, repetitions included.", |seen| {
        seen.view.figures.counts.published
    }),
    count("outbox_events_confirmed", "Messages that RabbitMQ has confirmed and routed.", |seen| {
        seen.view.sink.confirmed
    }),
    count("outbox_events_returned", "Messages that RabbitMQ has returned: no queue was bound for them.", |seen| {
        seen.view.sink.returned
    }),
    count("outbox_events_nacked", "Messages that a queue did not take (basic.nack).", |seen| seen.view.sink.nacked),
    count(
        "outbox_events_refused",
        "Messages that RabbitMQ has refused for what they are, or for where they were to go.",
        |seen| seen.view.sink.refused,
    ),
    count("outbox_events_sent", "Events whose row was set to SENT.", |seen| seen.view.figures.counts.sent),
    count("outbox_events_failed", "Events whose row was set to FAILED.", |seen| seen.view.figures.counts.failed),
    count("outbox_events_retried", "Attempts that were refused and written back, to be tried again.", |seen| {
        seen.view.figures.counts.retried
    }),
    time(
        "outbox_commit_to_confirm",
        "From an event's commit to RabbitMQ's confirm, for events that came from the stream. Compares the clocks of two machines.",
        |seen| seen.view.figures.counts.commit_to_confirm,
    ),
    time("outbox_settle", "Duration of the statements that write verdicts.", |seen| seen.view.figures.counts.settle),
    Metric {
        name: "outbox_passes",
        unit: None,
        help: "Passes over the table, by what called for them.",
        label: Some("reason"),
        read: Read::Counters(|seen| {
            PassReason::ALL
                .iter()
                .zip(seen.view.figures.counts.passes)
                .map(|((_, name), count)| (*name, count))
                .collect()
        }),
    },
    Metric {
        name: "outbox_state",
        unit: None,
        help: "1 for the state that the relay is in, 0 for the others.",
        label: Some("state"),
        read: Read::Gauges(|seen| {
            State::ALL.iter().map(|(state, word)| (*word, as_gauge(*state == seen.view.state()))).collect()
        }),
    },
    gauge(
        "outbox_ready",
        None,
        "Whether /readyz says yes: events are delivered, or another relay delivers them.",
        |seen| Some(as_gauge(Readiness::of(&seen.view, seen.now).is_ready())),
    ),
    gauge("outbox_alive", None, "Whether /healthz says yes: the relay's loop turns.", |seen| {
        Some(as_gauge(seen.is_alive))
    }),
    gauge("outbox_in_flight_events", None, "Messages that RabbitMQ has not answered.", |seen| {
        Some(of(seen.view.figures.in_flight))
    }),
    gauge("outbox_memory_events", None, "Events in the relay's memory.", |seen| Some(of(seen.view.figures.in_memory))),
    gauge("outbox_memory", Some(Unit::Bytes), "Size of the events in the relay's memory.", |seen| {
        Some(of(seen.view.figures.memory_bytes))
    }),
    gauge(
        "outbox_unwritten_verdicts",
        None,
        "Verdicts that cannot be written now: the row is locked or not visible yet, or its change is refused.",
        |seen| Some(of(seen.view.figures.unwritten)),
    ),
    gauge(
        "outbox_keys_in_table",
        None,
        "Keys of which later events wait in the table, behind one that is retried or because there are many.",
        |seen| Some(of(seen.view.figures.keys_in_table)),
    ),
    gauge("outbox_behind", Some(Unit::Bytes), "Log that the relay has read and may not acknowledge yet.", |seen| {
        #[expect(clippy::cast_precision_loss, reason = "exact up to 9 PB")]
        let bytes = seen.view.behind_bytes() as f64;
        Some(bytes)
    }),
    gauge("outbox_broker_up", None, "Whether there is a connection to RabbitMQ.", |seen| {
        Some(as_gauge(seen.view.sink.connected_to.is_some()))
    }),
    gauge("outbox_broker_blocked", None, "Whether RabbitMQ has blocked publishing (a memory or disk alarm).", |seen| {
        Some(as_gauge(seen.view.figures.is_blocked))
    }),
    gauge("outbox_broker_away", Some(Unit::Seconds), "For how long nothing could be published; 0: it can.", |seen| {
        Some(seen.view.away_for(seen.now).map_or(0.0, |away| away.as_secs_f64()))
    }),
    Metric {
        name: "outbox_reconnects",
        unit: None,
        help: "Connections that were made again after one was lost.",
        label: Some("peer"),
        read: Read::Counters(|seen| {
            vec![("database", seen.view.sessions.saturating_sub(1)), ("broker", seen.view.sink.reconnects)]
        }),
    },
    gauge(
        "outbox_database_up",
        None,
        "Whether the database says what is owed, which the following are made from.",
        |seen| Some(as_gauge(seen.owed.is_some())),
    ),
    Metric {
        name: "outbox_unsent_events",
        unit: None,
        help: "Events that are not sent: owed now, between two attempts, scheduled for later, failed. Beyond 10,000 an estimate.",
        label: Some("state"),
        read: Read::Gauges(|seen| {
            let Some(owed) = &seen.owed else { return Vec::new() };
            let counts = [
                ("pending", owed.pending),
                ("retrying", owed.retrying),
                ("scheduled", owed.scheduled),
                ("failed", owed.failed),
            ];
            counts.map(|(state, count)| (state, signed(count))).to_vec()
        }),
    },
    Metric {
        name: "outbox_oldest_unsent",
        unit: Some(Unit::Seconds),
        help: "Age of the oldest event that is owed now, and of the oldest between two attempts; 0: there is none.",
        label: Some("state"),
        read: Read::Gauges(|seen| {
            let Some(owed) = &seen.owed else { return Vec::new() };
            vec![("pending", owed.oldest_pending), ("retrying", owed.oldest_retrying)]
        }),
    },
    gauge("outbox_keys_held", None, "Events that hold back the later ones of their key.", |seen| {
        seen.owed(|owed| signed(owed.keys_held))
    }),
    gauge("outbox_slot_active", None, "Whether a relay reads the slot; 0 also if there is no slot.", |seen| {
        seen.owed(|owed| as_gauge(owed.slot.as_ref().is_some_and(|slot| slot.is_active)))
    }),
    Metric {
        name: "outbox_slot_wal_status",
        unit: None,
        help: "1 for the slot's wal_status, 0 for the others (the view pg_replication_slots).",
        label: Some("status"),
        read: Read::Gauges(|seen| {
            let Some(slot) = seen.owed.as_ref().and_then(|owed| owed.slot.as_ref()) else { return Vec::new() };
            ["reserved", "extended", "unreserved", "lost"]
                .map(|status| (status, as_gauge(slot.wal_status == status)))
                .to_vec()
        }),
    },
    gauge("outbox_slot_kept", Some(Unit::Bytes), "Log that PostgreSQL keeps for the slot.", |seen| {
        seen.slot(|slot| slot.kept.map(signed))
    }),
    gauge(
        "outbox_slot_safe",
        Some(Unit::Bytes),
        "Log that can still be written before the slot is lost; without max_slot_wal_keep_size there is no such limit, and no series.",
        |seen| seen.slot(|slot| slot.safe.map(signed)),
    ),
    gauge(
        "outbox_slot_behind",
        Some(Unit::Bytes),
        "Log that was written since the position that the relay has acknowledged.",
        |seen| seen.slot(|slot| slot.behind.map(signed)),
    ),
    Metric {
        name: "outbox_build",
        unit: None,
        help: "The relay's version.",
        label: Some("version"),
        read: Read::Info(env!("CARGO_PKG_VERSION")),
    },
];

impl Metric {
    fn kind(&self) -> MetricType {
        match self.read {
            Read::Counter(_) | Read::Counters(_) => MetricType::Counter,
            Read::Gauge(_) | Read::Gauges(_) => MetricType::Gauge,
            Read::Histogram(_) => MetricType::Histogram,
            Read::Info(_) => MetricType::Info,
        }
    }

    /// The name of its series.
    pub fn series(&self) -> String {
        let unit = self.unit.as_ref().map(|unit| format!("_{}", unit.as_str())).unwrap_or_default();
        let suffix = match self.kind() {
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
            _ => "",
        };
        format!("{}{unit}{suffix}", self.name)
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, seen: &Seen) -> fmt::Result {
        let help = self.help.trim_end_matches('.'); // the format ends it
        let mut metric = encoder.encode_descriptor(self.name, help, self.unit.as_ref(), self.kind())?;
        let label = self.label.unwrap_or_default();
        match self.read {
            Read::Counter(read) => metric.encode_counter::<NoLabelSet, _, u64>(&read(seen), None),
            Read::Counters(read) => read(seen).into_iter().try_for_each(|(value, count)| {
                metric.encode_family(&[(label, value)])?.encode_counter::<NoLabelSet, _, u64>(&count, None)
            }),
            Read::Gauge(read) => match read(seen) {
                Some(value) => metric.encode_gauge(&value),
                None => Ok(()),
            },
            Read::Gauges(read) => read(seen)
                .into_iter()
                .try_for_each(|(value, gauge)| metric.encode_family(&[(label, value)])?.encode_gauge(&gauge)),
            Read::Histogram(read) => {
                let Histogram { buckets, longer, sum_us } = read(seen);
                let bounds = BOUNDS_US.iter().map(|us| seconds(*us)).zip(buckets);
                let buckets: Vec<(f64, u64)> = bounds.chain([(f64::INFINITY, longer)]).collect();
                let count = buckets.iter().map(|(_, count)| count).sum();
                metric.encode_histogram::<NoLabelSet>(seconds(sum_us), count, &buckets, None)
            }
            Read::Info(version) => metric.encode_info(&[(label, version)]),
        }
    }
}

/// All metrics of a relay, in the format of `OpenMetrics`.
pub(super) fn encode(observed: &Arc<Observed>, owed: Option<Owed>, database: &str) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_labels([("database".into(), database.to_owned().into())].into_iter());
    registry.register_collector(Box::new(Scrape { observed: Arc::clone(observed), owed }));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Scrape {
    observed: Arc<Observed>,
    owed: Option<Owed>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (view, is_alive) = (self.observed.view(), self.observed.is_alive());
        let seen = Seen { view, now: Instant::now(), is_alive, owed: self.owed.clone() };
        METRICS.iter().try_for_each(|metric| metric.encode(&mut encoder, &seen))
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn signed(count: i64) -> f64 {
    count as f64
}

fn as_gauge(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn of(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 285 years")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/metrics.md is made from the list.
    #[test]
    fn the_reference_describes_every_metric() {
        let row = |metric: &Metric| {
            let label = metric.label.map(|label| format!("`{label}`")).unwrap_or_default();
            format!("| `{}` | {} | {label} | {} |\n", metric.series(), metric.kind().as_str(), metric.help)
        };
        let table: String = METRICS.iter().map(row).collect();
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md")).unwrap();
        assert!(page.contains(&table), "docs/metrics.md should hold:\n{table}");
    }

    #[test]
    fn what_is_shown_is_named_as_the_list_says() {
        let slot = Slot { kept: Some(1), safe: Some(2), behind: Some(3), ..Slot::default() };
        let owed = Owed { slot: Some(slot), ..Owed::default() };
        let text = encode(&Arc::default(), Some(owed), "shop").unwrap();
        for metric in METRICS {
            let series = metric.series();
            let first = match metric.kind() {
                MetricType::Histogram => format!("{series}_sum{{database=\"shop\"}} 0"),
                _ => format!("{series}{{database=\"shop\""),
            };
            assert!(text.contains(&first), "{first} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
