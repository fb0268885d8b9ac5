//! Samples of the last hour, for the charts. Pure.

use std::collections::VecDeque;

use outbox_core::{BOUNDS_US, Histogram};
use serde_json::{Map, Value, json};

/// Seconds between two samples that are kept: an hour of them has about a point for each pixel of a chart.
pub(super) const KEPT_EVERY: usize = 5;

/// Samples that are kept: those of an hour.
const KEPT: usize = 720;

/// The figures between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Seconds since 1970.
    pub(super) at: f64,
    /// Events a second.
    pub(super) received: f64,
    /// Events a second.
    pub(super) sent: f64,
    /// Events a second.
    pub(super) failed: f64,
    /// Median time from commit to confirm of the events in between, in seconds.
    pub(super) p50: Option<f64>,
    /// The 99th percentile of the same, in seconds.
    pub(super) p99: Option<f64>,
    /// Number of pending events, from the database.
    pub(super) pending: Option<f64>,
    /// Seconds.
    pub(super) oldest: Option<f64>,
    /// Bytes.
    pub(super) kept: Option<f64>,
    /// Bytes.
    pub(super) behind: Option<f64>,
}

impl Sample {
    /// Returns the values by their names in the page.
    pub(super) fn values(&self) -> [(&'static str, Value); 10] {
        [
            ("t", json!(self.at)),
            ("received", json!(self.received)),
            ("sent", json!(self.sent)),
            ("failed", json!(self.failed)),
            ("p50", json!(self.p50)),
            ("p99", json!(self.p99)),
            ("pending", json!(self.pending)),
            ("oldest", json!(self.oldest)),
            ("kept", json!(self.kept)),
            ("behind", json!(self.behind)),
        ]
    }
}

/// The latest samples.
#[derive(Debug, Default)]
pub(super) struct Samples(VecDeque<Sample>);

impl Samples {
    pub(super) fn push(&mut self, sample: Sample) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(sample);
    }

    pub(super) fn latest(&self) -> Option<&Sample> {
        self.0.back()
    }

    /// Returns a list for each value.
    pub(super) fn columns(&self) -> Value {
        let mut columns: Map<String, Value> =
            Sample::default().values().into_iter().map(|(name, _)| (name.to_owned(), json!([]))).collect();
        for (name, value) in self.0.iter().flat_map(Sample::values) {
            if let Some(Value::Array(column)) = columns.get_mut(name) {
                column.push(value);
            }
        }
        Value::Object(columns)
    }
}

/// Returns the quantile `part`, in seconds, of the measurements between two states of a histogram. Values are taken as
/// spread evenly within a bucket.
pub(super) fn quantile(before: &Histogram, after: &Histogram, part: f64) -> Option<f64> {
    let counts = after.buckets.iter().zip(before.buckets).map(|(after, before)| after.saturating_sub(before));
    let counts: Vec<f64> = counts.chain([after.longer.saturating_sub(before.longer)]).map(number).collect();
    let wanted = counts.iter().sum::<f64>() * part;
    if wanted <= 0.0 {
        return None;
    }
    let longest = *BOUNDS_US.last()?;
    let bounds = BOUNDS_US.iter().copied().chain([longest * 2]).map(|us| number(us) / 1e6);
    let (mut below, mut from) = (0.0, 0.0);
    for (count, to) in counts.into_iter().zip(bounds) {
        if below + count >= wanted {
            return Some(from + (to - from) * (wanted - below) / count);
        }
        (below, from) = (below + count, to);
    }
    Some(from)
}

/// Converts a count to the charts' type.
#[expect(clippy::cast_precision_loss, reason = "for people: exact below 2^53")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(buckets: &[(usize, u64)]) -> Histogram {
        let mut histogram = Histogram::default();
        for (bucket, count) in buckets {
            histogram.buckets[*bucket] = *count;
        }
        histogram
    }

    #[test]
    fn a_quantile_is_that_of_what_came_in_between() {
        let before = histogram(&[(0, 1_000_000)]);
        let after = histogram(&[(0, 1_000_000), (2, 98), (10, 2)]);
        assert_eq!(quantile(&before, &before, 0.5), None);
        let (half, most) = (quantile(&before, &after, 0.5).unwrap(), quantile(&before, &after, 0.99).unwrap());
        assert!((0.001..=0.0025).contains(&half) && (0.5..=1.0).contains(&most), "{half} {most}");
        let longer = Histogram { longer: 5, ..before };
        assert!(quantile(&before, &longer, 0.99).unwrap() > 60.0);
    }

    #[test]
    fn the_last_hour_is_kept() {
        let mut samples = Samples::default();
        for second in 0..KEPT + 10 {
            samples.push(Sample { at: number(second as u64), ..Sample::default() });
        }
        let columns = samples.columns();
        assert_eq!(columns["t"].as_array().map(Vec::len), Some(KEPT));
        assert_eq!(columns["t"][0], json!(10.0));
        assert_eq!(columns["p99"][0], Value::Null);
    }
}
