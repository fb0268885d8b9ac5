//! Spans of sampled events: from the commit to RabbitMQ's verdict, as a child of the span in which the event was emitted, and parent of
//! those that consume the message.
//!
//! They are named and described by OpenTelemetry's conventions for RabbitMQ
//! (<https://opentelemetry.io/docs/specs/semconv/messaging/rabbitmq/>), whose version is [`SCHEMA`](crate::traces::SCHEMA).

use std::{
    collections::HashMap,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use amqp_publisher::{ConfirmKind, Headers, InvalidHeaders, Peer};
use otlp_exporter::{Context, Kind, Span, Spans as Queue, Value};
use outbox_core::{Event, Text};
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{NACKED, message::Outbound};
use crate::traces::Traces;

const TRACEPARENT: &str = "traceparent";

/// As much of a `tracestate` as the standard asks to be handed on; in bytes.
const STATE_BYTES: usize = 512;

/// As much of a reason as a span shows, in bytes: AMQP's limit for the broker's words.
const REASON_BYTES: usize = 255;

/// The spans of one sink. Those that are unanswered when it goes end as such.
pub(crate) struct Spans {
    /// `None`: nobody wants any.
    queue: Option<Queue>,
    /// Exchange of events that name none.
    exchange: String,
    broker: Option<Arc<Peer>>,
    ids: fastrand::Rng,
    /// Of events that the broker has not answered: no more than may be in flight.
    open: HashMap<Uuid, Open>,
}

struct Open {
    event: Arc<Event>,
    parent: Context,
    context: Context,
    state: String,
    broker: Option<Arc<Peer>>,
    published_us: u64,
}

impl Spans {
    /// Of a sink with this default exchange.
    pub(crate) fn new(traces: &Traces, exchange: &str) -> Self {
        let (exchange, ids) = (exchange.to_owned(), fastrand::Rng::new());
        Self { queue: traces.queue(), exchange, broker: None, ids, open: HashMap::new() }
    }

    /// There is a connection to this node.
    pub(super) fn connected(&mut self, broker: &Peer) {
        self.broker = Some(Arc::new(broker.clone()));
    }

    /// The message of an event that is published now. If the event is sampled, its span is open from here on.
    pub(super) fn outbound(&mut self, event: Arc<Event>) -> Outbound {
        let Some((parent, state)) = self.queue.as_ref().and_then(|_| sampled(&event)) else {
            return Outbound::new(event);
        };
        let context = parent.with_span(self.ids.u64(1..));
        let (broker, published_us) = (self.broker.clone(), now_us());
        let open = Open { event: Arc::clone(&event), parent, context, state, broker, published_us };
        self.open.insert(event.id, open);
        Outbound { event, continued: Continued(Some(Box::new(context))), tells_key: true }
    }

    /// The broker has answered.
    pub(super) fn answered(&mut self, id: Uuid, confirm: &ConfirmKind) {
        if self.open.is_empty() {
            return; // nearly always
        }
        let Some(open) = self.open.remove(&id) else { return };
        let error = match confirm {
            ConfirmKind::Acked => None,
            ConfirmKind::Nacked => Some(("nacked", NACKED.to_owned())),
            ConfirmKind::Returned { code, text } => Some(("returned", format!("{code} {text}"))),
            ConfirmKind::Closed { code, text } => Some(("rejected", format!("{code} {text}"))),
        };
        self.end(open, error);
    }

    /// No more answers will come: whether the broker has the messages is not known.
    pub(super) fn lost(&mut self, why: &str) {
        let open: Vec<Open> = self.open.drain().map(|(_, open)| open).collect();
        for open in open {
            self.end(open, Some(("unanswered", why.to_owned())));
        }
    }

    fn end(&self, open: Open, error: Option<(&'static str, String)>) {
        let Some(queue) = &self.queue else { return };
        let Open { event, parent, context, state, broker, published_us } = open;
        let ended_us = now_us().max(published_us);
        let committed_us = event.committed_at_us.unwrap_or(event.created_at_us);
        // Another machine's clock, or what an emitter has written there.
        let started_us = u64::try_from(committed_us).unwrap_or(0).min(published_us);
        let exchange = event.exchange.as_ref().map_or(self.exchange.as_str(), Text::as_str).to_owned();
        let topic = event.topic.as_str().to_owned();
        let correlation_id = event.correlation_id.as_ref().map(|id| id.as_str().to_owned());
        // Copies: an event must not stay in memory until the collector has its span.
        let (id, attempt, bytes) = (event.id, event.attempts, event.body.as_ref().ok().map(bytes::Bytes::len));
        queue.push(move || {
            let destination = [exchange.as_str(), &topic].into_iter().filter(|part| !part.is_empty());
            let destination = destination.collect::<Vec<_>>().join(":");
            let destination = if destination.is_empty() { "amq.default".to_owned() } else { destination };
            let mut attributes: Vec<(&'static str, Value)> = vec![
                ("messaging.system", "rabbitmq".into()),
                ("messaging.operation.name", "publish".into()),
                ("messaging.operation.type", "send".into()),
                ("messaging.destination.name", destination.as_str().into()),
                ("messaging.message.id", id.to_string().into()),
                ("outbox.attempt", i64::from(attempt).saturating_add(1).into()),
            ];
            let mut add = |name, value: Option<Value>| attributes.extend(value.map(|value| (name, value)));
            add("messaging.rabbitmq.destination.routing_key", Some(topic).filter(|t| !t.is_empty()).map(Value::Text));
            add("messaging.message.conversation_id", correlation_id.map(Value::Text));
            add("messaging.message.body.size", bytes.and_then(|bytes| i64::try_from(bytes).ok()).map(Value::Number));
            if let Some(broker) = broker {
                let port = Value::Number(broker.address.port().into());
                add("server.address", Some(broker.host.as_str().into()));
                add("server.port", Some(port.clone()));
                add("network.peer.address", Some(broker.address.ip().to_string().into()));
                add("network.peer.port", Some(port));
            }
            add("error.type", error.as_ref().map(|(kind, _)| Value::from(*kind)));
            Span {
                context,
                parent,
                state,
                name: format!("publish {destination}"),
                kind: Kind::Producer,
                started_us,
                ended_us,
                attributes,
                events: vec![("outbox.published", published_us)],
                error: error.map(|(_, reason)| beginning(&reason, REASON_BYTES).to_owned()),
            }
        });
    }
}

impl Drop for Spans {
    fn drop(&mut self) {
        self.lost("the session ended before the broker had answered");
    }
}

/// The span that a message carries instead of its event's, if there is one.
pub(super) struct Continued(Option<Box<Context>>);

impl Continued {
    /// The event's own goes into the message.
    pub(super) const NOTHING: Self = Self(None);

    /// Writes its header.
    pub(super) fn put(&self, headers: &mut Headers<'_>) -> Result<(), InvalidHeaders> {
        self.0.as_ref().map_or(Ok(()), |context| headers.text(TRACEPARENT, &context.traceparent()))
    }

    /// Whether [`put`](Self::put) writes a header of this name.
    pub(super) fn replaces(&self, name: &str) -> bool {
        self.0.is_some() && name == TRACEPARENT
    }
}

/// The context of an event that is sampled, and its `tracestate`.
fn sampled(event: &Event) -> Option<(Context, String)> {
    /// Of all the headers. One of another type is no context.
    #[derive(Deserialize)]
    struct Carried<'a> {
        #[serde(borrow)]
        traceparent: Option<&'a RawValue>,
        #[serde(borrow)]
        tracestate: Option<&'a RawValue>,
    }
    /// Text without escapes: a valid context needs none.
    fn text(value: &RawValue) -> Option<&str> {
        serde_json::from_str(value.get()).ok()
    }
    let carried: Carried<'_> = serde_json::from_slice(event.headers.as_ref()?).ok()?;
    let context = Context::parse(text(carried.traceparent?)?).filter(Context::is_sampled)?;
    let state = carried.tracestate.and_then(text).filter(|state| state.len() <= STATE_BYTES);
    Some((context, state.unwrap_or_default().to_owned()))
}

/// As many whole characters as fit.
fn beginning(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

fn now_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}
