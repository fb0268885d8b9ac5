//! The program: reads the settings, starts the relay, and ends with an exit code that says why.

mod cli;

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use cli::{exit, logging, signal};
use relay::{
    InitReport,
    config::{self, Command, Config},
    error::{Kind, RunError},
};
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let command_line = config::command().after_long_help(format!("{}\n\n{}", config::PRECEDENCE, exit::help()));
    let (command, given) = match config::parse(command_line, std::env::args_os(), std::env::vars_os()) {
        Ok(read) => read,
        Err(error) => error.exit(), // the help text, or a usage error: code 2
    };
    let config = match given.resolve(command) {
        Ok(config) => config,
        Err(invalid) => {
            invalid.problems().for_each(logging::complain);
            return exit::code(Kind::Usage).into();
        }
    };
    let format = config.log_format;
    let done = match command {
        Command::Run => logging::start(&config).and_then(|()| block_on(run(config))),
        Command::Init => logging::start(&config).and_then(|()| block_on(init(config))),
        Command::CheckConfig => print(&given.describe()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = exit::code(error.kind());
            logging::failure(format, &error, code);
            code.into()
        }
    }
}

async fn run(config: Config) -> Result<(), RunError> {
    let mut signals = signal::Signals::listen()
        .map_err(|error| RunError::new(Kind::Internal, "cannot listen to signals").source(error))?;
    relay::run(config, signals.first()).await
}

async fn init(config: Config) -> Result<(), RunError> {
    let InitReport { publication: (publication, found), slot: (slot, state) } = relay::init(&config).await?;
    print(&format!("publication {publication}: {found}\nslot {slot}: {state}\n"))
}

/// Runs a command with one thread. The tasks pass small pieces of work to each other all the time, and waking another thread for
/// each costs more than a second thread brings: on two cores an event took 9 microseconds of CPU with two threads, and 5 to 8 with one.
fn block_on(command: impl Future<Output = Result<(), RunError>>) -> Result<(), RunError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| RunError::new(Kind::Internal, "cannot start the runtime").source(error))?;
    let ended = runtime.block_on(command);
    runtime.shutdown_background(); // a name that is being looked up must not delay the end
    ended
}

fn print(text: &str) -> Result<(), RunError> {
    stdout()
        .write_all(text.as_bytes())
        .map_err(|error| RunError::new(Kind::Internal, "cannot write to standard output").source(error))
}
