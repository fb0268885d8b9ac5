//! `init`: creates publication and slot.

use outbox_service::{Config, InitReport, error::RunError};
use serde::Serialize;

use crate::{
    format::escaped,
    terminal::{
        Answer,
        output::{Form, Output},
    },
};

/// Create the publication and the replication slot, and say what was done
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, Serialize)]
struct Done {
    publication: String,
    /// The result: `created`, `exists` or `repaired`.
    publication_state: String,
    slot: String,
    slot_state: String,
}

pub(super) async fn run(config: &Config, options: Options) -> Result<Answer, RunError> {
    let InitReport { publication: (publication, found), slot: (slot, state) } = outbox_service::init(config).await?;
    let done = Done { publication, publication_state: found, slot, slot_state: state.to_string() };
    let mut output = Output::new(options.form);
    if output.json {
        output.object(&done)?;
    } else {
        let Done { publication, publication_state, slot, slot_state } = done;
        let (publication, slot) = (escaped(&publication), escaped(&slot));
        output.print(&format!("publication {publication}: {publication_state}\nslot {slot}: {slot_state}\n"))?;
    }
    Ok(Answer::Yes)
}
