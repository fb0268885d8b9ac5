//! What the relay shows to those who look: metrics, health, readiness, and systemd.

mod certificates;
mod health;
mod hosts;
mod metrics;
mod runbook;
mod silence;
mod systemd;

use harness::{Answer, Relay, SOON, eventually, get};

/// The port on which a relay with `http-listen = 0` answers.
pub(crate) async fn http_port(relay: &Relay) -> u16 {
    let line = relay.wait_for_log("listening for HTTP").await;
    let address = line.split("address=127.0.0.1:").nth(1).expect("the line names the address");
    let digits: String = address.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a port")
}

/// Waits until `/readyz` answers with this status and these words.
pub(crate) async fn wait_for_ready(port: u16, status: u16, words: &str) -> Answer {
    eventually(&format!("/readyz says {status} {words:?}"), SOON, async || {
        let answer = get(port, "/readyz").await.unwrap();
        if answer.status == status && answer.body.contains(words) { Ok(answer) } else { Err(answer) }
    })
    .await
}

/// The value of a series, by its name and labels as they are shown without `database`.
pub(crate) async fn metric(port: u16, name: &str, labels: &str) -> Option<f64> {
    let page = get(port, "/metrics").await.unwrap();
    assert_eq!(page.status, 200, "{}", page.body);
    let wanted =
        |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(labels));
    page.body.lines().find(wanted).map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

/// Waits until a series has a value.
pub(crate) async fn wait_for_metric(port: u16, name: &str, labels: &str, value: f64) {
    eventually(&format!("{name}{{{labels}}} is {value}"), SOON, async || match metric(port, name, labels).await {
        #[expect(clippy::float_cmp, reason = "whole numbers")]
        Some(shown) if shown == value => Ok(()),
        shown => Err(shown),
    })
    .await;
}
