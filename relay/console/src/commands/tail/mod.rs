//! `tail`: what reaches the exchange, live, through a queue of its own.
//!
//! The queue is exclusive (nobody else can read it), is deleted with its connection, and drops its oldest messages when this program or its
//! terminal is slow, so that it slows nobody down. One thing it cannot help: to RabbitMQ it is a queue like any other, so an event that
//! nobody else is bound for counts as routed while it is there. That is why the command asks first.

mod bridge;
mod message;

use std::time::Duration;

use amqp_publisher::AmqpUrl;
use futures_util::StreamExt;
use lapin::{
    Channel, Connection, ConnectionProperties, Consumer,
    options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable, ShortString},
    uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism},
};
use outbox_service::{
    Config,
    error::{Kind, RunError},
    sink::rabbitmq::end_of_start,
};
use pg_replication::Socket;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::{JoinSet, spawn_blocking},
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

/// How long connecting and having the queue made may take, together, unless `--for` ends sooner.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long the broker's answer to the goodbye is waited for.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);

/// Bytes of AMQP's short strings.
const SHORT_STRING_MAX: usize = 255;

/// Messages that the broker sends ahead.
const PREFETCH: u16 = 200;

/// What the queue holds at most: a slow terminal costs the broker no more than this.
const MOST_MESSAGES: i32 = 10_000;
const MOST_BYTES: i32 = 64 << 20;

const QUESTION: &str = "While this runs, an event that no other queue is bound for counts as SENT, because this command's queue takes it. Go on?";

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

pub(super) async fn carry_out(config: &Config, options: Options) -> Result<Answer, RunError> {
    if !confirmed(QUESTION, options.yes, "say --yes to go on without a question")? {
        return Ok(Answer::No);
    }
    let output = Output::new(options.form);
    let until = options.for_time.map(|time| Instant::now() + time);
    // Until then a signal ends the process as it does any other.
    let limit = options.for_time.map_or(CONNECT_LIMIT, |time| time.min(CONNECT_LIMIT));
    let Tap { connection, consumer, bridge } = Tap::open(config, &options.bindings, limit).await?;
    let listen =
        |kind| signal(kind).map_err(|error| RunError::new(Kind::Internal, "cannot listen for signals").source(error));
    let (mut interrupted, mut terminated) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    if !output.json {
        note(&format!("Showing what reaches the exchange {:?}, until Ctrl-C.", config.exchange));
    }
    let end = async {
        match until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    // Whatever the rest waits for, an end is an end: the broker's answer, or whoever reads what is printed.
    tokio::select! {
        () = end => {}
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        shown = show(consumer, output, &options) => shown?,
    }
    // The queue goes with the connection, however that ends.
    let _ = timeout(GOODBYE_LIMIT, connection.close(200, "done".into())).await;
    drop(bridge);
    Ok(Answer::Yes)
}

/// Shows messages until there have been enough, or nobody reads any more.
async fn show(mut consumer: Consumer, mut output: Output, options: &Options) -> Result<(), RunError> {
    let mut left = options.limit.unwrap_or(u64::MAX);
    while left > 0 && !output.is_closed() {
        let delivery = match consumer.next().await {
            Some(Ok(delivery)) => delivery,
            Some(Err(error)) => return Err(lost(error)),
            None => return Err(RunError::new(Kind::Broker, "the broker has ended the queue")),
        };
        let acker = delivery.acker.clone();
        let message = Message::read(delivery, options.payload);
        // Apart, because a reader such as a pager may let it wait for ever.
        let printed = spawn_blocking(move || {
            let printed = if output.json {
                output.object(&message)
            } else {
                let line = message.line(output.in_colour());
                output.print(&line)
            };
            printed.map(|()| output)
        });
        output =
            printed.await.map_err(|error| RunError::new(Kind::Internal, "the output has ended").source(error))??;
        acker.ack(BasicAckOptions::default()).await.map_err(lost)?;
        left -= 1;
    }
    Ok(())
}

/// Reads a binding key: one of AMQP's short strings.
fn binding(text: &str) -> Result<String, String> {
    if text.len() <= SHORT_STRING_MAX {
        Ok(text.to_owned())
    } else {
        Err(format!("a binding key has at most {SHORT_STRING_MAX} bytes, and this one {}", text.len()))
    }
}

/// An open queue, and the connection that it lives with.
struct Tap {
    connection: Connection,
    consumer: Consumer,
    /// Passes their bytes on.
    bridge: JoinSet<()>,
}

impl Tap {
    async fn open(config: &Config, bindings: &[String], limit: Duration) -> Result<Self, RunError> {
        let address = config.amqp_url.as_ref().ok_or_else(|| RunError::new(Kind::Usage, "AMQP_URL is not set"))?;
        let url = &address.now()?;
        let opened = timeout(limit, async {
            let socket = url.open(limit).await.map_err(|error| end_of_start(&error, address))?;
            Self::log_in(config, url, socket, bindings).await
        });
        opened.await.unwrap_or_else(|_elapsed| {
            Err(RunError::new(Kind::Broker, format!("{url} has not answered within {limit:?}"))
                .hint("check that the broker runs, and has no alarm"))
        })
    }

    async fn log_in(config: &Config, url: &AmqpUrl, socket: Socket, bindings: &[String]) -> Result<Self, RunError> {
        let login = url.login();
        let mechanism = if login.by_certificate { SASLMechanism::External } else { SASLMechanism::Plain };
        let uri = AMQPUri {
            scheme: AMQPScheme::AMQP,
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo { username: login.user.to_owned(), password: login.password.to_owned() },
                host: "localhost".to_owned(), // not dialled: the socket is there already
                port: 5672,
            },
            vhost: login.vhost.to_owned(),
            query: AMQPQueryString {
                auth_mechanism: Some(mechanism),
                heartbeat: Some(login.heartbeat_seconds),
                ..AMQPQueryString::default()
            },
        };
        let name = format!("{} tail", config.application_name);
        let properties = ConnectionProperties::default().with_connection_name(name.as_str().into());
        let refused = |what: String| {
            move |error: lapin::Error| {
                RunError::new(Kind::BrokerRefused, what)
                    .hint("the user needs the permission to configure, write and read queues outbox-tail.…, and to read from the exchange")
                    .source(error)
            }
        };
        let (connection, bridge) =
            bridge::connect(socket, uri, properties).await.map_err(refused(format!("{url} refused the connection")))?;
        let channel = connection.create_channel().await.map_err(lost)?;
        let consumer = consume(&channel, &config.exchange, bindings)
            .await
            .map_err(refused(format!("cannot bind a queue to the exchange {:?}", config.exchange)))?;
        Ok(Self { connection, consumer, bridge })
    }
}

async fn consume(channel: &Channel, exchange: &str, bindings: &[String]) -> Result<Consumer, lapin::Error> {
    let none = FieldTable::default;
    let mut arguments = none();
    // Whatever the virtual host's default type is: a quorum queue cannot be exclusive.
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("classic".into()));
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(MOST_MESSAGES));
    arguments.insert("x-max-length-bytes".into(), AMQPValue::LongInt(MOST_BYTES));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("drop-head".into()));
    let options = QueueDeclareOptions { exclusive: true, auto_delete: true, ..QueueDeclareOptions::default() };
    let name = ShortString::from(format!("outbox-tail.{:016x}", fastrand::u64(..)).as_str());
    channel.queue_declare(name.clone(), options, arguments).await?;
    for binding in bindings {
        let bind = QueueBindOptions::default();
        channel.queue_bind(name.clone(), exchange.into(), binding.as_str().into(), bind, none()).await?;
    }
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions { exclusive: true, ..BasicConsumeOptions::default() };
    channel.basic_consume(name, "".into(), options, none()).await
}

fn lost(error: lapin::Error) -> RunError {
    RunError::new(Kind::Broker, "lost the broker").hint("run the command again").source(error)
}
