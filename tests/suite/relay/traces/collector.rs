//! An OpenTelemetry collector, as far as a relay sees one: it takes spans over HTTP or gRPC, or does not.

use std::sync::{Arc, Mutex};

use harness::{RelayBuilder, SOON, Stack, eventually};
use hyper::server::conn::http2;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{AnyValue, KeyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

use crate::publish::tls::Certificates;

/// What it speaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Protocol {
    Http,
    Grpc,
}

/// What it does with spans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Manners {
    Takes,
    /// Answers with this status: of HTTP, or a code of gRPC.
    Refuses(u16),
    /// Accepts the connection and answers nothing, until it has other manners.
    IsSilent,
}

#[derive(Default)]
struct Seen {
    requests: Vec<ExportTraceServiceRequest>,
    heads: Vec<String>,
    /// Requests, answered or not.
    heard: usize,
    refused: usize,
}

/// Listens on this machine until it is dropped.
pub(super) struct Collector {
    protocol: Protocol,
    scheme: &'static str,
    port: u16,
    manners: watch::Sender<Manners>,
    seen: Arc<Mutex<Seen>>,
    _task: JoinSet<()>,
}

impl Collector {
    /// One that speaks HTTP.
    pub(super) async fn start(manners: Manners) -> Self {
        Self::speaking(Protocol::Http, manners).await
    }

    pub(super) async fn speaking(protocol: Protocol, manners: Manners) -> Self {
        Self::listen(protocol, manners, None).await
    }

    /// One that speaks TLS and takes spans.
    pub(super) async fn with_tls(protocol: Protocol, files: &Certificates) -> Self {
        let certificate = CertificateDer::from_pem_file(files.path("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(files.path("server.key")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Self::listen(protocol, Manners::Takes, Some(Arc::new(config).into())).await
    }

    async fn listen(protocol: Protocol, manners: Manners, tls: Option<TlsAcceptor>) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (manners, seen) = (watch::Sender::new(manners), Arc::new(Mutex::new(Seen::default())));
        let mut task = JoinSet::new();
        let shared = (manners.subscribe(), Arc::clone(&seen));
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let ((manners, seen), tls) = (shared.clone(), tls.clone());
                connections.spawn(async move {
                    match tls {
                        None => serve(protocol, socket, manners, seen).await,
                        // Whoever does not trust the certificate ends the connection.
                        Some(tls) => {
                            if let Ok(socket) = tls.accept(socket).await {
                                serve(protocol, socket, manners, seen).await;
                            }
                        }
                    }
                });
            }
        });
        Self { protocol, scheme, port, manners, seen, _task: task }
    }

    pub(super) fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// A relay that sends spans here.
    pub(super) fn fed_by(&self, stack: &Stack) -> RelayBuilder {
        let relay = super::traced(stack, &self.url());
        match self.protocol {
            Protocol::Http => relay,
            Protocol::Grpc => relay.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        }
    }

    pub(super) fn becomes(&self, manners: Manners) {
        self.manners.send_replace(manners);
    }

    /// All spans so far.
    pub(super) fn spans(&self) -> Vec<Span> {
        let seen = self.seen.lock().unwrap();
        let of_services = seen.requests.iter().flat_map(|request| &request.resource_spans);
        of_services.flat_map(|spans| &spans.scope_spans).flat_map(|spans| spans.spans.clone()).collect()
    }

    /// Waits for so many spans.
    pub(super) async fn wait_for(&self, count: usize) -> Vec<Span> {
        eventually(&format!("{count} spans"), SOON, async || {
            let spans = self.spans();
            if spans.len() >= count { Ok(spans) } else { Err(spans.len()) }
        })
        .await
    }

    /// Waits until it has heard a whole request, which it may not have answered.
    pub(super) async fn wait_for_request(&self) {
        eventually("a request has come", SOON, async || match self.seen.lock().unwrap().heard {
            0 => Err(()),
            _ => Ok(()),
        })
        .await;
    }

    /// Waits until it has refused a request.
    pub(super) async fn wait_for_refusal(&self) {
        eventually("a request was refused", SOON, async || match self.seen.lock().unwrap().refused {
            0 => Err(()),
            _ => Ok(()),
        })
        .await;
    }

    /// An attribute of the service that has sent the first spans.
    pub(super) fn resource(&self, name: &str) -> Option<String> {
        let seen = self.seen.lock().unwrap();
        let resource = seen.requests.first()?.resource_spans.first()?.resource.as_ref()?;
        text(&resource.attributes, name)
    }

    /// Head of the first request, in lower case.
    pub(super) fn head(&self) -> String {
        self.seen.lock().unwrap().heads[0].clone()
    }
}

async fn serve(
    protocol: Protocol,
    socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    manners: watch::Receiver<Manners>,
    seen: Arc<Mutex<Seen>>,
) {
    match protocol {
        Protocol::Http => serve_http(socket, manners, seen).await,
        Protocol::Grpc => {
            let service = TowerToHyperService::new(TraceServiceServer::new(Grpc { manners, seen }));
            // It fails when the relay closes the connection.
            let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
        }
    }
}

struct Grpc {
    manners: watch::Receiver<Manners>,
    seen: Arc<Mutex<Seen>>,
}

#[tonic::async_trait]
impl TraceService for Grpc {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        self.seen.lock().unwrap().heard += 1;
        let manners = *self.manners.clone().wait_for(|manners| *manners != Manners::IsSilent).await.unwrap();
        let mut seen = self.seen.lock().unwrap();
        match manners {
            Manners::Takes => {
                seen.heads.push(format!("{:?}", request.metadata()).to_lowercase());
                seen.requests.push(request.into_inner());
                Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
            }
            Manners::Refuses(code) => {
                seen.refused += 1;
                Err(tonic::Status::new(i32::from(code).into(), "words"))
            }
            Manners::IsSilent => unreachable!("it was waited for"),
        }
    }
}

/// One request after the other.
async fn serve_http(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    mut manners: watch::Receiver<Manners>,
    seen: Arc<Mutex<Seen>>,
) {
    let mut bytes = Vec::new();
    loop {
        let (head, body) = loop {
            if let Some(request) = take_request(&mut bytes) {
                break request;
            }
            match socket.read_buf(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        };
        seen.lock().unwrap().heard += 1;
        let Ok(manners) = manners.wait_for(|manners| *manners != Manners::IsSilent).await.map(|manners| *manners)
        else {
            return;
        };
        let status = match manners {
            Manners::Takes => {
                let mut seen = seen.lock().unwrap();
                seen.requests.push(ExportTraceServiceRequest::decode(&*body).expect("it is OTLP"));
                seen.heads.push(head);
                200
            }
            Manners::Refuses(status) => {
                seen.lock().unwrap().refused += 1;
                status
            }
            Manners::IsSilent => unreachable!("it was waited for"),
        };
        let answer = format!("HTTP/1.1 {status} Words\r\ncontent-length: 0\r\n\r\n");
        if socket.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn take_request(bytes: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    if bytes.len() < end + length {
        return None;
    }
    let body = bytes[end..end + length].to_vec();
    bytes.drain(..end + length);
    Some((head, body))
}

fn text(attributes: &[KeyValue], name: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == name)?;
    match attribute.value.clone()? {
        AnyValue { value: Some(Value::StringValue(text)) } => Some(text),
        AnyValue { value: Some(Value::IntValue(number)) } => Some(number.to_string()),
        other => panic!("{name}: {other:?}"),
    }
}

/// An attribute of a span, numbers as text.
pub(super) fn attribute(span: &Span, name: &str) -> Option<String> {
    text(&span.attributes, name)
}

/// Whether it says that a message was produced, and how that ended: `error.type` and the reason.
pub(super) fn ending(span: &Span) -> Option<(String, String)> {
    assert_eq!(span.kind(), SpanKind::Producer);
    let status = span.status.clone().unwrap();
    let error = attribute(span, "error.type");
    assert_eq!(status.code() == StatusCode::Error, error.is_some(), "{span:?}");
    assert_ne!(status.code(), StatusCode::Unset);
    error.map(|error| (error, status.message))
}

/// The header `traceparent` that stands for this span.
pub(super) fn traceparent(span: &Span) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("00-{}-{}-{:02x}", hex(&span.trace_id), hex(&span.span_id), span.flags & 0xFF)
}
