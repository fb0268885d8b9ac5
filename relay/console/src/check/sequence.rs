//! Check of the sequence of `seq`, on which the order of a key's events depends.

use tokio_postgres::Error;

use crate::findings::Report;
use crate::queries::session::Session;

/// Codes of `outbox.sequence_state()` on which only the owner can act.
const NEEDS_THE_OWNER: [(&str, &str); 3] = [
    ("no_sequence", "make seq GENERATED ALWAYS AS IDENTITY again, and then SELECT outbox.ensure_sequence()"),
    (
        "near_end",
        "once no event is PENDING, delete those with such numbers, and ALTER SEQUENCE outbox.events_seq_seq RESTART WITH 1",
    ),
    (
        "foreign_sequence",
        "make seq GENERATED ALWAYS AS IDENTITY again, or give the sequence to the owner of outbox.events: ALTER SEQUENCE ... OWNER TO",
    ),
];

/// State of the sequence of `seq`.
const SEQUENCE: &str = "SELECT next_value, codes, fault FROM outbox.sequence_state()";

pub(super) async fn inspect(session: &Session, report: &mut Report) -> Result<(), Error> {
    let row = session.client.query_one(SEQUENCE, &[]).await?;
    let (next, codes): (Option<i64>, Vec<String>) = (row.try_get("next_value")?, row.try_get("codes")?);
    let Some(fault) = row.try_get::<_, Option<&str>>("fault")? else {
        let next = next.map_or_else(|| "none".to_owned(), |next| next.to_string());
        report.ok("sequence", format!("the next event gets the number {next}, beyond all that there are"));
        return Ok(());
    };
    let owners = NEEDS_THE_OWNER.into_iter().find(|(code, _)| codes.iter().any(|found| found == code));
    let to_do = owners.map_or(
        "a relay mends it at its start and within check_interval, if it may; or as the owner: SELECT outbox.ensure_sequence()",
        |(_, to_do)| to_do,
    );
    report.bad("sequence", format!("later events of a key can leave before earlier ones: {fault}"), to_do);
    Ok(())
}
