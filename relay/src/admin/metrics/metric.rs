//! One metric: how it is documented, read and shown.

use std::{fmt, time::Instant};

use outbox_core::{BOUNDS_US, Histogram};
use prometheus_client::{
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
    registry::Unit,
};

use crate::{
    admin::owed::{Owed, Slot},
    observe::View,
};

/// A metric as it is documented and read.
pub struct Metric {
    /// Name, without what its kind and unit add to it.
    pub(super) name: &'static str,
    pub(super) unit: Option<Unit>,
    /// What it means: a whole sentence.
    pub help: &'static str,
    /// The label beside `database`, if there is one.
    pub label: Option<&'static str>,
    pub(super) read: Read,
}

pub(super) enum Read {
    Counter(fn(&Seen) -> u64),
    Counters(fn(&Seen) -> Vec<(&'static str, u64)>),
    /// Without a value where it is not known.
    Gauge(fn(&Seen) -> Option<f64>),
    Gauges(fn(&Seen) -> Vec<(&'static str, f64)>),
    Histogram(fn(&Seen) -> Histogram),
    Info(&'static str),
}

/// The relay at the moment of the scrape.
pub(super) struct Seen {
    pub(super) view: View,
    pub(super) now: Instant,
    pub(super) is_alive: bool,
    /// `None`: the database does not answer.
    pub(super) owed: Option<Owed>,
}

impl Seen {
    pub(super) fn owed(&self, read: fn(&Owed) -> f64) -> Option<f64> {
        self.owed.as_ref().map(read)
    }

    pub(super) fn slot(&self, read: fn(&Slot) -> Option<f64>) -> Option<f64> {
        self.owed.as_ref()?.slot.as_ref().and_then(read)
    }
}

pub(super) const fn count(name: &'static str, help: &'static str, read: fn(&Seen) -> u64) -> Metric {
    Metric { name, unit: None, help, label: None, read: Read::Counter(read) }
}

pub(super) const fn gauge(
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    read: fn(&Seen) -> Option<f64>,
) -> Metric {
    Metric { name, unit, help, label: None, read: Read::Gauge(read) }
}

pub(super) const fn time(name: &'static str, help: &'static str, read: fn(&Seen) -> Histogram) -> Metric {
    Metric { name, unit: Some(Unit::Seconds), help, label: None, read: Read::Histogram(read) }
}

impl Metric {
    pub(super) fn kind(&self) -> MetricType {
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

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>, seen: &Seen) -> fmt::Result {
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

#[expect(clippy::cast_precision_loss, reason = "exact up to 285 years")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
