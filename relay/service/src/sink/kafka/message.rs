//! An event as a Kafka record: the mapping that docs/kafka.md promises.

use std::{borrow::Cow, sync::Arc};

use kafka_producer::{Fetched, Headers, Outgoing};
use outbox_core::{Event, Text};
use uuid::Uuid;

use super::envelope::{Envelope, REPLAY, debezium_key, own, put_debezium_headers};

/// What a record is recognized by when it is read back: its event's id and number of replays.
pub(super) type Mark = (Uuid, u32);

/// An event on its way to Kafka.
pub struct Outbound {
    event: Arc<Event>,
    topic: Box<str>,
    /// The record's `traceparent`; `None`: the record has the event's own.
    traceparent: Option<Box<str>>,
    envelope: Envelope,
    /// The key, where it is other than the event's.
    key: Option<Box<[u8]>>,
}

/// Headers that the relay writes itself. Those of the event with these names are left out.
const OWN: [&str; 8] =
    ["id", "type", "content-type", "correlation_id", "time", "aggregate_type", "x-outbox-seq", REPLAY];

impl Outbound {
    pub(super) fn new(event: Arc<Event>, topic: Box<str>, traceparent: Option<Box<str>>, envelope: Envelope) -> Self {
        let key = if envelope == Envelope::Debezium { debezium_key(&event) } else { None };
        Self { event, topic, traceparent, envelope, key }
    }

    /// The record's mark.
    pub(super) fn mark(&self) -> Mark {
        (self.event.id, self.event.replays)
    }
}

impl Outgoing for Outbound {
    type Mark = Mark;

    fn id(&self) -> Uuid {
        self.event.id
    }

    fn topic(&self) -> &str {
        &self.topic
    }

    fn key(&self) -> Option<&[u8]> {
        self.key.as_deref().or_else(|| self.event.aggregate_id.as_ref().map(Text::as_bytes))
    }

    fn value(&self) -> Result<Option<&[u8]>, &str> {
        self.event.body.as_ref().map(|body| Some(&**body)).map_err(|reason| &**reason)
    }

    fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), String> {
        let event = &*self.event;
        if self.envelope == Envelope::Debezium {
            return put_debezium_headers(event, self.traceparent.as_deref(), headers);
        }
        let mut id = Uuid::encode_buffer();
        headers.put("id", event.id.hyphenated().encode_lower(&mut id).as_bytes());
        let texts = [
            ("type", event.event_type.as_ref()),
            ("content-type", Some(&event.content_type)),
            ("correlation_id", event.correlation_id.as_ref()),
            ("aggregate_type", event.aggregate_type.as_ref()),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                headers.put(name, text.as_bytes());
            }
        }
        headers.put("time", event.created_at_us.to_string().as_bytes());
        headers.put("x-outbox-seq", event.seq.to_string().as_bytes());
        if event.replays > 0 {
            headers.put(REPLAY, event.replays.to_string().as_bytes());
        }
        if let Some(text) = &self.traceparent {
            headers.put("traceparent", text.as_bytes());
        }
        let is_ours = |name: &str| OWN.contains(&name) || name == "traceparent" && self.traceparent.is_some();
        for (name, value) in own(event)?.into_iter().filter(|(name, _)| !is_ours(name)) {
            // Text is written as it is, and everything else as JSON.
            match serde_json::from_str::<Cow<'_, str>>(value.get()) {
                Ok(text) => headers.put(&name, text.as_bytes()),
                Err(_) => headers.put(&name, value.get().as_bytes()),
            }
        }
        Ok(())
    }

    fn mark(record: &Fetched) -> Option<Mark> {
        let header = |name: &str| {
            let (_, value) = record.headers.iter().find(|(header, _)| header == name)?;
            std::str::from_utf8(value.as_deref()?).ok()
        };
        let replays = header(REPLAY).map_or(Ok(0), str::parse);
        Some((Uuid::try_parse(header("id")?.trim_matches('"')).ok()?, replays.ok()?))
    }
}
