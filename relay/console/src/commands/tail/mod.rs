//! `tail`: shows messages as they reach the exchange, through a queue of its own.
//!
//! The queue is exclusive, is deleted with its connection, and drops its oldest messages while this program or its
//! terminal is slow, so that it slows nobody down. RabbitMQ routes events to it as to any queue, so an event without
//! another binding counts as routed while the command runs, and the command asks for confirmation.

mod message;

use std::time::Duration;

use amqp_publisher::{AmqpError, ConsumeConfig, Consumer};
use outbox_service::{
    Config,
    error::{Kind, RunError},
    sink::{
        SinkConfig,
        rabbitmq::{self, end_of_start},
    },
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::{Instant, timeout},
};

use self::message::Message;
use crate::{
    format::length,
    terminal::{
        Answer,
        output::{Form, Output, confirmed, note},
    },
};

/// Longest time of connecting and opening the queue, unless `--for` ends sooner.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Longest short string of AMQP, in bytes.
const SHORT_STRING_MAX: usize = 255;

/// Messages that the broker sends ahead: enough to keep a terminal busy from one round trip to the next.
const PREFETCH: u16 = 200;

/// Most messages and bytes in the queue, so that a slow terminal costs the broker no more.
const QUEUE_MESSAGES: u32 = 10_000;
const QUEUE_BYTES: u32 = 64 << 20;

const QUESTION: &str = "While this runs, an event that no other queue is bound for counts as SENT, \
                        because this command's queue takes it. Go on?";

/// Show what reaches the exchange, live, through a queue of its own
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Binding keys of the queue: of a topic exchange # means every event, and orders.* those with two words
    #[arg(value_name = "BINDING", required = true, value_parser = binding)]
    bindings: Vec<String>,
    /// Show headers and payload too
    #[arg(long)]
    payload: bool,
    /// End after so many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// End after so long, as 30s or 5m
    #[arg(long = "for", value_name = "TIME", value_parser = length)]
    for_time: Option<Duration>,
    /// Ask nothing
    #[arg(long, short = 'y')]
    yes: bool,
    #[command(flatten)]
    form: Form,
}

pub(super) async fn run(config: &Config, options: Options) -> Result<Answer, RunError> {
    if !confirmed(QUESTION, options.yes, "say --yes to go on without a question")? {
        return Ok(Answer::No);
    }
    let missing = || RunError::new(Kind::Usage, "AMQP_URL is not set");
    let SinkConfig::RabbitMq(rabbitmq) = config.sink.as_ref().ok_or_else(missing)?;
    let output = Output::new(options.form);
    let until = options.for_time.map(|time| Instant::now() + time);
    // While the command connects, a signal ends the process at once: no queue has to be closed yet.
    let limit = options.for_time.map_or(CONNECT_LIMIT, |time| time.min(CONNECT_LIMIT));
    let mut consumer = open(config, rabbitmq, &options.bindings, limit).await?;
    let listen =
        |kind| signal(kind).map_err(|error| RunError::new(Kind::Internal, "cannot listen for signals").source(error));
    let (mut interrupted, mut terminated) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    if !output.json {
        note(&format!("Showing what reaches the exchange {:?}, until Ctrl-C.", rabbitmq.exchange));
    }
    let end = async {
        match until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    // Time and signals end the command even while the broker or the reader of the output is stuck.
    tokio::select! {
        () = end => {}
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        shown = show(&mut consumer, output, &options) => shown?,
    }
    consumer.close().await;
    Ok(Answer::Yes)
}

/// Prints messages until the limit is reached, or the output is closed.
async fn show(consumer: &mut Consumer, mut output: Output, options: &Options) -> Result<(), RunError> {
    let mut left = options.limit.unwrap_or(u64::MAX);
    while left > 0 && !output.is_closed() {
        let delivery = consumer.next().await.map_err(lost)?;
        let tag = delivery.tag;
        let message = Message::read(delivery, options.payload);
        // Printing runs on a thread of its own, because a pager may block it for ever.
        let printing = spawn_blocking(move || {
            let printed = if output.json {
                output.object(&message)
            } else {
                let line = message.line(output.in_colour());
                output.print(&line)
            };
            printed.map(|()| output)
        });
        let printed = tokio::select! {
            printed = printing => printed,
            error = consumer.keep_alive() => return Err(lost(error)),
        };
        output = printed.map_err(|error| RunError::new(Kind::Internal, "the output has ended").source(error))??;
        consumer.ack(tag);
        left -= 1;
    }
    Ok(())
}

/// Parses a binding key, one of AMQP's short strings.
fn binding(text: &str) -> Result<String, String> {
    if text.len() <= SHORT_STRING_MAX {
        Ok(text.to_owned())
    } else {
        Err(format!("a binding key has at most {SHORT_STRING_MAX} bytes, and this one {}", text.len()))
    }
}

/// Connects and opens the queue, within `limit`.
async fn open(
    config: &Config,
    rabbitmq: &rabbitmq::Config,
    bindings: &[String],
    limit: Duration,
) -> Result<Consumer, RunError> {
    let address = &rabbitmq.url;
    let url = address.now()?;
    let consume = ConsumeConfig {
        url: url.clone(),
        exchange: rabbitmq.exchange.clone(),
        bindings: bindings.to_owned(),
        queue: format!("outbox-tail.{:016x}", fastrand::u64(..)),
        queue_messages: QUEUE_MESSAGES,
        queue_bytes: QUEUE_BYTES,
        prefetch: PREFETCH,
        connect_timeout: 2 * CONNECT_LIMIT, // `limit` bounds all nodes together, and ends first
        connection_name: format!("{} tail", config.application_name),
        product: "outbox-relay".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    match timeout(limit, Consumer::connect(&consume)).await {
        Ok(opened) => opened.map_err(|error| end_of_start(&error, address)),
        Err(_elapsed) => Err(RunError::new(Kind::Broker, format!("{url} has not answered within {limit:?}"))
            .hint("check that the broker runs, and has no alarm")),
    }
}

fn lost(error: AmqpError) -> RunError {
    RunError::new(Kind::Broker, "lost the broker").hint("run the command again").source(error)
}
