//! An answer that says no, and why: a status, and a sentence for a person.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// What the page shows instead of what was asked for.
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

    /// Why, for a page that shows something else as well.
    pub(super) fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, json(&json!({ "error": self.sentence }))).into_response()
    }
}

/// An answer for scripts.
pub(super) fn json(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], value.to_string())
        .into_response()
}
