//! `tail`: shows messages as they reach the broker.

use std::time::Duration;

use outbox_service::{
    Config,
    error::{Kind, RunError},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::Instant,
};

use crate::{
    sink::{Message, Sink, Tail},
    terminal::{
        Answer,
        output::{Form, Output, confirmed, note},
        query_args::length,
    },
};

/// Longest time of connecting, unless `--for` ends sooner.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Show messages live as they reach the exchange, through a queue of its own, or topics of Kafka
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Binding keys of the queue (# for every event, orders.* for two words), or topics of Kafka
    #[arg(value_name = "BINDING", required = true)]
    bindings: Vec<String>,
    /// Show headers and payload too
    #[arg(long)]
    payload: bool,
    /// End after this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// End after this time, as 30s or 5m
    #[arg(long = "for", value_name = "TIME", value_parser = length)]
    for_time: Option<Duration>,
    /// Do not ask
    #[arg(long, short = 'y')]
    yes: bool,
    #[command(flatten)]
    form: Form,
}

pub(super) async fn run<S: Sink>(config: &Config, options: Options) -> Result<Answer, RunError> {
    if let Some(question) = S::QUESTION
        && !confirmed(question, options.yes, "say --yes to go on without a question")?
    {
        return Ok(Answer::No);
    }
    let output = Output::new(options.form);
    let until = options.for_time.map(|time| Instant::now() + time);
    // While the command connects, a signal ends the process at once: nothing has to be closed yet.
    let limit = options.for_time.map_or(CONNECT_LIMIT, |time| time.min(CONNECT_LIMIT));
    let mut tail = S::tail(config, &options.bindings, options.payload, limit).await?;
    let listen =
        |kind| signal(kind).map_err(|error| RunError::new(Kind::Internal, "cannot listen for signals").source(error));
    let (mut interrupted, mut terminated) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    if !output.json {
        note(&format!("Showing what reaches {}, until Ctrl-C.", tail.source()));
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
        shown = show(&mut tail, output, options.limit) => shown?,
    }
    tail.close().await;
    Ok(Answer::Yes)
}

/// Prints messages until the limit is reached, or the output is closed.
async fn show(tail: &mut impl Tail, mut output: Output, limit: Option<u64>) -> Result<(), RunError> {
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 && !output.is_closed() {
        let message = tail.next().await?;
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
            error = tail.keep_alive() => return Err(error),
        };
        output = printed.map_err(|error| RunError::new(Kind::Internal, "the output has ended").source(error))??;
        tail.printed();
        left -= 1;
    }
    Ok(())
}
