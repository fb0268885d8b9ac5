//! One request after the other to the collector, over a connection that is kept.

use std::time::Duration;

use bytes::Bytes;
use client_socket::{Socket, TcpOptions, TlsOptions};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, StatusCode,
    client::conn::http1::{SendRequest, handshake},
    header::{CONTENT_TYPE, HOST, HeaderMap, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tokio::{task::JoinSet, time::timeout};

use crate::Endpoint;

/// How long a collector may take, from the connection to its whole answer: OTLP's own default.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The longest answer that is read. A collector that takes everything answers nothing, and one that does not says so in a sentence.
const ANSWER_BYTES: usize = 64 * 1024;

/// As much of what a collector says as a person reads.
const WORDS: usize = 200;

/// What a collector has said of a batch that it took.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Spans that it did not take.
    pub(crate) rejected: u64,
    /// Why, or a warning.
    pub(crate) words: String,
}

/// Why a batch was not taken.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) why: String,
    /// Whether it may be taken later.
    pub(crate) may_pass: bool,
}

pub(crate) struct Post {
    endpoint: Endpoint,
    headers: HeaderMap,
    user_agent: String,
    connection: Option<SendRequest<Full<Bytes>>>,
    driver: JoinSet<()>,
}

impl Post {
    pub(crate) fn new(endpoint: Endpoint, headers: HeaderMap, user_agent: String) -> Self {
        Self { endpoint, headers, user_agent, connection: None, driver: JoinSet::new() }
    }

    /// Sends a batch, and waits for the answer, within a bound. A connection that has failed is not used again.
    pub(crate) async fn send(&mut self, body: Bytes) -> Result<Taken, Failure> {
        let sent = timeout(PATIENCE, self.exchange(body)).await;
        let taken = sent.unwrap_or_else(|_| Err(passing(format!("no answer within {PATIENCE:?}"))));
        if taken.is_err() {
            self.forget();
        }
        taken
    }

    fn forget(&mut self) {
        self.connection = None;
        self.driver.abort_all();
    }

    async fn exchange(&mut self, body: Bytes) -> Result<Taken, Failure> {
        let request = self.request(body)?;
        let mut connection = match self.kept().await {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let answer = connection.send_request(request).await.map_err(|error| passing(in_full(&error)))?;
        let status = answer.status();
        if !status.is_success() {
            let may_pass = matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            return Err(Failure { why: format!("HTTP status {status}"), may_pass });
        }
        let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
        // It has the spans, so they are not sent again, whatever follows.
        let Ok(body) = body else {
            self.forget();
            return Ok(Taken::default());
        };
        self.connection = Some(connection);
        Ok(taken(&body.to_bytes()))
    }

    /// The connection of the request before, if the collector has left it open.
    async fn kept(&mut self) -> Option<SendRequest<Full<Bytes>>> {
        let mut connection = self.connection.take()?;
        connection.ready().await.ok().map(|()| connection)
    }

    fn request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::post(self.endpoint.path())
            .header(HOST, &self.endpoint.authority)
            .header(USER_AGENT, &self.user_agent)
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Full::new(body))
            .map_err(|error| Failure { why: error.to_string(), may_pass: false })?;
        request.headers_mut().extend(self.headers.clone());
        Ok(request)
    }

    async fn connect(&mut self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        self.driver.abort_all();
        let Endpoint { tls, host, port, .. } = &self.endpoint;
        let cannot = |error: std::io::Error| passing(in_full(&error));
        let stream = TcpOptions::default().connect((host.as_str(), *port)).await.map_err(cannot)?;
        let socket =
            if *tls { TlsOptions::default().connect(stream, host).await.map_err(cannot)? } else { Socket::tcp(stream) };
        let (sender, connection) = handshake(TokioIo::new(socket)).await.map_err(|error| passing(in_full(&error)))?;
        self.driver.spawn(async move {
            let _ = connection.await; // whoever waits for an answer learns of it
        });
        while self.driver.try_join_next().is_some() {}
        Ok(sender)
    }
}

fn passing(why: String) -> Failure {
    Failure { why, may_pass: true }
}

/// An error with its causes, which hyper's own text leaves out.
fn in_full(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

fn taken(body: &[u8]) -> Taken {
    let answer = ExportTraceServiceResponse::decode(body).unwrap_or_default();
    let Some(partial) = answer.partial_success else { return Taken::default() };
    let words = partial.error_message.chars().filter(|c| !c.is_control()).take(WORDS).collect();
    Taken { rejected: u64::try_from(partial.rejected_spans).unwrap_or(0), words }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    #[test]
    fn an_answer_is_believed_as_far_as_it_makes_sense() {
        let said = |rejected_spans, message: &str| {
            let partial = ExportTracePartialSuccess { rejected_spans, error_message: message.to_owned() };
            taken(&ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec())
        };
        assert_eq!(taken(b""), Taken::default());
        assert_eq!(taken(b"<html>"), Taken::default());
        assert_eq!(said(3, "too old"), Taken { rejected: 3, words: "too old".to_owned() });
        assert_eq!(said(-3, "\u{1b}[31m\n"), Taken { rejected: 0, words: "[31m".to_owned() });
        assert_eq!(said(0, &"ä".repeat(9999)).words.chars().count(), WORDS);
    }
}
