//! The program: reads the settings, starts the relay, and ends with an exit code that says why.

mod cli;
mod command;
mod config;

use std::{process::ExitCode, sync::Arc};

use outbox_console::{
    admin::Admin,
    commands::{self, Answer, ClientCommand},
    retention::Retention,
    sink as console,
};
use outbox_service::{
    error::{Kind, RunError},
    observe::Observed,
    sink::{Connect, SinkConfig, kafka::Kafka, rabbitmq::RabbitMq},
};
use tokio::runtime::Builder;
use tracing::warn;

use crate::{
    cli::{exit, logging, panic, signal},
    command::Command,
    config::{Config, LogFormat, PRECEDENCE, RawSettings},
};

fn main() -> ExitCode {
    panic::end_the_process();
    let ends = format!("{PRECEDENCE}\n\n{}", exit::help());
    let mut program =
        command::program().mut_subcommand("run", |run| run.after_long_help(ends.clone())).after_long_help(ends);
    let (command, raw) = match command::read(&mut program, std::env::args_os(), std::env::vars_os()) {
        Ok(read) => read,
        Err(error) => error.exit(), // the help text, or a usage error: code 2
    };
    match command {
        Command::Completions(options) => return end(command::completions(program, options), LogFormat::Text),
        Command::Man(options) => return end(command::manual(program, &options), LogFormat::Text),
        Command::Version(options) => return end(command::version(options), LogFormat::Text),
        _ => {}
    }
    let config = match raw.resolve(command.servers()) {
        Ok(config) => config,
        Err(invalid) => {
            invalid.problems().for_each(logging::complain);
            return exit::code(Kind::Usage).into();
        }
    };
    let format = config.log_format;
    match command {
        Command::Run => end(logging::start(&config).and_then(|()| block_on(run(&config, &raw))), format),
        Command::Config(options) => end(command::config(&raw, &options), format),
        Command::ClientCommand(command) => match run_command(command, &config) {
            Ok(Answer::No) => exit::NO.into(),
            Ok(Answer::Interrupted(code)) => code.into(),
            done => end(done.map(|_| ()), format),
        },
        Command::Completions(_) | Command::Man(_) | Command::Version(_) => ExitCode::SUCCESS, // handled above
    }
}

/// Logs why the program failed, if it did, and returns its exit code.
fn end(done: Result<(), RunError>, format: LogFormat) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = exit::code(error.kind());
            logging::failure(format, &error, code);
            code.into()
        }
    }
}

/// Runs a command. Only `init` starts logging, because the relay's own steps towards a slot are worth a log; the other
/// commands print their results.
fn run_command(command: ClientCommand, config: &Config) -> Result<Answer, RunError> {
    if matches!(command, ClientCommand::Init(_)) {
        logging::start(config)?;
    }
    let config = config.console();
    match &config.relay.sink {
        Some(SinkConfig::Kafka(_)) => block_on(commands::run::<console::kafka::Kafka>(command, &config)),
        Some(SinkConfig::RabbitMq(_)) | None => {
            block_on(commands::run::<console::rabbitmq::RabbitMq>(command, &config))
        }
    }
}

/// Starts the console, each part on a thread of its own, and relays until a signal asks for the end.
async fn run(config: &Config, raw: &RawSettings) -> Result<(), RunError> {
    for (setting, place) in raw.retired() {
        warn!(target: "relay", setting = setting.key, place, instead = setting.instead, "this setting has no effect any more");
    }
    let signals = signal::Signals::listen()
        .map_err(|error| RunError::new(Kind::Internal, "cannot listen for signals").source(error))?;
    let console = config.console();
    match &console.relay.sink {
        Some(SinkConfig::Kafka(_)) => relay::<Kafka>(&console, signals).await,
        Some(SinkConfig::RabbitMq(_)) | None => relay::<RabbitMq>(&console, signals).await,
    }
}

async fn relay<B: Connect>(console: &outbox_console::Config, mut signals: signal::Signals) -> Result<(), RunError> {
    let observed = Arc::new(Observed::new(B::KIND));
    let _admin = Admin::start(console, &observed)?;
    let _retention = Retention::start(&console.relay, console.retention, &observed)?;
    outbox_service::run::<B>(&console.relay, &observed, signals.first()).await
}

/// Runs a command with one thread. The tasks pass small pieces of work to each other all the time, and waking another
/// thread for each costs more than a second thread brings: on two cores an event took 9 microseconds of CPU with two
/// threads, and 5 to 8 with one.
fn block_on<T>(command: impl Future<Output = Result<T, RunError>>) -> Result<T, RunError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| RunError::new(Kind::Internal, "cannot start the runtime").source(error))?;
    let ended = runtime.block_on(command);
    runtime.shutdown_background(); // a pending name lookup must not delay the exit
    ended
}
