//! Requests and their responses on one connection.

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::{
    messages::{RequestHeader, ResponseHeader, SaslAuthenticateRequest, SaslHandshakeRequest},
    protocol::{Decodable, HeaderVersion, Request, StrBytes, encode_request_header_into_buffer},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A connection to one node, without encryption. A version is that of the request's and the response's encoding.
#[derive(Debug)]
pub struct KafkaClient {
    stream: TcpStream,
    received: BytesMut,
    /// Of the next request; responses come in the order of requests.
    sent: i32,
    answered: i32,
}

impl KafkaClient {
    /// Connects to a node.
    ///
    /// # Panics
    /// When nobody listens.
    pub async fn connect(port: u16) -> Self {
        Self::try_connect(port).await.unwrap_or_else(|e| panic!("no connection to port {port}: {e}"))
    }

    /// The same, or why it cannot.
    pub(super) async fn try_connect(port: u16) -> Result<Self, String> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        Ok(Self { stream, received: BytesMut::new(), sent: 0, answered: 0 })
    }

    /// Logs in by PLAIN. Returns the code of the answer, 0 or 58 (SASL_AUTHENTICATION_FAILED).
    pub async fn log_in(&mut self, user: &str, password: &str) -> i16 {
        let handshake = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"));
        assert_eq!(self.request(1, &handshake).await.error_code, 0, "the listener has PLAIN");
        let token = Bytes::from(format!("\0{user}\0{password}"));
        self.request(2, &SaslAuthenticateRequest::default().with_auth_bytes(token)).await.error_code
    }

    /// Sends a request and awaits its response.
    ///
    /// # Panics
    /// When the connection ends.
    pub async fn request<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.try_request(version, request).await.unwrap_or_else(|e| panic!("request {}: {e}", R::KEY))
    }

    /// The same, or why it cannot.
    pub(super) async fn try_request<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, String> {
        self.try_send(version, request).await?;
        self.try_receive::<R>(version).await
    }

    /// Sends a request, whose response [`receive`](Self::receive) returns after those of earlier ones.
    ///
    /// # Panics
    /// When the connection has ended.
    pub async fn send<R: Request>(&mut self, version: i16, request: &R) {
        self.try_send(version, request).await.unwrap_or_else(|e| panic!("request {}: {e}", R::KEY));
    }

    /// Awaits the next response, to a request of this kind.
    ///
    /// # Panics
    /// When the connection ends.
    pub async fn receive<R: Request>(&mut self, version: i16) -> R::Response {
        self.try_receive::<R>(version).await.unwrap_or_else(|e| panic!("request {}: {e}", R::KEY))
    }

    async fn try_send<R: Request>(&mut self, version: i16, request: &R) -> Result<(), String> {
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.sent)
            .with_client_id(Some(StrBytes::from_static_str("harness")));
        let mut body = BytesMut::new();
        encode_request_header_into_buffer(&mut body, &header).map_err(|e| e.to_string())?;
        request.encode(&mut body, version).map_err(|e| e.to_string())?;
        let length = u32::try_from(body.len()).expect("a request is shorter than 4 GiB");
        self.sent += 1;
        let frame = [&length.to_be_bytes()[..], &body].concat();
        self.stream.write_all(&frame).await.map_err(|e| e.to_string())
    }

    async fn try_receive<R: Request>(&mut self, version: i16) -> Result<R::Response, String> {
        let length = loop {
            if let Some(length) = self.received.first_chunk::<4>() {
                let length = u32::from_be_bytes(*length) as usize;
                if self.received.len() >= 4 + length {
                    break length;
                }
                self.received.reserve(4 + length - self.received.len());
            }
            if self.stream.read_buf(&mut self.received).await.map_err(|e| e.to_string())? == 0 {
                return Err("the broker has closed the connection".to_owned());
            }
        };
        self.received.advance(4);
        let mut frame = self.received.split_to(length).freeze();
        let header = ResponseHeader::decode(&mut frame, R::Response::header_version(version));
        let header = header.map_err(|e| e.to_string())?;
        assert_eq!(header.correlation_id, self.answered, "responses come in the order of requests");
        self.answered += 1;
        R::Response::decode(&mut frame, version).map_err(|e| e.to_string())
    }
}
