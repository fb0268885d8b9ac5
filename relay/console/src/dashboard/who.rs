//! Who makes a request, and what they may do.

/// What a user may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// May read everything but payloads.
    Reader,
    /// May also read payloads, replay and release.
    Operator,
}

impl Role {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Operator => "operator",
        }
    }
}

/// The user who makes a request.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub(super) role: Role,
    /// The name beside the token; `None` without a token.
    pub(super) name: Option<String>,
    /// The secret that a request must repeat to change something, if a cookie identifies the user: another site cannot
    /// know it.
    pub(super) csrf: Option<String>,
}
