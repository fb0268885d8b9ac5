//! Refused or failed requests: a status, and a sentence for people.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// The answer to a request that was refused or has failed.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    sentence: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, sentence: impl Into<String>) -> Self {
        Self { status, sentence: sentence.into() }
    }

    pub(super) fn bad(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, sentence)
    }

    pub(super) fn forbidden(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, sentence)
    }

    pub(super) fn unavailable(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, sentence)
    }

    /// Returns the reason, for a page that shows other parts as well.
    pub(super) fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, json(&json!({ "error": self.sentence }))).into_response()
    }
}

/// Returns a JSON answer.
pub(super) fn json(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], value.to_string())
        .into_response()
}
