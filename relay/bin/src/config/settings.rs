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
        /// A URL or libpq's key=value form. Its role needs REPLICATION and outbox.grant_relay().
        database_url: Url<ConnInfo>;

        /// Publication of the outbox table.
        publication: Identifier = "outbox";

        /// Replication slot.
        /// One relay reads it; others are its standbys.
        slot: SlotName = "outbox";

        /// Whether run creates a missing publication and slot.
        create_slot: bool = "true";

        /// Whether standbys of PostgreSQL may copy the slot.
        /// From 17 on. Events then wait for synchronized_standby_slots.
        failover_slot: bool = "false";

        /// WAL that the slot may keep before the relay creates it again.
        /// No event is lost. Several times what the server writes in 15 s, and less than max_slot_wal_keep_size. Needs
        /// create_slot.
        max_slot_wal: OrOff<Size<u64, { 64 * MIB }, { 1 << 50 }>> = "off";

        /// How often the relay checks publication, sequence and table in any case.
        check_interval: Time<{ 100 * MS }, HOUR> = "60s";
    }

    "RabbitMQ" {
        /// RabbitMQ to publish to.
        /// Several nodes: amqp://user:password@a:5672,b,c/vhost. TLS: amqps://.
        amqp_url: OrOff<Url<AmqpUrl>>;

        /// Exchange of events that name none.
        exchange: Text<255> = "outbox";

        /// Whether to declare that exchange (topic, durable) at the first connection.
        declare_exchange: bool = "true";

        /// Whether messages have the headers aggregate_type and aggregate_id.
        /// Without them a message costs a quorum queue of RabbitMQ 4 a sixth less.
        key_headers: bool = "true";
    }

    "Kafka" {
        /// Kafka to publish to.
        /// Several brokers of one cluster: kafka://user:password@a:9092,b,c. TLS: kafkas://. Another login than plain:
        /// ?sasl=scram-sha-512.
        kafka_url: OrOff<Url<KafkaUrl>>;

        /// Topic of events that name no exchange.
        /// Events of a key have order only within one topic.
        kafka_topic: Topic = "{topic}";

        /// How much of a topic the relay reads back, so that nothing is published twice.
        /// Beyond it, what was in flight may be repeated. off: nothing is read, and no frozen relay is shut out.
        kafka_read_back: OrOff<Size<u64, MIB, { 1 << 40 }>> = "256MiB";

        /// How batches of records are compressed.
        kafka_compression: Compression = "none";

        /// Form of the records: the relay's own, or that of Debezium's event router.
        envelope: Envelope = "none";
    }

    "Publishing" {
        /// What becomes of an event for which no queue is bound, or no topic exists.
        /// fail: FAILED at once. retry: each attempt counts.
        unroutable: Unroutable = "fail";

        /// Order among events of one key (aggregate_type, aggregate_id).
        /// strict: each waits for the verdict of the one before. pipelined: for a very hot key; a nack can reorder.
        /// none: no order.
        ordering: Ordering = "strict";

        /// Events handed to the broker and not yet confirmed, at most.
        /// A crash repeats these, and up to twice as many (at most 2000) without a written verdict.
        in_flight: Count<usize, 1, 10_000> = "1000";

        /// Events published per second, at most, redeliveries included.
        max_rate: OrOff<Count<u32, 1, 1_000_000>> = "off";

        /// How long the broker may confirm nothing before the relay drops the connection.
        confirm_timeout: Time<{ 100 * MS }, HOUR> = "30s";

        /// Bytes of events in memory, at most; one event may exceed it.
        /// The rest waits in the table.
        max_bytes: Size<usize, { 256 * KIB }, { 4 * GIB }> = "32MiB";

        /// How long the broker may be away before events stay in the table.
        park_after: Time<0, HOUR> = "1s";
    }

    "Retrying" {
        /// Failed attempts after which an event is FAILED, once retry_for has passed too.
        max_attempts: Count<u32, 1, 1000> = "10";

        /// How long an event is retried, at least.
        /// From its first attempt that counted. 0s: max_attempts alone decides.
        retry_for: Time<0, { 30 * DAY }> = "1h";

        /// Delay after the first failed attempt.
        /// Doubles with each further one; shortened at random by up to a half.
        retry_base: Time<MS, HOUR> = "200ms";

        /// Longest delay between two attempts.
        retry_max: Time<MS, DAY> = "60s";

        /// What becomes of the later events of a key when one has FAILED.
        /// continue: they go on. hold: they wait for a replay or a release.
        after_failed: AfterFailed = "continue";
    }

    "Running" {
        /// Whether a start ends instead of waiting for a server or a schema upgrade.
        no_wait: bool = "false";

        /// Name under which the servers list the relay, and AMQP's app_id.
        application_name: Identifier = "outbox-relay";

        /// How long the active relay may be unresponsive before a standby takes over.
        /// Caps wal_sender_timeout of its stream.
        takeover_after: Time<SECOND, HOUR> = "10s";

        /// How long the drain after SIGTERM may take.
        /// Stay below Kubernetes' terminationGracePeriodSeconds (30).
        shutdown_timeout: Time<0, HOUR> = "25s";
    }

    "Deletion" {
        /// How long an event is kept after it has become SENT.
        /// The role needs outbox.grant_maintain().
        retention: Retention = "off";

        /// How long an event is kept after it has FAILED.
        retention_failed: Retention = "off";
    }

    "Watching" {
        /// Where to answer HTTP: /metrics, /healthz, /readyz and the dashboard.
        /// A port alone listens on 127.0.0.1.
        http_listen: OrOff<ListenAt> = "off";

        /// OpenTelemetry collector that takes a span for each sampled event.
        /// HTTP (protobuf, to /v1/traces below this address), or gRPC by OTEL_EXPORTER_OTLP_PROTOCOL. Needs a relay
        /// built with --features otel.
        otlp_endpoint: OrOff<Url<OtlpEndpoint>> = "off";

        /// Form of log lines on standard error.
        log_format: LogFormat = "text";

        /// What to log, such as info,relay=debug.
        log: Filter = "info";

        /// Whether http_listen serves the dashboard.
        dashboard: bool = "true";

        /// Name of the environment on each page of the dashboard.
        /// It stands beside the database's, such as production.
        instance_name: OrOff<Identifier> = "off";

        /// PostgreSQL as the dashboard reads it: a role with outbox.grant_monitor().
        dashboard_database_url: OrOff<Url<ConnInfo>> = "off";

        /// PostgreSQL for the dashboard's operators: a role with outbox.grant_operate().
        dashboard_operator_database_url: OrOff<Url<ConnInfo>> = "off";

        /// File with the tokens of those who may read the dashboard.
        /// A name and a token per line. Without it, reading over loopback takes none.
        dashboard_readers: OrOff<File> = "off";

        /// File with the tokens of those who may also see payloads, replay and release.
        dashboard_operators: OrOff<File> = "off";

        /// Host names under which browsers may reach the dashboard, beside localhost.
        dashboard_hosts: HostNames = "localhost";

        /// Path below which the dashboard is.
        /// For a proxy that does not strip it.
        dashboard_path: UrlPath = "/";
    }
}
