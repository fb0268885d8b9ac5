//! `KEEP=1`: the stack stays up to play with.

use std::time::{Duration, Instant};

use harness::places::{pg_config, program};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use crate::{demo::Demo, screen::count};

/// Messages that are printed in one [`WINDOW`]; the others of a flood are only counted.
const SHOWN: usize = 5;
const WINDOW: Duration = Duration::from_millis(500);

/// Prints how to reach everything, then what arrives, until Ctrl-C or SIGTERM.
pub(crate) async fn until_told_to_stop(demo: &mut Demo) {
    let handler = |kind| signal(kind).expect("a signal handler");
    let (interrupt, terminate) = (handler(SignalKind::interrupt()), handler(SignalKind::terminate()));
    let begin = Instant::now();
    describe(demo);
    watch(demo, interrupt, terminate).await;
    demo.screen.leave_out(begin);
}

fn describe(demo: &Demo) {
    let Demo { screen, broker, db, .. } = demo;
    screen.heading("Yours to play with, until Ctrl-C");
    screen.fact("psql", &format!("{} {}", psql(), db.url()));
    for (name, address) in broker.addresses() {
        screen.fact(name, &address);
    }
    screen.heading("Another relay: it waits until you kill -9 the first one");
    screen.line(&format!("DATABASE_URL={} {} \\", db.url_as("relay"), broker.variables()));
    let program = program("outbox-relay", "OUTBOX_RELAY_PROGRAM");
    screen.line(&format!("{} run --slot {}    # kill -9 {}", program.display(), db.name(), demo.relay.pid()));
    screen.heading("In psql");
    for line in broker.statements() {
        screen.line(line);
    }
    for line in [
        "TABLE outbox.failed;",
        "SELECT outbox.replay(id) FROM outbox.events ORDER BY seq DESC LIMIT 1;",
        "SELECT status, count(*) FROM outbox.events GROUP BY status;",
    ] {
        screen.line(line);
    }
    screen.heading("What arrives");
}

/// The name will do where there is one on PATH.
fn psql() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).any(|folder| folder.join("psql").is_file());
    if installed { "psql".to_owned() } else { pg_config().with_file_name("psql").display().to_string() }
}

/// Shows what the consumer gets.
async fn watch(demo: &mut Demo, mut interrupt: Signal, mut terminate: Signal) {
    let mut lines = demo.broker.watch().await;
    let mut window = interval(WINDOW);
    window.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut arrived = 0;
    loop {
        tokio::select! {
            _ = interrupt.recv() => return,
            _ = terminate.recv() => return,
            line = lines.recv() => match line {
                Some(line) => {
                    arrived += 1;
                    if arrived <= SHOWN {
                        demo.screen.line(&line);
                    }
                }
                None => panic!("the broker has ended the consumer"),
            },
            _ = window.tick() => {
                if arrived > SHOWN {
                    demo.screen.line(&format!("… and {} more", count(arrived - SHOWN)));
                }
                arrived = 0;
            }
        }
    }
}
