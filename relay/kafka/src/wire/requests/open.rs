//! Requests that open a connection: what the broker speaks, and the login.

use bytes::{Bytes, BytesMut};

use super::Request;
use crate::wire::codec::{Malformed, Reader, put_bytes, put_text};

/// The kinds of requests that a broker speaks, each with its oldest and newest version.
pub(crate) struct ApiVersions;

impl Request for ApiVersions {
    type Answer = (i16, Vec<(i16, i16, i16)>);
    const KIND: (i16, i16) = (18, 0);

    fn put(&self, _out: &mut BytesMut) {}

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        Ok((from.i16()?, from.array(|from| Ok((from.i16()?, from.i16()?, from.i16()?)))?))
    }
}

/// The mechanism of a login.
pub(crate) struct SaslHandshake(pub(crate) &'static str);

impl Request for SaslHandshake {
    /// The code, and the mechanisms that the broker offers.
    type Answer = (i16, Vec<String>);
    const KIND: (i16, i16) = (17, 1);

    fn put(&self, out: &mut BytesMut) {
        put_text(out, self.0);
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        Ok((from.i16()?, from.array(Reader::text)?))
    }
}

/// A message of a login.
pub(crate) struct SaslAuthenticate(pub(crate) String);

impl Request for SaslAuthenticate {
    /// The code, the broker's words, and its message.
    type Answer = (i16, Option<String>, Bytes);
    const KIND: (i16, i16) = (36, 0);

    fn put(&self, out: &mut BytesMut) {
        put_bytes(out, self.0.as_bytes());
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        Ok((from.i16()?, from.nullable_text()?, from.bytes()?))
    }
}
