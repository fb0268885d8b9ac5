//! Messages as the relay sends them, for an event with a type and a key.

use amqp_publisher::{Headers, InvalidHeaders, Message, Outgoing, Properties, raw};
use bytes::Bytes;
use uuid::Uuid;

/// Most bytes of one write to the socket.
const WRITE_BYTES: usize = 256 * 1024;
/// Version 7, variant 2; the last twelve digits are the message's number.
const FIRST_ID: u128 = 0x019a_0000_0000_7000_8000_0000_0000_0000;
const ID_DIGITS: usize = 12;

/// The `message_id` of the message with this number.
pub(crate) fn id_of(number: u64) -> Uuid {
    Uuid::from_u128(FIRST_ID | u128::from(number))
}

/// The number that made an id.
pub(crate) fn number_of(id: Uuid) -> u64 {
    id.as_u64_pair().1 & ((1 << (4 * ID_DIGITS)) - 1)
}

/// One message.
pub(crate) struct Sample {
    /// Makes its id, and stands in the header `x-outbox-seq`.
    pub(crate) number: u64,
    /// The routing key.
    pub(crate) routing_key: &'static str,
    /// The body.
    pub(crate) body: Bytes,
    /// Whether it has the headers `aggregate_type` and `aggregate_id`, as by the relay's setting `key_headers`.
    pub(crate) key_headers: bool,
}

impl Outgoing for Sample {
    fn id(&self) -> Uuid {
        id_of(self.number)
    }

    fn message(&self) -> Result<Message<'_>, &str> {
        let properties = Properties {
            content_type: Some(b"application/json"),
            timestamp: Some(1_800_000_000),
            kind: Some(b"OrderMoved"),
            ..Properties::default()
        };
        Ok(Message { exchange: None, routing_key: self.routing_key.as_bytes(), properties, body: &self.body })
    }

    fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), InvalidHeaders> {
        headers.integer("x-outbox-seq", self.number.cast_signed())?;
        if self.key_headers {
            headers.text("aggregate_type", b"order")?;
            headers.text("aggregate_id", b"12345")?;
        }
        Ok(())
    }
}

/// The frames of several messages, one behind the other. Only their numbers are rewritten.
pub(super) struct Prepared {
    bytes: Vec<u8>,
    /// Bytes of each, frames included.
    size: usize,
    /// How many there are.
    pub(super) most: u64,
    /// Where a message's number is in its frames: in the header `x-outbox-seq`, and in hexadecimal in `message_id`.
    seq_at: usize,
    id_at: usize,
}

impl Prepared {
    /// Messages with a body of `body` bytes, of which `window` may be unconfirmed.
    pub(super) fn new(exchange: &str, body: usize, key_headers: bool, window: u64) -> Self {
        let sample = Sample { number: 0, routing_key: "order.moved", body: vec![b'x'; body].into(), key_headers };
        let one = raw::message(exchange, "outbox-relay", &sample).expect("a message");
        let find = |text: &str| one.windows(text.len()).position(|part| part == text.as_bytes()).expect("it is there");
        let seq_at = find("x-outbox-seq") + "x-outbox-seq".len() + 1;
        let id = id_of(0).to_string();
        let id_at = find(&id) + id.len() - ID_DIGITS;
        let size = one.len();
        // A quarter of the window: the broker always has the other three quarters to work on.
        let most = ((WRITE_BYTES / size) as u64).clamp(1, (window / 4).max(1));
        let bytes = one.repeat(usize::try_from(most).expect("at most 256 KiB of them"));
        Self { bytes, size, most, seq_at, id_at }
    }

    /// The frames of `count` messages, numbered from `first`.
    pub(super) fn numbered(&mut self, first: u64, count: u64) -> &[u8] {
        for (message, number) in self.bytes.chunks_exact_mut(self.size).zip(first..first + count) {
            let seq = message.get_mut(self.seq_at..self.seq_at + 8).expect("part of the message");
            seq.copy_from_slice(&number.to_be_bytes());
            let mut digits = number;
            for digit in message.iter_mut().skip(self.id_at).take(ID_DIGITS).rev() {
                *digit = b"0123456789abcdef".get((digits & 0xF) as usize).copied().expect("sixteen digits");
                digits >>= 4;
            }
        }
        let count = usize::try_from(count).expect("at most as many as there are");
        self.bytes.get(..count * self.size).expect("at most as many as there are")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_the_number_that_made_it() {
        assert_eq!(number_of(id_of(0xABCDE)), 0xABCDE);
    }

    #[test]
    fn a_prepared_message_is_the_one_of_its_number() {
        let body = Bytes::from(vec![b'x'; 200]);
        for key_headers in [true, false] {
            let sample = Sample { number: 0xABCDE, routing_key: "order.moved", body: body.clone(), key_headers };
            let expected = raw::message("bench", "outbox-relay", &sample).unwrap();
            let mut prepared = Prepared::new("bench", 200, key_headers, 2000);
            let two = prepared.numbered(0xABCDD, 2);
            assert_eq!(two[two.len() / 2..], *expected, "key_headers = {key_headers}");
        }
    }
}
