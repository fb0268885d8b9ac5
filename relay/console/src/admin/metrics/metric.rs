//! One metric: how it is documented, read and shown.

use std::{fmt, time::Instant};

use outbox_core::{BOUNDS_US, Histogram};
use outbox_service::{observe::View, peer::ServerPeer};
use prometheus_client::{
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
    registry::Unit,
};

use crate::queries::health::{Health, Slot};

/// A metric: its name, its documentation, and the function that reads it.
pub struct Metric {
    /// Name, without the suffixes of its kind and unit.
    pub(super) name: &'static str,
    pub(super) unit: Option<Unit>,
    /// Its meaning, as a whole sentence.
    pub help: &'static str,
    /// The labels beside `database`.
    pub labels: &'static [&'static str],
    pub(super) read: Read,
}

/// The values of both labels, and the gauge or the count.
pub(super) type OfTwo<T> = ([&'static str; 2], T);

pub(super) enum Read {
    Counter(fn(&Seen) -> u64),
    Counters(fn(&Seen) -> Vec<(&'static str, u64)>),
    /// Counters with two labels.
    CountersOfTwo(fn(&Seen) -> Vec<OfTwo<u64>>),
    /// A gauge; `None` while its value is unknown.
    Gauge(fn(&Seen) -> Option<f64>),
    Gauges(fn(&Seen) -> Vec<(&'static str, f64)>),
    /// Gauges with two labels.
    GaugesOfTwo(fn(&Seen) -> Vec<OfTwo<f64>>),
    Histogram(fn(&Seen) -> Histogram),
    /// An info metric: the values of its labels.
    Infos(fn(&Seen) -> Vec<Vec<String>>),
}

/// The state of the relay at the moment of the scrape.
pub(super) struct Seen {
    pub(super) view: View,
    pub(super) now: Instant,
    pub(super) is_alive: bool,
    /// Numbers of spans: those that the collector has taken, and those that were dropped.
    pub(super) spans: [u64; 2],
    /// `None` while the database does not answer.
    pub(super) health: Option<Health>,
}

impl Seen {
    /// Returns the servers that the relay is connected to, each with its name in the label `peer`.
    pub(super) fn peers(&self) -> impl Iterator<Item = (&'static str, &ServerPeer)> {
        let both = [("database", &self.view.database), ("broker", &self.view.sink.connected_to)];
        both.into_iter().filter_map(|(server, peer)| Some((server, peer.as_ref()?)))
    }

    pub(super) fn health(&self, read: fn(&Health) -> f64) -> Option<f64> {
        self.health.as_ref().map(read)
    }

    pub(super) fn slot(&self, read: fn(&Slot) -> Option<f64>) -> Option<f64> {
        read(&self.health.as_ref()?.slot)
    }
}

pub(super) const fn count(name: &'static str, help: &'static str, read: fn(&Seen) -> u64) -> Metric {
    Metric { name, unit: None, help, labels: &[], read: Read::Counter(read) }
}

pub(super) const fn gauge(
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    read: fn(&Seen) -> Option<f64>,
) -> Metric {
    Metric { name, unit, help, labels: &[], read: Read::Gauge(read) }
}

pub(super) const fn time(name: &'static str, help: &'static str, read: fn(&Seen) -> Histogram) -> Metric {
    Metric { name, unit: Some(Unit::Seconds), help, labels: &[], read: Read::Histogram(read) }
}

impl Metric {
    pub(super) fn kind(&self) -> MetricType {
        match self.read {
            Read::Counter(_) | Read::Counters(_) | Read::CountersOfTwo(_) => MetricType::Counter,
            Read::Gauge(_) | Read::Gauges(_) | Read::GaugesOfTwo(_) => MetricType::Gauge,
            Read::Histogram(_) => MetricType::Histogram,
            Read::Infos(_) => MetricType::Info,
        }
    }

    /// Returns the name of its series.
    pub fn series(&self) -> String {
        let unit = self.unit.as_ref().map(|unit| format!("_{}", unit.as_str())).unwrap_or_default();
        let suffix = match self.kind() {
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
            _ => "",
        };
        format!("{}{unit}{suffix}", self.name)
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>, seen: &Seen) -> fmt::Result {
        let help = self.help.trim_end_matches('.'); // the format adds the full stop
        let mut metric = encoder.encode_descriptor(self.name, help, self.unit.as_ref(), self.kind())?;
        let label = self.labels.first().copied().unwrap_or_default();
        match self.read {
            Read::Counter(read) => metric.encode_counter::<NoLabelSet, _, u64>(&read(seen), None),
            Read::Counters(read) => read(seen).into_iter().try_for_each(|(value, count)| {
                metric.encode_family(&[(label, value)])?.encode_counter::<NoLabelSet, _, u64>(&count, None)
            }),
            Read::CountersOfTwo(read) => read(seen).into_iter().try_for_each(|(values, count)| {
                let labels: Vec<_> = self.labels.iter().copied().zip(values).collect();
                metric.encode_family(&labels.as_slice())?.encode_counter::<NoLabelSet, _, u64>(&count, None)
            }),
            Read::Gauge(read) => match read(seen) {
                Some(value) => metric.encode_gauge(&value),
                None => Ok(()),
            },
            Read::Gauges(read) => read(seen)
                .into_iter()
                .try_for_each(|(value, gauge)| metric.encode_family(&[(label, value)])?.encode_gauge(&gauge)),
            Read::GaugesOfTwo(read) => read(seen).into_iter().try_for_each(|(values, gauge)| {
                let labels: Vec<_> = self.labels.iter().copied().zip(values).collect();
                metric.encode_family(&labels.as_slice())?.encode_gauge(&gauge)
            }),
            Read::Histogram(read) => {
                let Histogram { buckets, longer, sum_us } = read(seen);
                let bounds = BOUNDS_US.iter().map(|us| seconds(*us)).zip(buckets);
                let buckets: Vec<(f64, u64)> = bounds.chain([(f64::INFINITY, longer)]).collect();
                let count = buckets.iter().map(|(_, count)| count).sum();
                metric.encode_histogram::<NoLabelSet>(seconds(sum_us), count, &buckets, None)
            }
            Read::Infos(read) => read(seen).into_iter().try_for_each(|values| {
                let labels: Vec<_> = self.labels.iter().copied().zip(values).collect();
                metric.encode_info(&labels.as_slice())
            }),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 285 years")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
