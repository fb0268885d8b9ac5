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
        /// A URL or libpq's key=value form. The role needs REPLICATION and the grants of outbox.grant_relay().
        database_url: Url<ConnInfo>;

        /// Publication of the outbox table.
        publication: Identifier = "outbox";

        /// Replication slot.
        /// One relay at a time reads a slot. Others with the same slot wait to take over.
        slot: SlotName = "outbox";

        /// Whether run creates publication and slot when they are missing.
        create_slot: bool = "true";

        /// Whether standbys may copy the slot, so that a promoted one has it.
        /// From PostgreSQL 17 on. Where synchronized_standby_slots is set, events then leave only once these standbys
        /// have them. Without it a promoted standby gets a new slot, and no event is lost by that.
        failover_slot: bool = "false";

        /// How much of the WAL the slot may keep before the relay creates it again.
        /// For the disk's sake: no event is lost, what is PENDING is read from the table. Set it to several times what
        /// the server writes in 15 s, and max_slot_wal_keep_size above it: that also limits the slot while no relay
        /// runs. Needs create_slot.
        max_slot_wal: OrOff<Size<u64, { 64 * MIB }, { 1 << 50 }>> = "off";

        /// How often the relay checks publication and table even if nothing calls for it.
        /// A safety net under the stream, which brings everything as it happens. It finds events that were committed
        /// while the table was out of the publication, and replays that were made with triggers disabled.
        check_interval: Time<{ 100 * MS }, HOUR> = "60s";
    }

    "RabbitMQ" {
        /// RabbitMQ to publish to.
        /// Any number of nodes, with a comma between: amqp://user:password@a:5672,b,c/vhost. They, and all addresses of
        /// a name, are tried in random order. Use amqps:// for TLS.
        amqp_url: OrOff<Url<AmqpUrl>>;

        /// Exchange of events that name none.
        exchange: Text<255> = "outbox";

        /// Whether to declare that exchange (topic, durable) at the first connection.
        /// One that is gone later is waited for: created again, it would have no bindings.
        declare_exchange: bool = "true";

        /// Whether messages have the headers aggregate_type and aggregate_id.
        /// Without them a message is a sixth cheaper for a quorum queue of RabbitMQ 4; consumers are not told the
        /// ordering key then.
        key_headers: bool = "true";
    }

    "Kafka" {
        /// Kafka to publish to.
        /// Brokers of one cluster, with a comma between: kafka://user:password@a:9092,b,c. Use kafkas:// for TLS, and
        /// ?sasl=scram-sha-512 for another login than plain.
        kafka_url: OrOff<Url<KafkaUrl>>;

        /// Topic of events that name no exchange.
        /// Text with {topic}, {aggregate_type} and {type}. Events of one key must meet in one topic, or they have no
        /// order.
        kafka_topic: Topic = "{topic}";

        /// How much of a topic the relay reads back, so that no event is published twice.
        /// It reads what was published since a little before the last verdict: after a start, a takeover, or a lost
        /// connection. If a topic has more of that time, the relay warns, and what was in flight may be published
        /// again. off: nothing is read, and a relay that was frozen is not shut out.
        kafka_read_back: OrOff<Size<u64, MIB, { 1 << 40 }>> = "256MiB";

        /// How batches of records are compressed.
        /// Consumers see no difference. lz4 and zstd cost the relay least, and zstd makes the smallest batches. A
        /// topic's own compression.type decides how the broker keeps them.
        kafka_compression: Compression = "none";

        /// Form of the records.
        /// none: key, headers and body as docs/kafka.md describes them. debezium: what Debezium Server's outbox event
        /// router makes of the event, for consumers that were written for it; docs/migrate.md compares the two.
        envelope: Envelope = "none";
    }

    "Publishing" {
        /// What becomes of an event whose destination does not exist.
        /// No queue is bound for it, or there is no such topic. fail: FAILED at once. retry: tried again later; each
        /// attempt counts.
        unroutable: Unroutable = "fail";

        /// Order among events of one key (aggregate_type, aggregate_id).
        /// strict: the next leaves when the one before has its verdict. pipelined: several are in flight together, for
        /// one very hot key; a nack between them can reorder. none: keys mean nothing.
        ordering: Ordering = "strict";

        /// Events handed to the broker and not yet confirmed, at most.
        /// A crash repeats these, and up to twice as many whose verdicts were not written yet (2000 at most).
        in_flight: Count<usize, 1, 10_000> = "1000";

        /// Events published in a second, at most.
        /// For consumers that must not get a backlog of hours at once. What is emitted beyond it waits in the table,
        /// and the slot moves on. Redeliveries count as well.
        max_rate: OrOff<Count<u32, 1, 1_000_000>> = "off";

        /// How long the broker may confirm nothing before the relay drops the connection.
        /// Counts only while something waits for a confirm and the broker does not say that it is blocked.
        confirm_timeout: Time<{ 100 * MS }, HOUR> = "30s";

        /// Bytes of events in memory, at most.
        /// The event that crosses the bound is still taken. There are no more events than one for each 3 KiB of it, or
        /// in_flight if that is more. What does not fit waits in the table.
        max_bytes: Size<usize, { 256 * KIB }, { 4 * GIB }> = "32MiB";

        /// How long the broker may be away before events stay in the table.
        /// Until then they wait in memory. After that the relay keeps reading and acknowledging the WAL, so that it
        /// does not pile up.
        park_after: Time<0, HOUR> = "1s";
    }

    "Retrying" {
        /// Failed attempts after which an event is FAILED, once retry_for has passed too.
        /// While the broker takes nothing, no attempt counts.
        max_attempts: Count<u32, 1, 1000> = "10";

        /// How long, at least, an event is tried again.
        /// Counts from its first attempt. No event fails because a queue is full, or lacks its majority, for less
        /// than this. With 0s max_attempts alone decides. Only attempts that count do.
        retry_for: Time<0, { 30 * DAY }> = "1h";

        /// Delay after the first failed attempt.
        /// It doubles with each further one, and is shortened at random by up to a half.
        retry_base: Time<MS, HOUR> = "200ms";

        /// Longest delay between two attempts.
        retry_max: Time<MS, DAY> = "60s";

        /// What becomes of the later events of a key when one has FAILED.
        /// continue: they go on without it. hold: they wait until an operator replays it, or lets them go on by
        /// outbox.release().
        after_failed: AfterFailed = "continue";
    }

    "Running" {
        /// Whether a start ends instead of waiting for a server or for the schema's upgrade.
        /// For scripts; the flag needs no value. A permanent error, such as a wrong password, ends a start in any case.
        no_wait: bool = "false";

        /// Name under which the servers list the relay.
        /// In pg_stat_activity, in RabbitMQ's management pages, and as AMQP app_id of every message.
        application_name: Identifier = "outbox-relay";

        /// How long the active relay may be unresponsive before a standby takes over.
        /// Sets wal_sender_timeout for the relay's stream, if the server's is longer. A relay whose process has died is
        /// replaced within a second.
        takeover_after: Time<SECOND, HOUR> = "10s";

        /// How long the drain after SIGTERM may take.
        /// Kubernetes kills after 30s unless told otherwise: stay below its terminationGracePeriodSeconds.
        shutdown_timeout: Time<0, HOUR> = "25s";
    }

    "Deletion" {
        /// How long an event is kept after it has become SENT.
        /// The active relay then deletes it, late by at most a tenth of this time. Keep it for as long as you may want
        /// to replay. The role needs outbox.grant_maintain().
        retention: Retention = "off";

        /// How long an event is kept after it has FAILED.
        /// Then nobody can replay it any more. One that holds its key is kept in any case.
        retention_failed: Retention = "off";
    }

    "Watching" {
        /// Where to answer HTTP: /metrics, /healthz, /readyz and the dashboard.
        /// A port alone listens on 127.0.0.1, for this machine only. Only the dashboard's operators are shown payloads.
        http_listen: OrOff<ListenAt> = "off";

        /// OpenTelemetry collector that takes a span for each sampled event.
        /// An event is sampled if its header traceparent says so. By OTLP over HTTP, as protobuf, to /v1/traces below
        /// this address, or by gRPC if OTEL_EXPORTER_OTLP_PROTOCOL is grpc. OTEL_EXPORTER_OTLP_HEADERS and
        /// OTEL_SERVICE_NAME count, too. For a relay that is built with --features otel; there
        /// OTEL_EXPORTER_OTLP_ENDPOINT is accepted as well.
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
        /// That role sees no payloads. Without it the dashboard shows only what the relay knows of itself.
        dashboard_database_url: OrOff<Url<ConnInfo>> = "off";

        /// PostgreSQL for the dashboard's operators: a role with outbox.grant_operate().
        /// For payloads, replays and releases. Without it the dashboard is for reading only.
        dashboard_operator_database_url: OrOff<Url<ConnInfo>> = "off";

        /// File with the tokens of those who may read the dashboard.
        /// One name and token per line. Without it, whoever reaches a relay that listens on loopback may read, and
        /// nobody else.
        dashboard_readers: OrOff<File> = "off";

        /// File with the tokens of those who may also see payloads, replay and release.
        /// One name and token per line. The name is written into outbox.audit.
        dashboard_operators: OrOff<File> = "off";

        /// Host names under which browsers may reach the dashboard, separated by commas.
        /// Addresses and localhost are always allowed. Other names are refused, so that no other site can pass for this
        /// one.
        dashboard_hosts: HostNames = "localhost";

        /// Path below which the dashboard is.
        /// Needed behind a proxy that forwards the whole path, and not behind one that strips its prefix.
        dashboard_path: UrlPath = "/";
    }
}
