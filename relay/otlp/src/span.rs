//! A span, and many of them as the message that a collector takes. Pure.

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span as Wire, SpanFlags, Status, span, status},
};
use prost::Message;

use crate::Context;

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Where it stands.
    pub context: Context,
    /// Its parent, in the same trace, of another process.
    pub parent: Context,
    /// `tracestate`, as it came with the parent; often empty.
    pub state: String,
    /// What kind of work it is, in few words.
    pub name: String,
    /// Its role in the conversation of two processes.
    pub kind: Kind,
    /// Microseconds since the Unix epoch.
    pub started_us: u64,
    /// Microseconds since the Unix epoch.
    pub ended_us: u64,
    /// Details, each name once.
    pub attributes: Vec<(&'static str, Value)>,
    /// What happened meanwhile, with the time in microseconds since the Unix epoch.
    pub events: Vec<(&'static str, u64)>,
    /// Why it has failed, if it has.
    pub error: Option<String>,
}

/// A span's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It makes a message that others take later.
    Producer,
    /// It asks another process and waits for the answer.
    Client,
    /// Nobody else has a part in it.
    Internal,
}

/// An attribute's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// Who makes the spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// `service.name`.
    pub name: String,
    /// `service.version`.
    pub version: String,
    /// `service.instance.id`: this process, among others of that name.
    pub instance: String,
    /// The program: name of the instrumentation scope.
    pub program: &'static str,
    /// The version of the semantic conventions that names and attributes follow, as a URL.
    pub schema: &'static str,
}

/// The body of a request.
pub(crate) fn encode(spans: &[Span], service: &Service) -> Vec<u8> {
    let Service { name, version, instance, program, schema } = service;
    let about = [("service.name", name), ("service.version", version), ("service.instance.id", instance)];
    let attributes = about.map(|(key, value)| attribute(key, Value::Text(value.clone()))).to_vec();
    let scope = InstrumentationScope { name: (*program).to_owned(), version: version.clone(), ..Default::default() };
    let scope_spans = vec![ScopeSpans {
        scope: Some(scope),
        spans: spans.iter().cloned().map(wire).collect(),
        schema_url: (*schema).to_owned(),
    }];
    let resource = Some(Resource { attributes, ..Default::default() });
    let of_service = ResourceSpans { resource, scope_spans, schema_url: (*schema).to_owned() };
    ExportTraceServiceRequest { resource_spans: vec![of_service] }.encode_to_vec()
}

fn wire(span: Span) -> Wire {
    let Span { context, parent, state, name, kind, started_us, ended_us, attributes, events, error } = span;
    let kind = match kind {
        Kind::Producer => span::SpanKind::Producer,
        Kind::Client => span::SpanKind::Client,
        Kind::Internal => span::SpanKind::Internal,
    };
    let code = if error.is_some() { status::StatusCode::Error } else { status::StatusCode::Ok };
    // The parent is of another process, and that is known.
    let remote = SpanFlags::ContextHasIsRemoteMask as u32 | SpanFlags::ContextIsRemoteMask as u32;
    let event = |(name, us): (&str, u64)| span::Event {
        time_unix_nano: nanoseconds(us),
        name: name.to_owned(),
        ..Default::default()
    };
    Wire {
        trace_id: context.trace_id.to_vec(),
        span_id: context.span_id.to_vec(),
        trace_state: state,
        parent_span_id: parent.span_id.to_vec(),
        flags: u32::from(context.flags) | remote,
        name,
        kind: kind.into(),
        start_time_unix_nano: nanoseconds(started_us),
        end_time_unix_nano: nanoseconds(ended_us),
        attributes: attributes.into_iter().map(|(key, value)| attribute(key, value)).collect(),
        events: events.into_iter().map(event).collect(),
        status: Some(Status { message: error.unwrap_or_default(), code: code.into() }),
        ..Default::default()
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => any_value::Value::StringValue(text),
        Value::Number(number) => any_value::Value::IntValue(number),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..Default::default() }
}

fn nanoseconds(us: u64) -> u64 {
    us.saturating_mul(1000)
}
