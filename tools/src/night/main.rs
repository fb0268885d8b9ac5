//! `outbox-night`: a night on call, on private servers, with a real Prometheus that has the shipped alert rules: an
//! outage of the broker, a full queue, a stuck key, a slot that runs out. Each is played from the alert to its end with
//! nothing but what is shipped, and what was typed and what it said is printed: docs/night-on-call.md is made of it.
//!
//! It is a check, too: an alert that does not ring, or does not end, ends it with exit code 1. With arguments it plays
//! only these troubles: `outbox-night outage queue key slot`. Alerts wait for minutes before they ring, so it takes its
//! time.

mod full_queue;
mod lost_slot;
mod orders;
mod outage;
mod pager;
mod shop;
mod stuck_key;
mod terminal;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let known = ["outage", "queue", "key", "slot"];
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(&name.as_str())) {
        eprintln!("there is no trouble {unknown:?}; there are: {}", known.join(", "));
        return ExitCode::from(2);
    }
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    if is_wanted("outage") {
        outage::play().await;
    }
    if is_wanted("queue") {
        full_queue::play().await;
    }
    if is_wanted("key") {
        stuck_key::play().await;
    }
    if is_wanted("slot") {
        lost_slot::play().await;
    }
    ExitCode::SUCCESS
}
