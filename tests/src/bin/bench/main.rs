//! `make bench`: how fast the relay is and what it costs, on private servers with everything real: fsync on, persistent
//! messages, durable queue, mandatory, confirms, verdicts written back.
//!
//! Emitters, both servers, the relay and the consumer share one machine, so a figure is only as good as the machine is
//! idle. Figures go to standard output and to `target/bench/latest.json`.

mod latency;
mod throughput;

use harness::{Postgres, RabbitMq, Stack};
use serde_json::json;

#[tokio::main]
async fn main() {
    let (postgres, rabbitmq) = tokio::join!(Postgres::private().start(), RabbitMq::private().start());
    println!("{} cores; one private PostgreSQL (fsync on) and RabbitMQ (durable classic queue)\n", cores());

    let mut figures = Vec::new();
    for events in [200_000, 1_000_000] {
        let stack = Stack::on(&postgres, &rabbitmq).await;
        figures.push(throughput::backlog(&stack, events).await);
    }
    let stack = Stack::on(&postgres, &rabbitmq).await;
    figures.push(throughput::one_transaction(&stack, 1_000_000).await);
    let stack = Stack::on(&postgres, &rabbitmq).await;
    figures.push(throughput::live(&stack, 4, 200_000).await);
    for rate in [100, 1000] {
        let stack = Stack::on(&postgres, &rabbitmq).await;
        figures.push(latency::at(&stack, rate).await);
    }

    let folder =
        std::path::Path::new(&std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into())).join("bench");
    std::fs::create_dir_all(&folder).expect("target/ is writable");
    let file = folder.join("latest.json");
    let report = json!({ "cores": cores(), "figures": figures });
    std::fs::write(&file, format!("{report:#}\n")).expect("target/ is writable");
    println!("\n{}", file.display());
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
