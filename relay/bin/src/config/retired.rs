//! Settings of earlier versions. They have no effect, and none keeps a relay from its work.

/// A setting of an earlier version.
#[derive(Debug)]
pub(crate) struct Retired {
    /// Its key in the file.
    pub(crate) key: &'static str,
    /// What takes its place, in words for the log.
    pub(crate) instead: &'static str,
}

/// The settings of 0.2.0 that are gone.
pub(crate) static RETIRED: [Retired; 7] = [
    Retired { key: "status_interval", instead: "status updates follow from takeover_after" },
    Retired { key: "settle_batch", instead: "it follows from in_flight" },
    Retired { key: "settle_interval", instead: "verdicts wait 5 ms for others" },
    Retired { key: "max_events", instead: "max_bytes bounds events, too" },
    Retired { key: "app_id", instead: "set application_name" },
    Retired { key: "otlp_headers", instead: "set the variable OTEL_EXPORTER_OTLP_HEADERS" },
    Retired { key: "otlp_service_name", instead: "set the variable OTEL_SERVICE_NAME" },
];

/// Returns the setting of an earlier version with this key.
pub(super) fn by_key(key: &str) -> Option<&'static Retired> {
    RETIRED.iter().find(|retired| retired.key == key)
}
