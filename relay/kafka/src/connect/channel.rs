//! A connection to one broker, over which one request is answered after the other.

use std::{io, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use client_socket::Socket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::error::KafkaError;
use crate::wire::{
    codec::{Malformed, Reader, put_text},
    requests::Request,
};

/// Most bytes of an answer.
const MOST_ANSWER: usize = 128 << 20;

/// The kinds of requests that a broker speaks, each with its oldest and newest version.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions(pub(crate) Vec<(i16, i16, i16)>);

impl Versions {
    /// Checks that the broker speaks a request in the version of this client.
    pub(crate) fn check<R: Request>(&self) -> Result<(), KafkaError> {
        let (request, version) = R::KIND;
        let theirs = self.0.iter().find(|(kind, ..)| *kind == request);
        let (_, min, max) = *theirs.ok_or(KafkaError::Unknown { request })?;
        if (min..=max).contains(&version) { Ok(()) } else { Err(KafkaError::Version { request, version, min, max }) }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) socket: Socket,
    pub(crate) client_id: String,
    pub(crate) versions: Versions,
    /// Time limit of an answer.
    limit: Duration,
    next: i32,
}

impl Channel {
    pub(crate) fn new(socket: Socket, client_id: &str, limit: Duration) -> Self {
        Self { socket, client_id: client_id.to_owned(), versions: Versions::default(), limit, next: 0 }
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask<R: Request>(&mut self, request: &R) -> Result<R::Answer, KafkaError> {
        self.versions.check::<R>()?;
        self.ask_unchecked(request).await
    }

    /// Asks before the broker's versions are known.
    pub(crate) async fn ask_unchecked<R: Request>(&mut self, request: &R) -> Result<R::Answer, KafkaError> {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let frame = frame(request, number, &self.client_id)?;
        let limit = self.limit;
        let exchange = async {
            self.socket.write_all(&frame).await?;
            self.socket.flush().await?;
            read_frame(&mut self.socket).await
        };
        let answer = tokio::time::timeout(limit, exchange)
            .await
            .map_err(|_| KafkaError::ConnectTimeout(limit))?
            .map_err(KafkaError::Io)?;
        let mut answer = Reader(answer);
        if answer.i32()? != number {
            return Err(KafkaError::Protocol("an answer to another request".to_owned()));
        }
        Ok(R::answer(&mut answer)?)
    }
}

impl From<Malformed> for KafkaError {
    fn from(malformed: Malformed) -> Self {
        Self::Protocol(malformed.to_string())
    }
}

/// Makes the bytes of a request.
pub(crate) fn frame<R: Request>(request: &R, number: i32, client_id: &str) -> Result<BytesMut, KafkaError> {
    let (kind, version) = R::KIND;
    let mut frame = BytesMut::with_capacity(256);
    frame.put_i32(0);
    frame.put_i16(kind);
    frame.put_i16(version);
    frame.put_i32(number);
    put_text(&mut frame, client_id);
    request.put(&mut frame);
    let length = i32::try_from(frame.len() - 4).map_err(|_| KafkaError::Protocol("a request of 2 GiB".to_owned()))?;
    if let Some(place) = frame.first_chunk_mut() {
        *place = length.to_be_bytes();
    }
    Ok(frame)
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
    Ok(answer.freeze())
}
