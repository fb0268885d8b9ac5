//! What "events flow" means, wherever it is said: what is committed leaves by itself, and within a minute. Pure.

/// Codes of `outbox.health_with_codes()` under which it does not. Under the others events flow, and somebody should look at something.
const STOPPED: [&str; 5] = ["slot_missing", "slot_lost", "slot_not_read", "slot_not_ready", "events_do_not_leave"];

/// Whether events flow, by these codes.
pub(crate) fn flow<'a>(codes: impl IntoIterator<Item = &'a str>) -> bool {
    !codes.into_iter().any(|code| STOPPED.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_flow_although_some_have_failed_and_not_without_a_relay() {
        assert!(flow([]) && flow(["events_failed", "slot_nearly_lost", "events_wait"]));
        assert!(!flow(["events_failed", "slot_not_read"]) && !flow(["events_do_not_leave"]));
    }
}
