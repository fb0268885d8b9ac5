//! The list of settings.

use amqp_publisher::AmqpUrl;
use kafka_producer::{Compression, KafkaUrl};
use outbox_core::Ordering;
use outbox_service::{
    collector::OtlpEndpoint,
    sink::{Unroutable, kafka::Envelope},
};
use pg_replication::ConnInfo;

use super::{
    kind::{
        AfterFailed, Count, File, Filter, HostNames, Identifier, Kind, ListenAt, LogFormat, OrOff, Size, SlotName,
        Text, Time, Topic, Url, UrlPath,
    },
    raw::RawSettings,
    setting::{Name, Setting, settings},
};

const MS: u64 = 1;
const SECOND: u64 = 1000 * MS;
const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A time after which something is deleted, or `off` for never.
type Retention = OrOff<Time<SECOND, { 3650 * DAY }>>;

/// Returns the setting's name that is this key of the file.
pub(super) fn by_key(key: &str) -> Option<Name> {
    SETTINGS.iter().flat_map(Setting::names).find(|name| name.key() == key)
}

settings! {
    "PostgreSQL" {
        /// PostgreSQL to read from.
        /// A URL or libpq's key=value form. The role needs REPLICATION and outbox.grant_relay().
        database_url: Url<ConnInfo>;

        /// Publication of the outbox table.
        publication: Identifier = "outbox";

        /// Replication slot.
        /// One relay at a time reads it. Other relays with the same slot are its standbys.
        slot: SlotName = "outbox";

        /// Whether run creates publication and slot when they are missing.
        create_slot: bool = "true";

        /// Whether standbys of PostgreSQL may copy the slot.
        /// From PostgreSQL 17 on. Where synchronized_standby_slots is set, events leave only once these standbys have
        /// them. If false, a promoted standby gets a new slot, and no event is lost.
        failover_slot: bool = "false";

        /// WAL that the slot may keep before the relay creates it again.
        /// No event is lost: PENDING events are read from the table. Set it to several times what the server writes in
        /// 15 s, and max_slot_wal_keep_size above it, which also limits the slot while no relay runs. Needs
        /// create_slot.
        max_slot_wal: OrOff<Size<u64, { 64 * MIB }, { 1 << 50 }>> = "off";

        /// How often the relay checks publication, sequence and table in any case.
        /// This finds events that committed while the table was out of the publication, and replays made with triggers
        /// disabled.
        check_interval: Time<{ 100 * MS }, HOUR> = "60s";
    }

    "RabbitMQ" {
        /// RabbitMQ to publish to.
        /// Several nodes, with commas between: amqp://user:password@a:5672,b,c/vhost. Use amqps:// for TLS.
        amqp_url: OrOff<Url<AmqpUrl>>;

        /// Exchange of events that name none.
        exchange: Text<255> = "outbox";

        /// Whether to declare that exchange (topic, durable) at the first connection.
        /// The relay waits for an exchange that is deleted later: created again, it would have no bindings.
        declare_exchange: bool = "true";

        /// Whether messages have the headers aggregate_type and aggregate_id.
        /// Without them a message is a sixth cheaper for a quorum queue of RabbitMQ 4, and consumers are not told the
        /// ordering key.
        key_headers: bool = "true";
    }

    "Kafka" {
        /// Kafka to publish to.
        /// Several brokers of one cluster, with commas between: kafka://user:password@a:9092,b,c. Use kafkas:// for
        /// TLS, and ?sasl=scram-sha-512 for another login than plain.
        kafka_url: OrOff<Url<KafkaUrl>>;

        /// Topic of events that name no exchange.
        /// Events of one key must meet in one topic, or they have no order.
        kafka_topic: Topic = "{topic}";

        /// How much of a topic the relay reads back, so that nothing is published twice.
        /// After a start, a takeover or a lost connection it reads what was published since shortly before the last
        /// verdict. If that is more, the relay warns, and may publish again what was in flight. off: nothing is read,
        /// and a relay that was frozen is not shut out.
        kafka_read_back: OrOff<Size<u64, MIB, { 1 << 40 }>> = "256MiB";

        /// How batches of records are compressed.
        /// lz4 and zstd cost the relay least, and zstd makes the smallest batches. The topic's compression.type decides
        /// how the broker keeps them.
        kafka_compression: Compression = "none";

        /// Form of the records.
        /// none: as docs/kafka.md describes them. debezium: as Debezium Server's outbox event router makes them;
        /// docs/migrate.md compares the two.
        envelope: Envelope = "none";
    }

    "Publishing" {
        /// What becomes of an event whose destination does not exist.
        /// No queue is bound for it, or there is no such topic. fail: FAILED at once. retry: retried, and each attempt
        /// counts.
        unroutable: Unroutable = "fail";

        /// Order among events of one key (aggregate_type, aggregate_id).
        /// strict: the next leaves once the one before has its verdict. pipelined: several are in flight together, for
        /// one very hot key; a nack can reorder them. none: keys mean nothing.
        ordering: Ordering = "strict";

        /// Events handed to the broker and not yet confirmed, at most.
        /// A crash repeats these, and up to twice as many whose verdicts were not yet written (2000 at most).
        in_flight: Count<usize, 1, 10_000> = "1000";

        /// Events published per second, at most.
        /// This protects consumers from a backlog. The excess waits in the table, and the slot moves on. Redeliveries
        /// count.
        max_rate: OrOff<Count<u32, 1, 1_000_000>> = "off";

        /// How long the broker may confirm nothing before the relay drops the connection.
        /// Counts only while something waits for a confirm and the broker does not say that it is blocked.
        confirm_timeout: Time<{ 100 * MS }, HOUR> = "30s";

        /// Bytes of events in memory, at most.
        /// The event that crosses the bound is still taken. There is at most one event for each 3 KiB of it, or
        /// in_flight events if that is more. The rest waits in the table.
        max_bytes: Size<usize, { 256 * KIB }, { 4 * GIB }> = "32MiB";

        /// How long the broker may be away before events stay in the table.
        /// Until then they wait in memory. Afterwards the relay goes on reading and acknowledging the WAL, so that it
        /// does not pile up.
        park_after: Time<0, HOUR> = "1s";
    }

    "Retrying" {
        /// Failed attempts after which an event is FAILED, once retry_for has passed too.
        /// While the broker takes nothing, no attempt counts.
        max_attempts: Count<u32, 1, 1000> = "10";

        /// How long an event is retried, at least.
        /// Counts from the first attempt that counted. So a full queue, or one without its majority, fails no event
        /// sooner. 0s: max_attempts alone decides.
        retry_for: Time<0, { 30 * DAY }> = "1h";

        /// Delay after the first failed attempt.
        /// It doubles with each further one, and is shortened at random by up to a half.
        retry_base: Time<MS, HOUR> = "200ms";

        /// Longest delay between two attempts.
        retry_max: Time<MS, DAY> = "60s";

        /// What becomes of the later events of a key when one has FAILED.
        /// continue: they go on without it. hold: they wait until an operator replays or releases it.
        after_failed: AfterFailed = "continue";
    }

    "Running" {
        /// Whether a start ends instead of waiting for a server or a schema upgrade.
        /// For scripts. A permanent error, such as a wrong password, ends a start in any case.
        no_wait: bool = "false";

        /// Name under which the servers list the relay.
        /// In pg_stat_activity, in RabbitMQ's management pages, and as AMQP app_id of every message.
        application_name: Identifier = "outbox-relay";

        /// How long the active relay may be unresponsive before a standby takes over.
        /// Sets wal_sender_timeout for the relay's stream, if the server's is longer. A standby replaces a relay whose
        /// process has died within a second.
        takeover_after: Time<SECOND, HOUR> = "10s";

        /// How long the drain after SIGTERM may take.
        /// Stay below Kubernetes' terminationGracePeriodSeconds, which is 30s unless set.
        shutdown_timeout: Time<0, HOUR> = "25s";
    }

    "Deletion" {
        /// How long an event is kept after it has become SENT.
        /// The active relay then deletes it, at most a tenth of this time late. Keep it for as long as you may want to
        /// replay. The role needs outbox.grant_maintain().
        retention: Retention = "off";

        /// How long an event is kept after it has FAILED.
        /// Afterwards nobody can replay it. One that holds its key is kept in any case.
        retention_failed: Retention = "off";
    }

    "Watching" {
        /// Where to answer HTTP: /metrics, /healthz, /readyz and the dashboard.
        /// A port alone listens on 127.0.0.1. Only the dashboard's operators are shown payloads.
        http_listen: OrOff<ListenAt> = "off";

        /// OpenTelemetry collector that takes a span for each sampled event.
        /// An event is sampled if its header traceparent says so. OTLP goes over HTTP (protobuf, to /v1/traces below
        /// this address), or over gRPC if OTEL_EXPORTER_OTLP_PROTOCOL is grpc. OTEL_EXPORTER_OTLP_HEADERS,
        /// OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_SERVICE_NAME count too. Needs a relay built with --features otel.
        otlp_endpoint: OrOff<Url<OtlpEndpoint>> = "off";

        /// Form of log lines on standard error.
        /// text: for people. json: one object a line.
        log_format: LogFormat = "text";

        /// What to log: a level, or target=level pairs with commas between.
        /// An example is info,relay=debug.
        log: Filter = "info";

        /// Whether http_listen serves the dashboard, too.
        dashboard: bool = "true";

        /// PostgreSQL as the dashboard reads it: a role with outbox.grant_monitor().
        /// That role sees no payloads. Without it the dashboard shows only what the relay itself knows.
        dashboard_database_url: OrOff<Url<ConnInfo>> = "off";

        /// PostgreSQL for the dashboard's operators: a role with outbox.grant_operate().
        /// For payloads, replays and releases. Without it the dashboard is read-only.
        dashboard_operator_database_url: OrOff<Url<ConnInfo>> = "off";

        /// File with the tokens of those who may read the dashboard.
        /// A name and a token per line. Without it, only those who reach a relay that listens on loopback may read.
        dashboard_readers: OrOff<File> = "off";

        /// File with the tokens of those who may also see payloads, replay and release.
        /// A name and a token per line. The name is written into outbox.audit.
        dashboard_operators: OrOff<File> = "off";

        /// Host names under which browsers may reach the dashboard, separated by commas.
        /// Addresses and localhost are always allowed. Other names are refused, which prevents DNS rebinding.
        dashboard_hosts: HostNames = "localhost";

        /// Path below which the dashboard is.
        /// Needed behind a proxy that forwards the whole path, and not behind one that strips its prefix.
        dashboard_path: UrlPath = "/";
    }
}
