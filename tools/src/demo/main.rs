//! `outbox-demo`: the way of an event from `outbox.emit()` to a consumer of RabbitMQ, or with `SINK=kafka` of Kafka, on
//! private servers, step by step.
//!
//! It is a check, too: a promise that does not hold ends it with exit code 1. `KEEP=1` leaves the servers up to play
//! with, until Ctrl-C.

mod account;
mod broker;
mod burst;
mod crash;
mod demo;
mod failure;
mod load;
mod play;
mod rows;
mod screen;
mod shutdown;
mod start;
mod transaction;
mod unroutable;

use std::process::ExitCode;

fn main() -> ExitCode {
    failure::watched(|| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(run());
    })
}

async fn run() {
    let mut demo = start::start().await;
    transaction::show(&mut demo).await;
    burst::show(&mut demo).await;
    let invoice = unroutable::show(&mut demo).await;
    unroutable::show_replay(&mut demo, invoice).await;
    crash::show(&mut demo).await;
    account::show(&mut demo).await;
    if std::env::var("KEEP").is_ok_and(|keep| !["", "0"].contains(&keep.as_str())) {
        play::until_told_to_stop(&mut demo).await;
    }
    shutdown::show(demo).await;
}
