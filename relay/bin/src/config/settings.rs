//! The list of settings.

use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use amqp_publisher::AmqpUrl;
use outbox_core::Ordering;
use outbox_service::{
    address::Address,
    collector::{OtlpEndpoint, OtlpHeaders},
    sink::rabbitmq::Unroutable,
};
use pg_replication::ConnInfo;

use super::{
    raw::RawSettings,
    rule::Rule::{self, Count, File, Filter, HostNames, Identifier, Size, SlotName, Switch, Text, Time, Url, UrlPath},
    setting::{Setting, settings},
    value::{
        AFTER_FAILED, AfterFailed, LOG_FORMAT, Listen, LogFormat, OPTIONAL_DATABASE, OPTIONAL_RATE, OPTIONAL_WAL,
        ORDERING, OTLP_ENDPOINT, OTLP_HEADERS, Optional, RETENTION, UNROUTABLE, harmless,
    },
};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_hours(1);
const MIB: u64 = 1 << 20;

settings! {
    "Servers" {
        /// PostgreSQL to read from.
        /// A URL or libpq's key=value form. The role needs REPLICATION and the grants of outbox.grant_relay().
        database_url: Address<ConnInfo> = Url { form: "postgres://user:password@host:5432/database", check: harmless::<ConnInfo> }, None;

        /// File that holds database_url, instead of it.
        /// It is read again for each connection, so a password that is changed there needs no restart.
        database_url_file: Optional<PathBuf> = File, Some("off");

        /// RabbitMQ to publish to.
        /// Any number of nodes, with a comma between: amqp://user:password@a:5672,b,c/vhost. They, and all addresses of
        /// a name, are tried in random order. Use amqps:// for TLS.
        amqp_url: Option<Address<AmqpUrl>> = Url { form: "amqp://user:password@host:5672/vhost", check: harmless::<AmqpUrl> }, None;

        /// File that holds amqp_url, instead of it.
        /// It is read again for each connection.
        amqp_url_file: Optional<PathBuf> = File, Some("off");

        /// Whether a start ends instead of waiting for a server or for the schema's upgrade.
        /// For scripts; the flag needs no value. A permanent error, such as a wrong password, ends a start in any case.
        no_wait: bool = Switch, Some("false");

        /// Name under which both servers list the connections.
        /// In pg_stat_activity, and in RabbitMQ's management pages.
        application_name: String = Identifier, Some("outbox-relay");
    }

    "Reading" {
        /// Publication of the outbox table.
        publication: String = Identifier, Some("outbox");

        /// Replication slot.
        /// One relay at a time reads a slot. Others with the same slot wait to take over.
        slot: String = SlotName, Some("outbox");

        /// Whether run creates publication and slot when they are missing.
        create_slot: bool = Switch, Some("true");

        /// Whether standbys may copy the slot, so that a promoted one has it.
        /// From PostgreSQL 17 on. Where synchronized_standby_slots is set, events then leave only once these standbys
        /// have them. Without it a promoted standby gets a new slot, and no event is lost by that.
        failover_slot: bool = Switch, Some("false");

        /// How much of the WAL the slot may keep before the relay creates it again.
        /// For the disk's sake: no event is lost, what is PENDING is read from the table. Set it to several times what
        /// the server writes in 15 s, and max_slot_wal_keep_size above it: that also limits the slot while no relay
        /// runs. Needs create_slot.
        max_slot_wal: Optional<u64> = OPTIONAL_WAL, Some("off");

        /// How long the active relay may be unresponsive before a standby takes over.
        /// Sets wal_sender_timeout for the relay's stream, if the server's is longer. A relay whose process has died is
        /// replaced within a second.
        takeover_after: Duration = Time(Duration::from_secs(1)..=HOUR), Some("10s");

        /// How often the relay checks publication and table even if nothing calls for it.
        /// A safety net under the stream, which brings everything as it happens. It finds events that were committed
        /// while the table was out of the publication, and replays that were made with triggers disabled.
        check_interval: Duration = Time(Duration::from_millis(100)..=HOUR), Some("60s");

        /// Longest time between two standby status updates to PostgreSQL.
        /// There are at least three within takeover_after and the server's wal_sender_timeout, whatever is set here.
        status_interval: Duration = Time(Duration::from_millis(100)..=MINUTE), Some("10s");
    }

    "Publishing" {
        /// Exchange of events that name none.
        exchange: String = Text { max_bytes: 255 }, Some("outbox");

        /// Whether to declare that exchange (topic, durable) at the first connection.
        /// One that is gone later is waited for: created again, it would have no bindings.
        declare_exchange: bool = Switch, Some("true");

        /// Order among events of one key (aggregate_type, aggregate_id).
        /// strict: the next leaves when the one before has its verdict. pipelined: several are in flight together, for
        /// one very hot key; a nack between them can reorder. none: keys mean nothing.
        ordering: Ordering = ORDERING, Some("strict");

        /// What becomes of an event that no queue is bound for.
        /// fail: FAILED at once. retry: tried again later; each attempt counts.
        unroutable: Unroutable = UNROUTABLE, Some("fail");

        /// Events handed to RabbitMQ and not yet confirmed, at most.
        /// A crash repeats these, and up to twice settle_batch whose verdicts were not written yet.
        in_flight: usize = Count(1..=10_000), Some("1000");

        /// Events published in a second, at most.
        /// For consumers that must not get a backlog of hours at once. What is emitted beyond it waits in the table,
        /// and the slot moves on. Redeliveries count as well.
        max_rate: Optional<NonZeroU32> = OPTIONAL_RATE, Some("off");

        /// How long RabbitMQ may confirm nothing before the relay drops the connection.
        /// Counts only while something waits for a confirm and RabbitMQ does not say that it is blocked.
        confirm_timeout: Duration = Time(Duration::from_millis(100)..=HOUR), Some("30s");

        /// AMQP app_id of every message.
        app_id: String = Text { max_bytes: 255 }, Some("outbox-relay");

        /// Whether messages have the headers aggregate_type and aggregate_id.
        /// Without them a message is a sixth cheaper for a quorum queue of RabbitMQ 4; consumers are not told the
        /// ordering key then.
        key_headers: bool = Switch, Some("true");
    }

    "Retrying" {
        /// Failed attempts after which an event is FAILED, once retry_for has passed too.
        /// While RabbitMQ takes nothing, no attempt counts.
        max_attempts: u32 = Count(1..=1000), Some("10");

        /// How long, at least, an event is tried again.
        /// Counts from its first attempt. No event fails because a queue is full, or lacks its majority, for less
        /// than this. With 0s max_attempts alone decides.
        retry_for: Duration = Time(Duration::ZERO..=Duration::from_hours(30 * 24)), Some("1h");

        /// Delay after the first failed attempt.
        /// It doubles with each further one, and is shortened at random by up to a half.
        retry_base: Duration = Time(MS..=HOUR), Some("200ms");

        /// Longest delay between two attempts.
        retry_max: Duration = Time(MS..=Duration::from_hours(24)), Some("60s");

        /// What becomes of the later events of a key when one has FAILED.
        /// continue: they go on without it. hold: they wait until an operator replays it, or lets them go on by
        /// outbox.release().
        after_failed: AfterFailed = AFTER_FAILED, Some("continue");
    }

    "Memory" {
        /// Events in memory, at most.
        /// What does not fit waits in the table.
        max_events: usize = Count(100..=1_000_000), Some("10000");

        /// Bytes of events in memory, at most.
        /// The event that crosses the bound is still taken.
        max_bytes: usize = Size(MIB..=4096 * MIB), Some("32MiB");

        /// How long RabbitMQ may be away before events stay in the table.
        /// Until then they wait in memory. After that the relay keeps reading and acknowledging the WAL, so that it
        /// does not pile up.
        park_after: Duration = Time(Duration::ZERO..=HOUR), Some("1s");
    }

    "Writing back" {
        /// Verdicts written in one statement, at most.
        settle_batch: usize = Count(1..=10_000), Some("1000");

        /// How long a verdict may wait for others to share its statement.
        settle_interval: Duration = Time(Duration::ZERO..=Duration::from_secs(10)), Some("5ms");

        /// How long the drain after SIGTERM may take.
        /// Kubernetes kills after 30s unless told otherwise: stay below its terminationGracePeriodSeconds.
        shutdown_timeout: Duration = Time(Duration::ZERO..=HOUR), Some("25s");
    }

    "Retention" {
        /// How long an event is kept after it has become SENT.
        /// The active relay then deletes it, late by at most a tenth of this time. Keep it for as long as you may want
        /// to replay. The role needs outbox.grant_maintain().
        retention: Optional<Duration> = RETENTION, Some("off");

        /// How long an event is kept after it has FAILED.
        /// Then nobody can replay it any more. One that holds its key is kept in any case.
        retention_failed: Optional<Duration> = RETENTION, Some("off");
    }

    "Watching" {
        /// Where to answer HTTP: /metrics, /healthz, /readyz and the dashboard.
        /// A port alone listens on 127.0.0.1, for this machine only. Only the dashboard's operators are shown payloads.
        http_listen: Listen = Rule::Listen, Some("off");
    }

    "Tracing" {
        /// OpenTelemetry collector that takes a span for each sampled event.
        /// An event is sampled if its header traceparent says so. By OTLP over HTTP, as protobuf, to /v1/traces below
        /// this address, or by gRPC if OTEL_EXPORTER_OTLP_PROTOCOL is grpc. For a relay that is built with
        /// --features otel; there OTEL_EXPORTER_OTLP_ENDPOINT is accepted as well.
        otlp_endpoint: Optional<OtlpEndpoint> = OTLP_ENDPOINT, Some("off");

        /// Headers that the collector asks for, such as a key.
        /// OTEL_EXPORTER_OTLP_HEADERS is accepted as well.
        otlp_headers: Optional<OtlpHeaders> = OTLP_HEADERS, Some("off");

        /// service.name of the spans.
        /// OTEL_SERVICE_NAME is accepted as well.
        otlp_service_name: String = Text { max_bytes: 255 }, Some("outbox-relay");
    }

    "Dashboard" {
        /// Whether http_listen serves the dashboard, too.
        dashboard: bool = Switch, Some("true");

        /// PostgreSQL as the dashboard reads it: a role with outbox.grant_monitor().
        /// That role sees no payloads. Without it the dashboard shows only what the relay knows of itself.
        dashboard_database_url: Optional<Address<ConnInfo>> = OPTIONAL_DATABASE, Some("off");

        /// File that holds dashboard_database_url, instead of it.
        /// It is read again for each connection.
        dashboard_database_url_file: Optional<PathBuf> = File, Some("off");

        /// PostgreSQL for the dashboard's operators: a role with outbox.grant_operate().
        /// For payloads, replays and releases. Without it the dashboard is for reading only.
        dashboard_operator_database_url: Optional<Address<ConnInfo>> = OPTIONAL_DATABASE, Some("off");

        /// File that holds dashboard_operator_database_url, instead of it.
        /// It is read again for each connection.
        dashboard_operator_database_url_file: Optional<PathBuf> = File, Some("off");

        /// File with the tokens of those who may read the dashboard.
        /// One name and token per line. Without it, whoever reaches a relay that listens on loopback may read, and
        /// nobody else.
        dashboard_readers: Optional<PathBuf> = File, Some("off");

        /// File with the tokens of those who may also see payloads, replay and release.
        /// One name and token per line. The name is written into outbox.audit.
        dashboard_operators: Optional<PathBuf> = File, Some("off");

        /// Host names under which browsers may reach the dashboard, separated by commas.
        /// Addresses and localhost are always allowed. Other names are refused, so that no other site can pass for this
        /// one.
        dashboard_hosts: String = HostNames, Some("localhost");

        /// Path below which the dashboard is.
        /// Needed behind a proxy that forwards the whole path, and not behind one that strips its prefix.
        dashboard_path: String = UrlPath, Some("/");
    }

    "Logging" {
        /// Form of log lines on standard error.
        /// text: for people. json: one object a line.
        log_format: LogFormat = LOG_FORMAT, Some("text");

        /// What to log: a level, or target=level pairs with commas between.
        /// An example is info,relay=debug.
        log: String = Filter, Some("info");
    }
}
