//! The metrics: one list, from which `/metrics` and docs/metrics.md are made.

mod list;
mod metric;

use std::{
    fmt,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use outbox_service::observe::Observed;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    registry::Registry,
};

use self::metric::Seen;
pub use self::{list::METRICS, metric::Metric};
use crate::queries::health::Health;

/// Encodes all metrics of a relay, in the format of `OpenMetrics`.
pub(in crate::admin) fn encode(
    observed: &Arc<Observed>,
    health: Option<Health>,
    database: &str,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_labels([("database".into(), database.to_owned().into())].into_iter());
    registry.register_collector(Box::new(Scrape { observed: Arc::clone(observed), health }));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Scrape {
    observed: Arc<Observed>,
    health: Option<Health>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (view, is_alive) = (self.observed.view(), self.observed.is_alive());
        let spans = self.observed.spans();
        let spans = [&spans.exported, &spans.dropped].map(|count| count.load(Relaxed));
        let seen = Seen { view, now: Instant::now(), is_alive, spans, health: self.health.clone() };
        METRICS.iter().try_for_each(|metric| metric.encode(&mut encoder, &seen))
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use client_socket::Expiry;
    use outbox_service::{peer::ServerPeer, sink::BrokerKind};
    use prometheus_client::metrics::MetricType;

    use super::*;
    use crate::queries::health::Slot;

    const ANY: BrokerKind = BrokerKind {
        label: "any",
        name: "AnyMQ",
        answers: &[("delivered", "taken"), ("rejected", "unknown")],
        blocks_over: "",
        unavailable_by: "",
        unavailable_hint: "",
        silent_hint: "",
    };

    /// This test keeps docs/metrics.md and the list the same.
    #[test]
    fn the_reference_describes_every_metric() {
        let row = |metric: &Metric| {
            let labels = metric.labels.join(", ");
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            format!("| `{}{labels}` | {} | {} |\n", metric.series(), metric.kind().as_str(), metric.help)
        };
        let table: String = METRICS.iter().map(row).collect();
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md")).unwrap();
        assert!(page.contains(&table), "docs/metrics.md should hold:\n{table}");
    }

    #[test]
    fn what_is_shown_is_named_as_the_list_says() {
        let slot = Slot {
            is_active: Some(true),
            kept_bytes: Some(1),
            safe_bytes: Some(2),
            behind_bytes: Some(3),
            ..Slot::default()
        };
        let health = Health { slot, ..Health::default() };
        let observed = Arc::new(Observed::new(&ANY));
        let expiry = Expiry { server: Some(UNIX_EPOCH), client: None };
        observed.connected(ServerPeer {
            host: "db:5432".to_owned(),
            description: "db:5432 (10.0.0.7)".to_owned(),
            expiry,
        });
        observed.retention_kept_back(0);
        let text = encode(&observed, Some(health), "shop").unwrap();
        for metric in METRICS {
            let series = metric.series();
            let first = match metric.kind() {
                MetricType::Histogram => format!("{series}_sum{{database=\"shop\"}} 0"),
                _ => format!("{series}{{database=\"shop\""),
            };
            assert!(text.contains(&first), "{first} is not in\n{text}");
        }
        for series in [
            r#"outbox_answers_total{database="shop",outcome="delivered",reason="taken"} 0"#,
            r#"outbox_answers_total{database="shop",outcome="rejected",reason="unknown"} 0"#,
            r#"sink="any""#,
        ] {
            assert!(text.contains(series), "{series} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
