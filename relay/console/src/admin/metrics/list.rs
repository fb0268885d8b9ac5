//! The list of metrics.

use std::time::{SystemTime, UNIX_EPOCH};

use client_socket::Expiry;
use outbox_core::PassReason;
use outbox_service::{
    observe::{Readiness, State},
    peer::ServerPeer,
};
use prometheus_client::registry::Unit;

use super::metric::{Metric, Read, count, gauge, time};

/// Every metric, in the order of `/metrics` and of docs/metrics.md.
pub static METRICS: &[Metric] = &[
    Metric {
        name: "outbox_events_received",
        unit: None,
        help: "Rows that the stream has brought, and events that were read from the table.",
        labels: &["source"],
        read: Read::Counters(|seen| {
            vec![("stream", seen.view.figures.counts.streamed), ("table", seen.view.figures.counts.scanned)]
        }),
    },
    count("outbox_events_published", "Messages handed to the broker, repetitions included.", |seen| {
        seen.view.figures.counts.published
    }),
    Metric {
        name: "outbox_answers",
        unit: None,
        help: "The broker's answers to messages, by outcome and reason.",
        labels: &["outcome", "reason"],
        read: Read::CountersOfTwo(|seen| seen.view.sink.answers.table().to_vec()),
    },
    count("outbox_events_sent", "Events whose row was set to SENT.", |seen| seen.view.figures.counts.sent),
    count("outbox_events_failed", "Events whose row was set to FAILED.", |seen| seen.view.figures.counts.failed),
    count("outbox_events_retried", "Events written back as PENDING: after a failed attempt, or put off.", |seen| {
        seen.view.figures.counts.retried
    }),
    time(
        "outbox_commit_to_confirm",
        "From commit to the broker's confirm, for streamed events. Compares the clocks of two machines.",
        |seen| seen.view.figures.counts.commit_to_confirm,
    ),
    time("outbox_settle", "Duration of the statements that write verdicts.", |seen| seen.view.figures.counts.settle),
    Metric {
        name: "outbox_passes",
        unit: None,
        help: "Passes over the table, by what called for them.",
        labels: &["reason"],
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
        labels: &["state"],
        read: Read::Gauges(|seen| {
            State::ALL.iter().map(|(state, word)| (*word, as_gauge(*state == seen.view.state()))).collect()
        }),
    },
    gauge(
        "outbox_ready",
        None,
        "Whether /readyz answers 200: this relay delivers events, or another one does.",
        |seen| Some(as_gauge(Readiness::of(&seen.view, seen.now).is_ready())),
    ),
    gauge("outbox_alive", None, "Whether /healthz answers 200: the relay's loop turns.", |seen| {
        Some(as_gauge(seen.is_alive))
    }),
    gauge("outbox_in_flight_events", None, "Messages that the broker has not answered.", |seen| {
        Some(of(seen.view.figures.in_flight))
    }),
    gauge("outbox_memory_events", None, "Events in the relay's memory.", |seen| Some(of(seen.view.figures.in_memory))),
    gauge("outbox_memory", Some(Unit::Bytes), "Size of the events in the relay's memory.", |seen| {
        Some(of(seen.view.figures.memory_bytes))
    }),
    gauge(
        "outbox_unwritten_verdicts",
        None,
        "Verdicts that cannot be written now: a lock, a row that is not visible yet, or a refused change.",
        |seen| Some(of(seen.view.figures.unwritten)),
    ),
    gauge(
        "outbox_keys_in_table",
        None,
        "Keys whose later events wait in the table, behind a retried one or because there are many.",
        |seen| Some(of(seen.view.figures.keys_in_table)),
    ),
    gauge("outbox_behind", Some(Unit::Bytes), "WAL that the relay has read and may not acknowledge yet.", |seen| {
        #[expect(clippy::cast_precision_loss, reason = "exact up to 9 PB")]
        let bytes = seen.view.behind_bytes() as f64;
        Some(bytes)
    }),
    gauge(
        "outbox_broker_up",
        None,
        "Whether this relay publishes to the broker. 0 on a standby, and while the database is away.",
        |seen| Some(as_gauge(seen.view.sink.connected_to.is_some())),
    ),
    gauge("outbox_broker_blocked", None, "Whether the broker has blocked publishing.", |seen| {
        Some(as_gauge(seen.view.figures.is_blocked))
    }),
    gauge(
        "outbox_broker_away",
        Some(Unit::Seconds),
        "For how long nothing could be published; 0 while it can.",
        |seen| Some(seen.view.away_for(seen.now).map_or(0.0, |away| away.as_secs_f64())),
    ),
    Metric {
        name: "outbox_reconnects",
        unit: None,
        help: "Connections made again after one was lost.",
        labels: &["peer"],
        read: Read::Counters(|seen| {
            vec![("database", seen.view.sessions.saturating_sub(1)), ("broker", seen.view.sink.reconnects)]
        }),
    },
    Metric {
        name: "outbox_connection",
        unit: None,
        help: "The connected host, of those in the setting. No series without a connection; a standby has none to the broker.",
        labels: &["peer", "host"],
        read: Read::Infos(|seen| {
            seen.peers().map(|(server, peer)| vec![server.to_owned(), peer.host.clone()]).collect()
        }),
    },
    Metric {
        name: "outbox_certificate_expiry_timestamp",
        unit: Some(Unit::Seconds),
        help: "When the certificate of a connection expires, in seconds since 1970: the server's, and the relay's own (client).",
        labels: &["peer", "side"],
        read: Read::GaugesOfTwo(|seen| {
            let of_peer = |(server, peer): (&'static str, &ServerPeer)| {
                let Expiry { server: theirs, client: own } = peer.expiry;
                [("server", theirs), ("client", own)].map(|(side, until)| Some(([server, side], since_epoch(until?))))
            };
            seen.peers().flat_map(of_peer).flatten().collect()
        }),
    },
    Metric {
        name: "outbox_spans",
        unit: None,
        help: "Spans of sampled events: exported, which the collector has taken, or dropped.",
        labels: &["result"],
        read: Read::Counters(|seen| {
            let [exported, dropped] = seen.spans;
            vec![("exported", exported), ("dropped", dropped)]
        }),
    },
    gauge(
        "outbox_database_up",
        None,
        "Whether the database has answered. The following series are made from its answer.",
        |seen| Some(as_gauge(seen.health.is_some())),
    ),
    Metric {
        name: "outbox_unsent_events",
        unit: None,
        help: "Events not sent, by state: pending, retrying, scheduled, failed. An estimate beyond 10,000.",
        labels: &["state"],
        read: Read::Gauges(|seen| {
            let Some(health) = &seen.health else { return Vec::new() };
            let counts = [
                ("pending", health.pending),
                ("retrying", health.retrying),
                ("scheduled", health.scheduled),
                ("failed", health.failed),
            ];
            counts.map(|(state, count)| (state, signed(count))).to_vec()
        }),
    },
    Metric {
        name: "outbox_oldest_unsent",
        unit: Some(Unit::Seconds),
        help: "Age of the oldest event that is pending, and of the oldest that is retrying; 0 without one.",
        labels: &["state"],
        read: Read::Gauges(|seen| {
            let Some(health) = &seen.health else { return Vec::new() };
            let ages = [("pending", health.oldest_pending_seconds), ("retrying", health.oldest_retrying_seconds)];
            ages.map(|(state, age)| (state, age.unwrap_or(0.0))).to_vec()
        }),
    },
    gauge("outbox_keys_held", None, "Events that hold back the later ones of their key.", |seen| {
        seen.health(|health| signed(health.keys_held))
    }),
    gauge("outbox_slot_active", None, "Whether a relay reads the slot. 0 if there is no slot.", |seen| {
        seen.health(|health| as_gauge(health.slot.is_active == Some(true)))
    }),
    Metric {
        name: "outbox_slot_wal_status",
        unit: None,
        help: "1 for the slot's wal_status, 0 for the others (the view pg_replication_slots).",
        labels: &["status"],
        read: Read::Gauges(|seen| {
            let slot = seen.health.as_ref().map(|health| &health.slot).filter(|slot| slot.is_active.is_some());
            let Some(slot) = slot else { return Vec::new() };
            ["reserved", "extended", "unreserved", "lost"]
                .map(|status| (status, as_gauge(slot.wal_status.as_deref() == Some(status))))
                .to_vec()
        }),
    },
    gauge("outbox_slot_kept", Some(Unit::Bytes), "WAL that PostgreSQL keeps for the slot.", |seen| {
        seen.slot(|slot| slot.kept_bytes.map(signed))
    }),
    gauge(
        "outbox_slot_safe",
        Some(Unit::Bytes),
        "WAL that can still be written before the slot is lost. No series without max_slot_wal_keep_size.",
        |seen| seen.slot(|slot| slot.safe_bytes.map(signed)),
    ),
    gauge(
        "outbox_slot_behind",
        Some(Unit::Bytes),
        "WAL written since the position that the relay has acknowledged.",
        |seen| seen.slot(|slot| slot.behind_bytes.map(signed)),
    ),
    count(
        "outbox_slots_dropped",
        "Slots that this relay dropped and created again, because they kept more than max_slot_wal.",
        |seen| seen.view.slots_dropped,
    ),
    count("outbox_events_deleted", "Finished events that retention has deleted.", |seen| seen.view.retention.deleted),
    count("outbox_retention_failures", "Rounds of retention that could not do all their work.", |seen| {
        seen.view.retention.failures
    }),
    gauge(
        "outbox_retention_kept_events",
        None,
        "Old events that stay: they hold their keys, or their deletion is refused. No series without retention.",
        |seen| seen.view.retention.kept_back.map(signed),
    ),
    Metric {
        name: "outbox_build",
        unit: None,
        help: "The relay's version, and its kind of broker.",
        labels: &["version", "sink"],
        read: Read::Infos(|seen| vec![vec![env!("CARGO_PKG_VERSION").to_owned(), seen.view.broker.label.to_owned()]]),
    },
];

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn signed(count: i64) -> f64 {
    count as f64
}

/// Returns the time in seconds since 1970.
fn since_epoch(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn as_gauge(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn of(count: usize) -> f64 {
    count as f64
}
