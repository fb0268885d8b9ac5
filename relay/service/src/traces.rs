//! Sends spans to an OpenTelemetry collector. A thread of its own does so, to keep the work off the hot path; spans
//! beyond its queue are dropped.
//!
//! ```text
//!  sink ── span ends ──▶ queue ──▶ the thread ── batches ──▶ collector
//!                    (never waits)  gathers, tries again    HTTP or gRPC
//! ```

mod collector;
mod context;
mod log;
mod queue;

use std::{thread, time::Duration};

use opentelemetry::{InstrumentationScope, Key, KeyValue, trace::TracerProvider};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracer, SdkTracerProvider},
};
use tokio::{
    runtime::Builder,
    sync::{oneshot, watch},
    time::{Instant, timeout_at},
};
use tracing::info;

pub(crate) use self::context::{parse, traceparent};
use self::{collector::Collector, queue::queue};
use crate::{
    config::{Config, PROGRAM},
    error::{Kind, RunError},
    observe::Observed,
};

/// The semantic conventions that names and attributes of spans follow.
pub(crate) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.44.0";

/// How long the relay's end waits for the collector: a small part of the time that a supervisor leaves beyond
/// `shutdown_timeout`.
const FLUSH: Duration = Duration::from_secs(2);

/// The exporter of spans, if a collector is configured.
pub(crate) struct Traces(Option<Exporter>);

struct Exporter {
    provider: SdkTracerProvider,
    end: watch::Sender<Option<Instant>>,
    ended: oneshot::Receiver<()>,
}

impl Traces {
    /// Starts the exporter, if a collector is configured.
    ///
    /// # Errors
    ///
    /// The exporter or its thread cannot be started.
    pub(crate) fn start(config: &Config, observed: &Observed) -> Result<Self, RunError> {
        let Some(endpoint) = &config.collector else { return Ok(Self(None)) };
        let cannot = |what| move |error| RunError::new(Kind::Internal, what).source(error);
        let resource = resource();
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(cannot("cannot start spans' thread"))?;
        let entered = runtime.enter();
        let collector = Collector::new(endpoint, &resource)
            .map_err(|error| RunError::new(Kind::Internal, format!("cannot send spans to {endpoint}: {error}")))?;
        drop(entered);
        let (end, until) = watch::channel(None);
        let (has_ended, ended) = oneshot::channel::<()>();
        let (queue, worker) = queue(collector, observed.spans().clone(), until);
        thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || {
                runtime.block_on(worker.run());
                runtime.shutdown_background(); // a running look-up of a host name must not delay the end
                drop(has_ended);
            })
            .map_err(cannot("cannot start the thread for spans"))?;
        info!(target: "relay", %endpoint, "spans of sampled events go to the collector");
        // The emitter decides about sampling; the relay starts spans only for sampled events.
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(resource)
            .with_span_processor(queue)
            .build();
        Ok(Self(Some(Exporter { provider, end, ended })))
    }

    /// The tracer that starts spans; `None`: no collector is configured.
    pub(crate) fn tracer(&self) -> Option<SdkTracer> {
        let Exporter { provider, .. } = self.0.as_ref()?;
        let scope =
            InstrumentationScope::builder(PROGRAM).with_version(env!("CARGO_PKG_VERSION")).with_schema_url(SCHEMA);
        Some(provider.tracer_with_scope(scope.build()))
    }

    /// Sends the remaining spans, as far as the collector takes them within [`FLUSH`].
    pub(crate) async fn finish(self) {
        if let Some(Exporter { end, ended, .. }) = self.0 {
            let deadline = Instant::now() + FLUSH;
            end.send_replace(Some(deadline));
            // The thread misses its own deadline only on a very busy machine.
            let _ = timeout_at(deadline + FLUSH, ended).await;
        }
    }
}

/// The description of this relay in its spans. OTEL_SERVICE_NAME names it, and OTEL_RESOURCE_ATTRIBUTES adds to it.
fn resource() -> Resource {
    let instance = uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes()).into_uuid();
    let about =
        [("service.version", env!("CARGO_PKG_VERSION").to_owned()), ("service.instance.id", instance.to_string())];
    let about = about.map(|(name, value)| KeyValue::new(name, value));
    let builder = Resource::builder().with_schema_url(about, SCHEMA);
    // The SDK takes the name among OTEL_RESOURCE_ATTRIBUTES first, and OpenTelemetry's specification takes it last.
    if let Some(name) = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty()) {
        return builder.with_service_name(name).build();
    }
    // The SDK's detectors call a service that no variable names unknown_service.
    let named = Resource::builder().build().get(&Key::new("service.name"));
    let is_named = named.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    if is_named { builder.build() } else { builder.with_service_name(PROGRAM).build() }
}
