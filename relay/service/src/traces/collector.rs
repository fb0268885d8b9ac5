//! Sends batches of spans to the collector by opentelemetry-otlp, over HTTP or gRPC.

use std::{
    env,
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use hyper::{
    Request, Response,
    header::{HeaderValue, USER_AGENT},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_http::{HttpClient, HttpError, hyper::HyperClient};
use opentelemetry_otlp::{
    OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_EXPORTER_OTLP_PROTOCOL_GRPC, Protocol, RetryPolicy, SpanExporter,
    WithExportConfig, WithHttpConfig, WithTonicConfig,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanExporter as _},
};
use prost::Message;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tonic::transport::Endpoint;

use crate::collector::OtlpEndpoint;

/// Time limit of a request, from the connection to the whole answer: OTLP's own default.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time limit of one [`send`](Collector::send): two requests, and the longest pause that the exporter accepts from a
/// collector, 30 s. After the limit, the exporter does not judge whether a failure is transient.
const SEND_LIMIT: Duration = Duration::from_secs(60);

/// Most characters of a collector's remark that are logged.
const REMARK_CHARS: usize = 200;

type Failed = Box<dyn Error + Send + Sync>;

/// A collector, with its answer to the last batch. Its exporter holds headers, which may be secret, so there is no
/// `Debug`.
pub(super) struct Collector {
    exporter: SpanExporter,
    heard: Arc<Heard>,
}

/// A collector's answer to a batch that it has taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Number of rejected spans.
    pub(super) rejected: u64,
    /// The reason of the rejection, or a warning; often empty.
    pub(super) remark: String,
}

/// Why a batch was not taken.
#[derive(Debug)]
pub(super) struct Failure {
    /// The reason, for people.
    pub(super) why: String,
    /// Whether the collector may take the batch later.
    pub(super) is_transient: bool,
}

impl Collector {
    /// A collector that the first batch connects to. The exporter itself reads OTEL_EXPORTER_OTLP_HEADERS. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// The libraries do not accept the address.
    pub(super) fn new(endpoint: &OtlpEndpoint, resource: &Resource) -> Result<Self, Failed> {
        let heard = Arc::new(Heard::default());
        let is_grpc = env::var(OTEL_EXPORTER_OTLP_PROTOCOL)
            .is_ok_and(|protocol| protocol.eq_ignore_ascii_case(OTEL_EXPORTER_OTLP_PROTOCOL_GRPC));
        let mut exporter = if is_grpc { by_grpc(endpoint, &heard)? } else { by_http(endpoint, &heard)? };
        exporter.set_resource(resource);
        Ok(Self { exporter, heard })
    }

    /// Sends a batch, and waits for the answer. After a transient failure the exporter repeats the request once.
    pub(super) async fn send(&self, batch: Vec<SpanData>) -> Result<Taken, Failure> {
        *self.heard.lock() = Answer::default();
        let sent = self.exporter.export(batch).await;
        let Answer { requests, error, taken } = std::mem::take(&mut *self.heard.lock());
        sent.map(|()| taken).map_err(|failed| Failure {
            why: error.unwrap_or_else(|| failed.to_string()),
            // The exporter knows which failures OTLP calls transient, and repeats the request only after those.
            is_transient: requests > 1,
        })
    }
}

/// The policy for one repetition, as [`Collector::send`] documents it.
fn retry_once() -> RetryPolicy {
    let pause = Duration::from_millis(500);
    RetryPolicy::default()
        .with_max_retries(1)
        .with_initial_delay(pause)
        .with_max_delay(2 * pause)
        .with_max_jitter(pause)
}

fn by_http(endpoint: &OtlpEndpoint, heard: &Arc<Heard>) -> Result<SpanExporter, Failed> {
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls(endpoint)?).https_or_http().enable_http1().build();
    let client = HyperClient::new(connector, PATIENCE, None);
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{endpoint}/v1/traces"))
        .with_http_client(Http { client, heard: Arc::clone(heard) })
        .with_retry_policy(retry_once())
        .with_timeout(SEND_LIMIT)
        .build()?;
    Ok(exporter)
}

fn by_grpc(endpoint: &OtlpEndpoint, heard: &Arc<Heard>) -> Result<SpanExporter, Failed> {
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls(endpoint)?).https_or_http().enable_http2().build();
    let channel = Endpoint::from_shared(endpoint.to_string())?
        .user_agent(PROGRAM)?
        .connect_timeout(PATIENCE)
        .timeout(PATIENCE)
        .connect_with_connector_lazy(connector);
    let heard = Arc::clone(heard);
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_channel(channel)
        .with_interceptor(move |request: tonic::Request<()>| {
            heard.begins();
            Ok(request)
        })
        .with_retry_policy(retry_once())
        .with_timeout(SEND_LIMIT)
        .build()?;
    Ok(exporter)
}

const PROGRAM: &str = concat!("outbox-relay/", env!("CARGO_PKG_VERSION"));

/// TLS with the machine's certificate authorities. A machine without any must not end the relay, so only the handshakes
/// fail.
fn tls(endpoint: &OtlpEndpoint) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    if endpoint.is_tls() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    Ok(builder.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth())
}

/// The details of an answer that the exporter's result leaves out.
#[derive(Debug, Default)]
struct Heard(Mutex<Answer>);

#[derive(Debug, Default)]
struct Answer {
    /// Number of requests for the batch.
    requests: u32,
    /// Why the last request had no answer.
    error: Option<String>,
    taken: Taken,
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, Answer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begins(&self) {
        let mut answer = self.lock();
        *answer = Answer { requests: answer.requests + 1, ..Answer::default() };
    }
}

/// The HTTP client below the exporter. It records the reason of a failure and a partial success, which the exporter
/// does not return.
#[derive(Debug)]
struct Http {
    client: HyperClient<HttpsConnector<HttpConnector>>,
    heard: Arc<Heard>,
}

#[async_trait]
impl HttpClient for Http {
    async fn send_bytes(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.heard.begins();
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(PROGRAM));
        let sent = self.client.send_bytes(request).await;
        let mut answer = self.heard.lock();
        match &sent {
            Ok(response) if response.status().is_success() => answer.taken = taken(response.body()),
            Ok(_) => {}
            Err(error) => answer.error = Some(in_full(&**error)),
        }
        sent
    }
}

/// An error with its causes, which hyper's own text leaves out.
fn in_full(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
        cause = error.source();
    }
    text
}

fn taken(body: &[u8]) -> Taken {
    let answer = ExportTraceServiceResponse::decode(body).unwrap_or_default();
    let Some(partial) = answer.partial_success else { return Taken::default() };
    let remark = partial.error_message.chars().filter(|c| !c.is_control()).take(REMARK_CHARS).collect();
    Taken { rejected: u64::try_from(partial.rejected_spans).unwrap_or(0), remark }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    #[test]
    fn an_answer_is_believed_as_far_as_it_makes_sense() {
        let partly_taken = |rejected_spans, message: &str| {
            let partial = ExportTracePartialSuccess { rejected_spans, error_message: message.to_owned() };
            taken(&ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec())
        };
        assert_eq!(taken(b""), Taken::default());
        assert_eq!(taken(b"<html>"), Taken::default());
        assert_eq!(partly_taken(3, "too old"), Taken { rejected: 3, remark: "too old".to_owned() });
        assert_eq!(partly_taken(-3, "\u{1b}[31m\n"), Taken { rejected: 0, remark: "[31m".to_owned() });
        assert_eq!(partly_taken(0, &"ä".repeat(9999)).remark.chars().count(), REMARK_CHARS);
    }
}
