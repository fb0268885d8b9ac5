//! A connection to one broker, over which one request is answered after the other.

use std::{io, time::Duration};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use client_socket::Socket;
use kafka_protocol::{
    messages::{
        ApiKey, ApiVersionsRequest, ApiVersionsResponse, FetchRequest, FetchResponse, FindCoordinatorRequest,
        FindCoordinatorResponse, InitProducerIdRequest, InitProducerIdResponse, ListOffsetsRequest,
        ListOffsetsResponse, MetadataRequest, MetadataResponse, ProduceRequest, ProduceResponse, RequestHeader,
        ResponseHeader, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
    },
    protocol::{Decodable, Encodable, HeaderVersion, StrBytes, VersionRange},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::error::KafkaError;

/// Most bytes of an answer.
const MOST_ANSWER: usize = 128 << 20;

/// A request with its answer.
pub(crate) trait Question: Encodable + HeaderVersion {
    /// The answer.
    type Answer: Decodable + HeaderVersion;
    /// The request's kind.
    const KEY: ApiKey;
}

macro_rules! questions {
    ($($key:ident: $question:ty => $answer:ty),+ $(,)?) => {
        $(impl Question for $question {
            type Answer = $answer;
            const KEY: ApiKey = ApiKey::$key;
        })+
    };
}

questions!(
    ApiVersions: ApiVersionsRequest => ApiVersionsResponse,
    Fetch: FetchRequest => FetchResponse,
    FindCoordinator: FindCoordinatorRequest => FindCoordinatorResponse,
    InitProducerId: InitProducerIdRequest => InitProducerIdResponse,
    ListOffsets: ListOffsetsRequest => ListOffsetsResponse,
    Metadata: MetadataRequest => MetadataResponse,
    Produce: ProduceRequest => ProduceResponse,
    SaslAuthenticate: SaslAuthenticateRequest => SaslAuthenticateResponse,
    SaslHandshake: SaslHandshakeRequest => SaslHandshakeResponse,
);

/// The versions of requests that a broker speaks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions(pub(crate) Vec<(i16, VersionRange)>);

impl Versions {
    /// The newest version of a request that both sides speak, in this client's range.
    pub(crate) fn of(&self, key: ApiKey, ours: VersionRange) -> Result<i16, KafkaError> {
        let request = key as i16;
        let theirs = self.0.iter().find(|(key, _)| *key == request).map(|(_, range)| range);
        let theirs = theirs.unwrap_or(&VersionRange { min: 0, max: -1 });
        let both = ours.intersect(theirs);
        if both.is_empty() {
            return Err(KafkaError::Version { request, min: theirs.min, max: theirs.max });
        }
        Ok(both.max)
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) socket: Socket,
    pub(crate) client_id: StrBytes,
    pub(crate) versions: Versions,
    /// Time limit of an answer.
    pub(crate) limit: Duration,
    next: i32,
}

impl Channel {
    pub(crate) fn new(socket: Socket, client_id: &str, limit: Duration) -> Self {
        let client_id = StrBytes::from_string(client_id.to_owned());
        Self { socket, client_id, versions: Versions::default(), limit, next: 0 }
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask<Q: Question>(&mut self, request: &Q, ours: VersionRange) -> Result<Q::Answer, KafkaError> {
        let version = self.versions.of(Q::KEY, ours)?;
        self.ask_in(request, version).await
    }

    /// Asks in this version of the request.
    pub(crate) async fn ask_in<Q: Question>(&mut self, request: &Q, version: i16) -> Result<Q::Answer, KafkaError> {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let frame = frame(request, version, number, &self.client_id)?;
        let limit = self.limit;
        let exchange = async {
            self.socket.write_all(&frame).await?;
            self.socket.flush().await?;
            read_frame(&mut self.socket).await
        };
        let mut answer = tokio::time::timeout(limit, exchange)
            .await
            .map_err(|_| KafkaError::ConnectTimeout(limit))?
            .map_err(KafkaError::Io)?;
        let got = decode_head::<Q::Answer>(&mut answer, version)?;
        if got != number {
            return Err(KafkaError::Protocol("an answer to another request".to_owned()));
        }
        Q::Answer::decode(&mut answer, version).map_err(protocol)
    }
}

/// Makes the bytes of a request.
pub(crate) fn frame<Q: Question>(
    request: &Q,
    version: i16,
    number: i32,
    client_id: &StrBytes,
) -> Result<BytesMut, KafkaError> {
    let mut frame = BytesMut::with_capacity(256);
    frame.put_i32(0);
    let header = RequestHeader::default()
        .with_request_api_key(Q::KEY as i16)
        .with_request_api_version(version)
        .with_correlation_id(number)
        .with_client_id(Some(client_id.clone()));
    header.encode(&mut frame, Q::header_version(version)).map_err(protocol)?;
    request.encode(&mut frame, version).map_err(protocol)?;
    let length = i32::try_from(frame.len() - 4).map_err(|_| KafkaError::Protocol("a request of 2 GiB".to_owned()))?;
    if let Some(place) = frame.first_chunk_mut() {
        *place = length.to_be_bytes();
    }
    Ok(frame)
}

/// Reads the head of an answer, and returns the number of its request.
pub(crate) fn decode_head<R: HeaderVersion>(answer: &mut Bytes, version: i16) -> Result<i32, KafkaError> {
    ResponseHeader::decode(answer, R::header_version(version)).map(|head| head.correlation_id).map_err(protocol)
}

/// Reads an answer without its length. Not cancellation-safe.
pub(crate) async fn read_frame(socket: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Bytes> {
    let length = socket.read_i32().await?;
    let length = usize::try_from(length).ok().filter(|length| *length <= MOST_ANSWER);
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an answer of an impossible size"))?;
    // It grows with what has arrived, so a length that is a lie costs nothing.
    let mut answer = BytesMut::with_capacity(length.min(64 << 10));
    let mut rest = (&mut *socket).take(length as u64);
    while answer.len() < length {
        if rest.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(answer.freeze().copy_to_bytes(length))
}

pub(crate) fn protocol(error: impl std::fmt::Display) -> KafkaError {
    KafkaError::Protocol(error.to_string())
}
