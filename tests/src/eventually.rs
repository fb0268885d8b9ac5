//! The one place where anything waits: poll until it holds, or say what was seen last.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

/// The deadline for what should take a moment. Long, because a loaded two-core CI machine is slow; a test that passes
/// never waits for it.
pub const SOON: Duration = Duration::from_secs(30);

/// Short enough not to be felt in a test's time, long enough not to load the servers that are being watched.
const INTERVAL: Duration = Duration::from_millis(20);

/// Calls `probe` until it returns `Ok`, and returns that value. `Err` is what was seen instead.
///
/// # Panics
/// When `deadline` has passed, with `what` was awaited and the state seen last.
pub async fn eventually<T, S: Debug>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, S>,
) -> T {
    let start = Instant::now();
    let mut seen = "nothing, the probe itself did not answer".to_owned();
    loop {
        match tokio::time::timeout(deadline.saturating_sub(start.elapsed()), probe()).await {
            Ok(Ok(value)) => return value,
            Ok(Err(state)) => seen = format!("{state:?}"),
            Err(_) => {} // the deadline has cut it off
        }
        assert!(start.elapsed() < deadline, "not within {deadline:?}: {what}; last seen: {seen}");
        tokio::time::sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_returns_the_first_value_that_holds() {
        let mut calls = 0;
        let value = eventually("the third call", SOON, async || {
            calls += 1;
            if calls == 3 { Ok(calls) } else { Err(calls) }
        })
        .await;
        assert_eq!(value, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "last seen: \"still not\"")]
    async fn what_was_seen_last_is_told_also_where_the_deadline_cuts_a_probe_off() {
        let mut calls = 0;
        eventually("the impossible", Duration::from_millis(50), async || {
            calls += 1;
            if calls == 1 { Err::<(), _>("still not") } else { std::future::pending().await }
        })
        .await;
    }

    #[tokio::test]
    #[should_panic(expected = "not within 1ms: the impossible; last seen: \"still not\"")]
    async fn a_missed_deadline_says_what_was_seen_last() {
        eventually("the impossible", Duration::from_millis(1), async || Err::<(), _>("still not")).await;
    }
}
