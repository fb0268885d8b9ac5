//! Sends finished spans to an OpenTelemetry collector, in the background and within bounds: OTLP over HTTP, as protobuf.
//!
//! ```text
//!  Spans ──queue──▶ the exporter's thread ── batches ──▶ collector
//!  (never waits)     makes, gathers, tries again        POST …/v1/traces
//! ```
//!
//! Whoever hands a span over never waits for the collector. What the queue does not hold is dropped, and counted.
//!
//! | module | what it is | I/O |
//! |---|---|---|
//! | `context` | [`Context`]: W3C Trace Context | no |
//! | `span` | [`Span`], and many of them as a message | no |
//! | `endpoint`, `headers` | where the collector is, and what it asks for | no |
//! | `exporter` | [`Exporter`]: the queue and the thread | yes |
//! | `post` | HTTP | yes |
//!
//! ```no_run
//! # async fn example(span: otlp_exporter::Span) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use otlp_exporter::{Counts, Exporter, Headers, Service};
//!
//! let service = Service {
//!     name: "shop".to_owned(),
//!     version: "1.0".to_owned(),
//!     instance: "a".to_owned(),
//!     program: "shop",
//!     schema: "https://opentelemetry.io/schemas/1.44.0",
//! };
//! let report = |report| eprintln!("{report:?}");
//! let exporter = Exporter::start("http://localhost:4318".parse()?, Headers::default(), service, Counts::default(), report)?;
//! exporter.spans().push(|| span);
//! exporter.finish(Duration::from_secs(2)).await;
//! # Ok(())
//! # }
//! ```

mod context;
mod endpoint;
mod exporter;
mod headers;
mod post;
mod span;

pub use self::{
    context::{Context, TRACEPARENT_BYTES},
    endpoint::{BadEndpoint, Endpoint},
    exporter::{Counts, Exporter, QUEUE, Report, Spans},
    headers::{BadHeaders, Headers},
    span::{Kind, Service, Span, Value},
};
