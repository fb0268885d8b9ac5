//! `KEEP=1`: the stack stays up to play with.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use harness::places::{pg_config, program};
use lapin::{Connection, ConnectionProperties, message::Delivery, options::BasicConsumeOptions, types::FieldTable};
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
    watch(demo, interrupt, terminate).await.unwrap_or_else(|e| panic!("cannot consume: {e}"));
    demo.screen.leave_out(begin);
}

fn describe(demo: &Demo) {
    let Demo { screen, stack, .. } = demo;
    screen.heading("Yours to play with, until Ctrl-C");
    screen.fact("psql", &format!("{} {}", psql(), stack.db.url()));
    screen.fact("AMQP", &stack.vhost.url());
    screen.fact("RabbitMQ's web pages", &format!("http://127.0.0.1:{}  (guest, guest)", demo.rabbitmq.http_port()));
    screen.heading("Another relay: it waits until you kill -9 the first one");
    screen.line(&format!("DATABASE_URL={} AMQP_URL={} \\", stack.db.url_as("relay"), stack.vhost.url()));
    let program = program("outbox-relay", "OUTBOX_RELAY_PROGRAM");
    screen.line(&format!("{} run --slot {}    # kill -9 {}", program.display(), stack.db.name(), demo.relay.pid()));
    screen.heading("In psql");
    for line in [
        r#"SELECT outbox.emit('orders.created', '{"order": 4711}');"#,
        r#"SELECT outbox.emit('orders.created', '{"order": 4712}', available_at => now() + interval '5 s');"#,
        "SELECT count(outbox.emit('orders.created', jsonb_build_object('n', n))) FROM generate_series(1, 100000) AS n;",
        "SELECT outbox.emit('nobody.listens', '{}');",
        "TABLE outbox.failed;",
        "SELECT outbox.replay(id) FROM outbox.events ORDER BY seq DESC LIMIT 1;",
        "SELECT status, count(*) FROM outbox.events GROUP BY status;",
    ] {
        screen.line(line);
    }
    screen.heading("What arrives by orders.* and invoices.*");
}

/// The name will do where there is one on PATH.
fn psql() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).any(|folder| folder.join("psql").is_file());
    if installed { "psql".to_owned() } else { pg_config().with_file_name("psql").display().to_string() }
}

/// Takes the queue over from the demo's consumer, which remembers everything that it has ever got.
async fn watch(demo: &mut Demo, mut interrupt: Signal, mut terminate: Signal) -> lapin::Result<()> {
    let connection = Connection::connect(&demo.stack.vhost.url(), ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let queue = demo.consumer.queue().into();
    demo.consumer = demo.stack.consumer("none").await; // drops the one before, whose queue stays
    let mut messages = channel.basic_consume(queue, "play".into(), options, FieldTable::default()).await?;

    let mut window = interval(WINDOW);
    window.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut arrived = 0;
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            message = messages.next() => match message {
                Some(message) => {
                    arrived += 1;
                    if arrived <= SHOWN {
                        print(demo, &message?);
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

fn print(demo: &Demo, message: &Delivery) {
    let id = message.properties.message_id().as_ref().map(ToString::to_string).unwrap_or_default();
    let body: String = String::from_utf8_lossy(&message.data).chars().take(80).collect();
    demo.screen.line(&format!("{id}  {}  {body}", message.routing_key));
}
