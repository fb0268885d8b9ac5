//! The end: the relay drains, and nothing is left running.

use std::{net::TcpStream, path::PathBuf, time::Instant};

use crate::demo::Demo;

/// Stops the relay as an operator does, then ends the servers.
pub(crate) async fn show(demo: Demo) {
    demo.screen.heading("Shutdown");
    stop_relay(&demo).await;

    let mut ports = demo.broker.ports();
    ports.push(demo.postgres.port());
    let Demo { screen, relay, shop, broker, db, postgres, .. } = demo;
    let process = PathBuf::from(format!("/proc/{}", relay.pid()));
    let begin = Instant::now();
    drop((relay, shop, broker, db));
    drop(postgres);
    screen.timed("servers ended", "their files are removed", begin.elapsed());
    let alive = ports.iter().filter(|port| TcpStream::connect(("127.0.0.1", **port)).is_ok()).count();
    screen.promise("nothing is left running", (alive, process.exists()), (0, false));
    screen.end();
}

async fn stop_relay(demo: &Demo) {
    if let Some(status) = demo.relay.try_exit() {
        // Only the person who plays with it can have done that.
        demo.screen.fact("relay", &format!("it was ended before ({status})"));
        return;
    }
    demo.screen.does(&format!("kill -TERM {}", demo.relay.pid()));
    let begin = Instant::now();
    let status = demo.relay.stop().await;
    demo.screen.timed("relay drained", &status.to_string(), begin.elapsed());
    demo.screen.promise("the relay ended by itself, with exit code 0", status.code(), Some(0));
}
